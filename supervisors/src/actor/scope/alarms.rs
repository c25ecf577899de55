//! What a guest's alarm calls mean, and how the node's index follows the database.
//!
//! Before a new or earlier alarm is written, the index has it; after an event the index is given
//! what the database then says. So a crash at any moment leaves the index early at worst.

use super::{ActorScope, State};
use crate::alarm::record::Alarm;
use crate::alarm::rules;
use crate::ports::{Database, Meta, SqlError, StorageFault};
use crate::time::Timestamp;

/// How an attempt of `on-alarm` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    pub succeeded: bool,
}

impl ActorScope {
    /// The attempt of `on-alarm` that is due now, if one is: as the database says, and not the
    /// index.
    pub fn due_attempt(&self) -> Result<Option<u32>, StorageFault> {
        let mut state = self.lock();
        state.alarm_changed = true;
        // Who asks has read an entry that may be wrong: it is written anew.
        state.indexed = None;
        Ok(self.due(&mut state)?.map(|(_, number)| number))
    }

    /// As `due_attempt`, and that attempt begins: until the event ends, alarm calls concern the
    /// alarm after this one.
    pub fn begin_alarm(&self) -> Result<Option<u32>, StorageFault> {
        let mut state = self.lock();
        let Some((alarm, number)) = self.due(&mut state)? else { return Ok(None) };
        if let Some(database) = self.existing(&mut state)?
            && read(database, Meta::NextAlarm)?.is_some()
        {
            // Of an attempt that a crash cut off: this one takes its place.
            database.set_meta(Meta::NextAlarm, None)?;
        }
        state.firing = true;
        state.attempt = number;
        let late = self.clock.now().since(alarm.due);
        self.metrics.alarm_lateness_seconds.observe(late.as_secs_f64());
        Ok(Some(number))
    }

    /// The alarm that is due now, and which attempt of it.
    fn due(&self, state: &mut State) -> Result<Option<(Alarm, u32)>, StorageFault> {
        let Some(database) = self.existing(state)? else { return Ok(None) };
        let pending = read(database, Meta::Alarm)?;
        Ok(pending.zip(rules::attempt_due(pending, self.clock.now())))
    }

    /// Writes what is pending once `on-alarm` has ended.
    pub(super) fn settle(&self, state: &mut State, attempt: Attempt) -> Result<(), StorageFault> {
        let Some(database) = self.existing(state)? else { return Ok(()) };
        let next = read(database, Meta::NextAlarm)?;
        let Attempt { number, succeeded } = attempt;
        let pending = rules::after_attempt(number, succeeded, next, self.clock.now());
        write(database, Meta::Alarm, pending)?;
        if next.is_some() {
            // Had a crash left it, the next attempt would remove it.
            database.set_meta(Meta::NextAlarm, None)?;
        }
        Ok(())
    }

    /// Gives the index what the database says, and tells the timer.
    pub(super) fn index_alarm(&self, state: &mut State) -> Result<(), StorageFault> {
        let due = self.pending(state)?;
        self.enter(state, due)
    }

    /// In a cluster: gives the index an alarm that is earlier than what it has. A later one, or none,
    /// has to wait until the bucket has it too: should this hold be lost, the earlier one is pending
    /// there, and nobody else would look after it.
    pub(super) fn index_early(&self, state: &mut State) -> Result<(), StorageFault> {
        let (due, indexed) = (self.pending(state)?, self.indexed(state)?);
        state.owes_index = indexed.is_some_and(|indexed| due.is_none_or(|due| due > indexed));
        if state.owes_index { Ok(()) } else { self.enter(state, due) }
    }

    /// When the pending alarm is due, as the database has it.
    fn pending(&self, state: &mut State) -> Result<Option<Timestamp>, StorageFault> {
        let due = match self.existing(state)? {
            Some(database) => read(database, Meta::Alarm)?.map(|alarm| alarm.due),
            None => None,
        };
        state.has_alarm = Some(due.is_some());
        Ok(due)
    }

    fn enter(&self, state: &mut State, due: Option<Timestamp>) -> Result<(), StorageFault> {
        if state.indexed != Some(due) {
            self.databases.index_alarm(&self.address, due)?;
            state.indexed = Some(due);
        }
        if let Some(due) = due {
            self.bell.ring(due);
        }
        Ok(())
    }

    /// What the index has.
    fn indexed(&self, state: &mut State) -> Result<Option<Timestamp>, StorageFault> {
        let indexed = match state.indexed {
            Some(indexed) => indexed,
            None => self.databases.indexed_alarm(&self.address)?,
        };
        state.indexed = Some(indexed);
        Ok(indexed)
    }

    /// After an event that owes the index something: has the bucket know first. False when the hold is
    /// lost; then the index wakes the actor too early, which runs nothing.
    pub async fn settle_index(&self) -> bool {
        if !std::mem::take(&mut self.lock().owes_index) {
            return true;
        }
        let settled = self.settle_commits().await.is_ok();
        let mut state = self.lock();
        if !settled {
            self.give_up_hold(&mut state);
            return false;
        }
        if let Err(fault) = self.index_alarm(&mut state) {
            tracing::error!(actor = %self.address, error = %fault, "alarm not entered");
            self.give_up_hold(&mut state);
            return false;
        }
        true
    }

    /// Whether an alarm is pending: then a durable write must make the index durable too.
    pub(super) fn has_alarm(&self, state: &mut State) -> Result<bool, StorageFault> {
        if let Some(known) = state.has_alarm {
            return Ok(known);
        }
        Ok(self.pending(state)?.is_some())
    }

    pub(super) fn set(&self, at: Timestamp) -> Result<(), SqlError> {
        let mut state = self.lock();
        if state.is_deleted() {
            return Ok(());
        }
        if let Err(fault) = self.index_before(&mut state, at) {
            tracing::error!(actor = %self.address, error = %fault, "alarm not entered");
            state.given_up = true;
            let why = "the alarm could not be entered into the node's index";
            return Err(SqlError::Internal(why.into()));
        }
        state.alarm_changed = true;
        state.has_alarm = Some(true);
        let key = state.alarm_key();
        self.with_open(&mut state, |database| {
            write(database, key, Some(Alarm::new(at))).map_err(|fault| internal(&fault))
        })
    }

    pub(super) fn get(&self) -> Result<Option<Timestamp>, SqlError> {
        let mut state = self.lock();
        if state.is_deleted() || !self.exists_now(&state) {
            return Ok(None);
        }
        let key = state.alarm_key();
        self.with_open(&mut state, |database| {
            let alarm = read(database, key).map_err(|fault| internal(&fault))?;
            Ok(alarm.map(|alarm| alarm.due))
        })
    }

    pub(super) fn clear(&self) -> Result<(), SqlError> {
        let mut state = self.lock();
        if state.is_deleted() || !self.exists_now(&state) {
            return Ok(());
        }
        state.alarm_changed = true;
        let key = state.alarm_key();
        self.with_open(&mut state, |database| {
            match read(database, key).map_err(|fault| internal(&fault))? {
                Some(_) => write(database, key, None).map_err(|fault| internal(&fault)),
                None => Ok(()),
            }
        })
    }

    /// Enters an alarm that is earlier than what the index has. A later one stays out until the
    /// event ends: by then the database may have been rolled back to the earlier.
    fn index_before(&self, state: &mut State, at: Timestamp) -> Result<(), StorageFault> {
        let indexed = self.indexed(state)?;
        if indexed.is_none_or(|indexed| at < indexed) {
            self.databases.index_alarm(&self.address, Some(at))?;
            state.indexed = Some(Some(at));
            // Not only at the end: a process that panics has committed it all the same.
            self.bell.ring(at);
        }
        Ok(())
    }
}

impl State {
    /// Where the alarm that the guest speaks of is kept.
    fn alarm_key(&self) -> Meta {
        if self.firing { Meta::NextAlarm } else { Meta::Alarm }
    }
}

fn read(database: &mut dyn Database, key: Meta) -> Result<Option<Alarm>, StorageFault> {
    let Some(text) = database.meta(key)? else { return Ok(None) };
    let alarm = Alarm::from_text(&text);
    if alarm.is_none() {
        // Only the host writes there. To run it once too often does no harm.
        tracing::error!(%text, "alarm of an unknown form is taken for due");
    }
    Ok(Some(alarm.unwrap_or(Alarm::new(Timestamp(0)))))
}

fn write(database: &mut dyn Database, key: Meta, alarm: Option<Alarm>) -> Result<(), StorageFault> {
    database.set_meta(key, alarm.map(Alarm::to_text).as_deref())
}

fn internal(fault: &StorageFault) -> SqlError {
    SqlError::Internal(fault.to_string())
}
