//! What a guest's storage calls mean: opens the database at the first one, keeps the rules of
//! deletes and durability, and hands the SQL to `ports::Database`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::address::Address;
use crate::event::{Reason, Refusal};
use crate::limits::LOG_LINES_PER_SECOND;
use crate::metrics::Metrics;
use crate::ports::{
    Database, Databases, EventScope, Meta, OpenError, RowSet, ScopeFuture, SqlError, SqlValue,
    StorageFault,
};

/// What the event asked about the actor's own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Delete {
    #[default]
    NotAsked,
    AtTheEnd,
    Done,
    Failed,
}

struct State {
    database: Option<Box<dyn Database>>,
    deadline: Instant,
    delete: Delete,
    /// The database failed in this event: it must be closed and opened anew.
    given_up: bool,
    log_window: Instant,
    log_lines: u32,
}

/// The `EventScope` of one resident actor.
pub struct ActorScope {
    address: Address,
    databases: Arc<dyn Databases>,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

/// How an event left the actor's storage.
#[derive(Debug, PartialEq, Eq)]
pub enum EndOfEvent {
    /// As the guest left it, with what was still open rolled back.
    Kept,
    /// The actor deleted itself.
    Deleted,
    /// The database failed and was closed: the instance must go too.
    GivenUp,
}

impl ActorScope {
    pub fn new(
        address: Address,
        databases: Arc<dyn Databases>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            database: None,
            deadline: now,
            delete: Delete::NotAsked,
            given_up: false,
            log_window: now,
            log_lines: 0,
        };
        Arc::new(Self { address, databases, metrics, state: Mutex::new(state) })
    }

    pub fn begin_event(&self, deadline: Instant) {
        let mut state = self.lock();
        state.deadline = deadline;
        state.delete = Delete::NotAsked;
        if let Some(database) = &mut state.database {
            database.begin_event(deadline);
        }
    }

    /// Rolls back what is open, and carries out a delete the event asked for.
    pub fn end_event(&self) -> EndOfEvent {
        let mut state = self.lock();
        if !state.given_up
            && let Some(Err(fault)) = state.database.as_mut().map(|database| database.end_event())
        {
            tracing::error!(actor = %self.address, error = %fault, "database failed");
            state.given_up = true;
        }
        match state.delete {
            Delete::Done => return EndOfEvent::Deleted,
            Delete::AtTheEnd | Delete::Failed => {
                if let Err(fault) = self.delete_now(&mut state) {
                    tracing::error!(actor = %self.address, error = %fault, "delete failed");
                    return EndOfEvent::GivenUp;
                }
                return EndOfEvent::Deleted;
            }
            Delete::NotAsked => {}
        }
        if std::mem::take(&mut state.given_up) {
            state.database = None;
            return EndOfEvent::GivenUp;
        }
        EndOfEvent::Kept
    }

    /// The component whose `on-init` succeeded last for this actor.
    pub fn initialised_by(&self) -> Result<Option<String>, Refusal> {
        let mut state = self.lock();
        if state.database.is_none() && !self.databases.has_file(&self.address) {
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
        if matches!(state.delete, Delete::Done | Delete::Failed) {
            return Ok(());
        }
        match &mut state.database {
            Some(database) => database.set_meta(Meta::InitComponent, component),
            None => self.databases.set_fileless_init(&self.address, component),
        }
    }

    /// Ends `on-init`: what it left open is rolled back. The event's budgets run on.
    pub fn end_init(&self) -> Result<(), StorageFault> {
        match &mut self.lock().database {
            Some(database) => database.end_event().map(|_| ()),
            None => Ok(()),
        }
    }

    /// Closes the database, if it is open.
    pub fn close(&self) -> Result<(), StorageFault> {
        let database = self.lock().database.take();
        database.map_or(Ok(()), |database| database.close())
    }

    fn unusable(&self, error: &dyn std::error::Error) -> Refusal {
        tracing::error!(actor = %self.address, %error, "database unusable");
        Refusal::not_run(Reason::DatabaseUnusable)
    }

    fn open<'a>(&self, state: &'a mut State) -> Result<&'a mut dyn Database, OpenError> {
        if state.database.is_none() {
            let mut database = self.databases.open(&self.address)?;
            database.begin_event(state.deadline);
            state.database = Some(database);
        }
        Ok(state.database.as_deref_mut().expect("opened above"))
    }

    /// Runs one storage call of the guest.
    fn with_database<T>(
        &self,
        call: impl FnOnce(&mut dyn Database) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let mut state = self.lock();
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
        let result = match self.open(&mut state) {
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
    fn delete_now(&self, state: &mut State) -> Result<(), StorageFault> {
        state.database = None;
        state.given_up = false;
        self.databases.remove(&self.address)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock ends this actor's process, and its scope with it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventScope for ActorScope {
    fn address(&self) -> &Address {
        &self.address
    }

    fn exec(&self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError> {
        self.with_database(|database| database.exec(sql, params))
    }

    fn query(&self, sql: &str, params: Vec<SqlValue>) -> Result<RowSet, SqlError> {
        self.with_database(|database| database.query(sql, params))
    }

    fn exec_durable<'a>(
        &'a self,
        sql: &'a str,
        params: Vec<SqlValue>,
    ) -> ScopeFuture<'a, Result<u64, SqlError>> {
        let result = self.with_database(|database| {
            let changed = database.exec_before_sync(sql, params)?;
            database.sync().map_err(|fault| {
                tracing::error!(actor = %self.address, error = %fault, "write not durable");
                SqlError::Internal("the write could not be made durable".into())
            })?;
            Ok(changed)
        });
        Box::pin(std::future::ready(result))
    }

    fn delete_self(&self) {
        let mut state = self.lock();
        if state.delete == Delete::NotAsked {
            state.delete = Delete::AtTheEnd;
        }
    }

    fn delete_self_durable(&self) -> ScopeFuture<'_, Result<(), SqlError>> {
        let mut state = self.lock();
        let result = if state.database.as_ref().is_some_and(|database| database.in_transaction()) {
            Err(SqlError::NotAllowed(
                "the actor cannot be deleted inside a transaction; commit or roll back first"
                    .into(),
            ))
        } else {
            match self.delete_now(&mut state) {
                Ok(()) => {
                    state.delete = Delete::Done;
                    Ok(())
                }
                Err(fault) => {
                    tracing::error!(actor = %self.address, error = %fault, "delete failed");
                    state.delete = Delete::Failed;
                    Err(SqlError::Internal("the delete could not be made durable".into()))
                }
            }
        };
        Box::pin(std::future::ready(result))
    }

    fn log(&self, line: &str, is_error: bool) {
        let mut state = self.lock();
        if state.log_window.elapsed().as_secs() >= 1 {
            state.log_window = Instant::now();
            state.log_lines = 0;
        }
        state.log_lines += 1;
        if state.log_lines > LOG_LINES_PER_SECOND {
            self.metrics.guest_log_lines_dropped.inc();
            return;
        }
        drop(state);
        self.metrics.guest_log_lines.inc();
        let stream = if is_error { "stderr" } else { "stdout" };
        tracing::info!(target: "wasmkeep::guest", actor = %self.address, stream, "{line}");
    }
}
