//! What a guest's storage calls and deletes mean, and what the process asks of the database.

use super::hold::no_hold;
use super::{ActorScope, Delete, State};
use crate::event::{Reason, Refusal};
use crate::ports::{Database, Meta, OpenError, SqlError, StorageFault};

impl ActorScope {
    /// Whether anything of the actor is there.
    pub fn exists(&self) -> Result<bool, Refusal> {
        if self.exists_now(&self.lock()) {
            return Ok(true);
        }
        if self.replicas.is_some() {
            return Ok(false);
        }
        let known = self.databases.fileless_init(&self.address).map_err(|f| self.unusable(&f))?;
        Ok(known.is_some())
    }

    /// Whether the actor has a database.
    pub(super) fn exists_now(&self, state: &State) -> bool {
        state.database.is_some() || self.databases.has_file(&self.address)
    }

    /// The database, opened if need be, but not made.
    pub(super) fn existing<'a>(
        &self,
        state: &'a mut State,
    ) -> Result<Option<&'a mut dyn Database>, StorageFault> {
        if !self.exists_now(state) {
            return Ok(None);
        }
        self.open(state).map(Some).map_err(StorageFault::from)
    }

    /// The component whose `on-init` succeeded last for this actor.
    pub fn initialised_by(&self) -> Result<Option<String>, Refusal> {
        let mut state = self.lock();
        if !self.exists_now(&state) {
            // What this node's index knows of an actor may be of a hold long ago.
            if self.replicas.is_some() {
                return Ok(None);
            }
            return self.databases.fileless_init(&self.address).map_err(|f| self.unusable(&f));
        }
        let database = self.open(&mut state).map_err(|error| match &error {
            OpenError::Damaged { .. } => self.unusable(&error),
            OpenError::Failed(fault) => {
                tracing::error!(actor = %self.address, error = %fault, "database did not open");
                Refusal::not_run(Reason::Unavailable)
                    .with_detail("the actor's database did not open; retry")
            }
        })?;
        database.meta(Meta::InitComponent).map_err(|fault| self.unusable(&fault))
    }

    /// Remembers that `on-init` of `component` succeeded; of an actor it deleted nothing may stay.
    pub fn set_initialised_by(&self, component: &str) -> Result<(), StorageFault> {
        let mut state = self.lock();
        if state.is_deleted() {
            return Ok(());
        }
        if state.database.is_none() && self.replicas.is_none() {
            return self.databases.set_fileless_init(&self.address, component);
        }
        // In a cluster only the database goes along with the actor.
        let database = self.open(&mut state)?;
        database.set_meta(Meta::InitComponent, Some(component))
    }

    /// Ends `on-init`: what it left open is rolled back. The event's budgets run on.
    pub fn end_init(&self) -> Result<(), StorageFault> {
        match &mut self.lock().database {
            Some(database) => database.end_event().map(|_| ()),
            None => Ok(()),
        }
    }

    pub fn has_open_database(&self) -> bool {
        self.lock().database.is_some()
    }

    /// Between two events: gives back memory that only the next one would use.
    pub fn rest(&self) {
        let mut state = self.lock();
        // A disk may take longer for a write than an actor waits for its next event.
        if state.given_up || state.flushes || !self.outputs.is_open() {
            return;
        }
        let Some(database) = state.database.take_if(|database| database.rest()) else { return };
        self.metrics.rests.inc();
        if let Err(fault) = database.close() {
            // As when it leaves memory: what was committed is in the files.
            tracing::error!(actor = %self.address, error = %fault, "close failed");
        }
    }

    fn unusable(&self, error: &dyn std::error::Error) -> Refusal {
        tracing::error!(actor = %self.address, %error, "database unusable");
        Refusal::not_run(Reason::DatabaseUnusable)
    }

    pub(super) fn open<'a>(&self, state: &'a mut State) -> Result<&'a mut dyn Database, OpenError> {
        if state.database.is_none() {
            let mut database = self.databases.open(&self.address)?;
            database.begin_event(state.deadline);
            state.database = Some(database);
        }
        Ok(state.database.as_deref_mut().expect("opened above"))
    }

    /// Runs one storage call of the guest.
    pub(super) fn with_database<T>(
        &self,
        call: impl FnOnce(&mut dyn Database) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.with_open(&mut self.lock(), call)
    }

    pub(super) fn with_open<T>(
        &self,
        state: &mut State,
        call: impl FnOnce(&mut dyn Database) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        match state.delete {
            Delete::NotAsked | Delete::AtTheEnd => {}
            Delete::Done => {
                return Err(SqlError::NotAllowed("the actor was deleted in this event".into()));
            }
            Delete::Failed => {
                return Err(SqlError::NotAllowed(
                    "the actor's delete failed in this event; only the delete may be retried"
                        .into(),
                ));
            }
        }
        if state.given_up {
            return Err(SqlError::Internal("the database failed earlier in this event".into()));
        }
        if !state.may_write() {
            return Err(no_hold());
        }
        let result = match self.open(state) {
            Ok(database) => call(database),
            Err(error) => {
                tracing::error!(actor = %self.address, %error, "database did not open");
                Err(SqlError::Internal("the actor's database did not open".into()))
            }
        };
        if matches!(result, Err(SqlError::Internal(_))) {
            state.given_up = true;
        }
        result
    }

    /// The one routine behind every delete: nothing of the actor stays on this node.
    pub(super) fn delete_now(&self, state: &mut State, how: &str) -> Result<(), StorageFault> {
        state.forget_database();
        state.given_up = false;
        self.outputs.begin_anew();
        state.alarm_changed = false;
        let removed = self.databases.remove(&self.address);
        self.metrics.deleted(how, removed.is_ok());
        removed
    }

    pub(super) async fn delete_durably(&self) -> Result<(), SqlError> {
        // Answers that tell of what is deleted leave before it is.
        if let Some(settled) = self.before_output() {
            settled.await.map_err(|lost| SqlError::Internal(lost.to_string()))?;
        }
        let in_transaction = {
            let state = self.lock();
            state.database.as_ref().is_some_and(|database| database.in_transaction())
        };
        if in_transaction {
            return Err(SqlError::NotAllowed(
                "the actor cannot be deleted inside a transaction; commit or roll back first"
                    .into(),
            ));
        }
        let removed = {
            let mut state = self.lock();
            if !state.may_write() {
                return Err(no_hold());
            }
            // Until all of it is done: who waits for this may leave at any time.
            state.delete = Delete::Failed;
            self.delete_now(&mut state, "self_durable")
        };
        let deleted = match removed {
            Err(fault) => {
                tracing::error!(actor = %self.address, error = %fault, "delete failed");
                Err(SqlError::Internal("the delete could not be made durable".into()))
            }
            Ok(()) if self.replicas.is_some() => self.ship_reset().await,
            Ok(()) => Ok(()),
        };
        if deleted.is_ok() {
            self.lock().delete = Delete::Done;
        }
        deleted
    }
}
