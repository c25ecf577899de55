//! What a cluster adds: the hold without which an actor does nothing here, and the way of what it
//! writes to the bucket. On a node of its own there is none of it.

use std::future::Future;

use super::{ActorScope, State};
use crate::event::MayAnswer;
use crate::ownership::AcquireError;
use crate::ports::{Capturing, Database, OpenError, SqlError, StorageFault};
use crate::replica::{Held, HoldError, Settled, ShipError};
use crate::time::Timestamp;

impl ActorScope {
    /// Whether an event may start here.
    pub fn may_run(&self) -> bool {
        self.replicas.is_none() || self.lock().held.as_ref().is_some_and(Held::may_run)
    }

    /// Whether the actor is held here: an event that runs may go on.
    pub fn is_held(&self) -> bool {
        self.lock().may_write()
    }

    /// Whether an answer may still leave; none where it always may.
    pub fn may_answer(&self) -> Option<MayAnswer> {
        let right = self.lock().held.as_ref()?.right().clone();
        Some(Box::new(move || right.is_valid()))
    }

    /// The actor is held here from now on, and its file is the head of its history, or becomes its
    /// beginning.
    pub async fn receive(&self, mut held: Held) -> Result<(), HoldError> {
        let mut database = None;
        if self.databases.has_file(&self.address) {
            let mut opened = self.databases.open(&self.address).map_err(|error| match error {
                OpenError::Failed(fault) => HoldError::Storage(fault),
                OpenError::Damaged { cause, .. } => HoldError::Broken(cause),
            })?;
            if let Some(capturing) = opened.capturing() {
                held.opened(capturing).await.map_err(lost)?;
            }
            database = Some(opened);
        }
        let mut state = self.lock();
        state.forget_database();
        state.is_new_here = true;
        state.owes_disown = false;
        (state.held, state.database) = (Some(held), database);
        Ok(())
    }

    /// Ends the hold, if there is one, and whatever rests on it. Between two events.
    pub fn lose_hold(&self) {
        self.give_up_hold(&mut self.lock());
    }

    /// Ships what could not be while an upload was under way. Between two events; false when the hold
    /// is lost.
    pub fn ship_more(&self) -> bool {
        let mut state = self.lock();
        self.ship(&mut state);
        !std::mem::take(&mut state.given_up)
    }

    /// Ends when an upload has ended while commits wait for it; none without a hold.
    pub fn shipped(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.lock().held.as_ref().map(Held::shipped)
    }

    /// Closes the database, and gives the hold back once everything is in the bucket. An actor with
    /// WebSockets keeps its hold: it wakes here, without a word to the bucket.
    pub async fn leave(&self) -> Result<(), StorageFault> {
        let (held, database) = {
            let mut state = self.lock();
            let database = state.database.take();
            state.forget_database();
            (state.held.take(), database)
        };
        match (held, database) {
            (Some(held), database) if self.sockets.count_of(&self.address) > 0 => {
                held.park(database).await;
            }
            (Some(held), database) => held.leave(database, None).await,
            (None, Some(database)) => return database.close(),
            (None, None) => self.disown().await,
        }
        Ok(())
    }

    /// After an event that deleted the actor: tells the bucket, if it is owed that. False when the hold
    /// is lost: then the delete did not happen.
    pub async fn ship_delete(&self) -> bool {
        if !std::mem::take(&mut self.lock().owes_reset) {
            return true;
        }
        let shipped = self.ship_reset().await.is_ok();
        if shipped {
            self.end_sockets();
        } else {
            self.lose_hold();
        }
        shipped
    }

    /// After a hold was given up: the record names this node, which wants nothing of the actor any more.
    async fn disown(&self) {
        let owes = std::mem::take(&mut self.lock().owes_disown);
        let Some(replicas) = self.replicas.as_ref().filter(|_| owes) else { return };
        if let Err(error) = replicas.owners().disown(&self.address).await {
            tracing::warn!(actor = %self.address, %error, "record not freed");
        }
    }

    /// At an event's end: what it committed is on its way.
    pub(super) fn ship(&self, state: &mut State) {
        let State { held: Some(held), database, .. } = state else { return };
        let shipped = held.event_ended(capturing(database));
        if let Err(fault) = shipped {
            tracing::error!(actor = %self.address, error = %fault, "commits not captured");
            state.given_up = true;
        } else if held.is_lost() {
            state.given_up = true;
        }
    }

    /// Closes the database and ends the hold without a word: what became of the last upload is not
    /// known, so the next hold restores what the bucket has.
    pub(super) fn give_up_hold(&self, state: &mut State) {
        self.lose_outputs(state);
        // First: the file is set aside, and must not be open.
        state.forget_database();
        state.given_up = false;
        self.outputs.begin_anew();
        if let Some(held) = state.held.take() {
            held.give_up();
            state.owes_disown = true;
        }
    }

    /// Returns once everything this actor committed is in every later restore.
    pub(super) async fn settle_commits(&self) -> Result<(), SqlError> {
        loop {
            let wait = {
                let mut state = self.lock();
                let State { held: Some(held), database, .. } = &mut *state else {
                    return Err(no_hold());
                };
                match held.settle(capturing(database)) {
                    Ok(Settled::Durable) => return Ok(()),
                    Ok(Settled::Wait(wait)) => wait,
                    Err(error) => {
                        tracing::warn!(actor = %self.address, %error, "not known to be durable");
                        state.given_up = true;
                        return Err(SqlError::Internal(
                            "it is not known to have reached the bucket".into(),
                        ));
                    }
                }
            };
            wait.await;
        }
    }

    /// Makes the end of everything the actor had durable in the bucket. Its files are gone here.
    pub(super) async fn ship_reset(&self) -> Result<(), SqlError> {
        let begun = self.begin_reset(&mut self.lock());
        let shipped = match begun {
            Ok(()) => self.settle_commits().await,
            Err(error) => Err(error),
        };
        if shipped.is_err() {
            self.look_for_alarm();
        }
        shipped
    }

    /// The bucket may have an alarm that the index has no more: the actor is woken, and looks.
    fn look_for_alarm(&self) {
        match self.databases.index_alarm(&self.address, Some(Timestamp(0))) {
            Ok(()) => self.bell.ring(Timestamp(0)),
            Err(fault) => {
                tracing::error!(actor = %self.address, error = %fault, "alarm not entered");
            }
        }
    }

    fn begin_reset(&self, state: &mut State) -> Result<(), SqlError> {
        if let Err(error) = self.open(state) {
            tracing::error!(actor = %self.address, %error, "empty database did not open");
            state.given_up = true;
            return Err(SqlError::Internal("the actor's database did not open".into()));
        }
        let State { held: Some(held), database, .. } = state else { return Err(no_hold()) };
        if let Some(database) = capturing(database) {
            held.begin_reset(database);
        }
        Ok(())
    }
}

fn lost(error: ShipError) -> HoldError {
    match error {
        ShipError::Storage(fault) => HoldError::Storage(fault),
        ShipError::Lost(_) => HoldError::Acquire(AcquireError::LostRace),
    }
}

pub(super) fn no_hold() -> SqlError {
    SqlError::Internal("this node does not have the actor any more".into())
}

pub(super) fn capturing(database: &mut Option<Box<dyn Database>>) -> Option<&mut dyn Capturing> {
    database.as_mut()?.capturing()
}
