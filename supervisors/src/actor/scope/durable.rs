//! Durable writes: what `exec-durable` promises, and how the next event may run meanwhile.
//!
//! Alone, a durable write waits inside its event, and the guest learns if it fails. While other events
//! wait for the actor it returns as soon as it is committed, and the output gate is closed until disk
//! or bucket have it: many events then share one fsync or one upload. The guest's code is the same, and
//! nobody outside can tell, but for a failure: the event fails instead of the call. ADR 0021.
//!
//! One task flushes while the gate is closed. It owns nothing of the actor.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::hold::capturing;
use super::{ActorScope, State};
use crate::event::{Mark, NotDurable};
use crate::ports::{ScopeFuture, SqlError, SqlValue, StorageFault};
use crate::replica::Settled;

impl ActorScope {
    pub(super) async fn write_durably(
        &self,
        sql: &str,
        params: Vec<SqlValue>,
    ) -> Result<u64, SqlError> {
        let started = Instant::now();
        let changed = self.with_database(|database| database.exec_before_sync(sql, params))?;
        self.sync_index()?;
        let may_go_on = self.may_go_on();
        if self.outputs.is_open() && !may_go_on {
            match self.replicas {
                Some(_) => self.settle_commits().await?,
                None => self.sync_inside().await?,
            }
            self.metrics.durable_write_seconds.observe(started.elapsed().as_secs_f64());
            return Ok(changed);
        }
        let mark = self.close_outputs(started)?;
        if !may_go_on {
            self.outputs
                .settled(mark)
                .await
                .map_err(|lost| SqlError::Internal(lost.to_string()))?;
        }
        Ok(changed)
    }

    /// Whether the event may go on before its write is durable: it is one that only answers, somebody
    /// waits for its end, all that could leave meanwhile is held, and what makes the write durable gets
    /// along with whoever writes.
    fn may_go_on(&self) -> bool {
        self.queue.waiting() > 0
            && self.lock().may_go_on()
            && self.outputs.holds_answer()
            && !self.outputs.is_full()
            && self.sockets.count_of(&self.address) == 0
    }

    /// Something leaves the actor beside its answer. Waits until what it may tell of is durable; from
    /// here on the event's durable writes wait inside it. None when there is nothing to wait for.
    pub(super) fn before_output(&self) -> Option<ScopeFuture<'static, Result<(), NotDurable>>> {
        self.lock().only_answers = false;
        if self.outputs.is_open() {
            return None;
        }
        let outputs = Arc::clone(&self.outputs);
        Some(Box::pin(async move { outputs.settled(outputs.written()).await }))
    }

    /// Everything written durably is durable.
    pub fn are_outputs_open(&self) -> bool {
        self.outputs.is_open()
    }

    /// So many answers are held that the next event has to wait.
    pub fn are_outputs_full(&self) -> bool {
        self.outputs.is_full()
    }

    /// Returns once every durable write is durable, or lost: then `is_given_up` says so. Between two
    /// events, or for one that does more than answer.
    pub async fn settle_outputs(&self) {
        let _ = self.outputs.settled(self.outputs.written()).await;
    }

    /// Whether the database or the hold failed since the last event ended.
    pub fn is_given_up(&self) -> bool {
        self.lock().given_up
    }

    /// Has this machine's disk keep what was committed.
    async fn sync_inside(&self) -> Result<(), SqlError> {
        let in_turn = self.lock().database.as_mut().and_then(|database| database.sync_in_turn());
        let Some(synced) = in_turn else { return self.sync() };
        synced.await.map_err(|fault| {
            self.lock().given_up = true;
            self.not_durable(&fault)
        })
    }

    /// As `sync_inside`, and the thread waits too.
    fn sync(&self) -> Result<(), SqlError> {
        self.with_database(|database| database.sync().map_err(|fault| self.not_durable(&fault)))
    }

    /// An alarm that is durable must be in an index that is.
    fn sync_index(&self) -> Result<(), SqlError> {
        let mut state = self.lock();
        let indexed = match self.has_alarm(&mut state) {
            Ok(true) => self.databases.sync_index(),
            Ok(false) => Ok(()),
            Err(fault) => Err(fault),
        };
        indexed.map_err(|fault| {
            state.given_up = true;
            self.not_durable(&fault)
        })
    }

    fn not_durable(&self, fault: &StorageFault) -> SqlError {
        tracing::error!(actor = %self.address, error = %fault, "write not durable");
        SqlError::Internal("the write could not be made durable".into())
    }

    /// Nothing leaves until what was committed is durable, and a task sees to that.
    fn close_outputs(&self, since: Instant) -> Result<Mark, SqlError> {
        let mut state = self.lock();
        if state.given_up {
            return Err(SqlError::Internal("the database failed meanwhile".into()));
        }
        let mark = self.outputs.write(since);
        if let Some(held) = &mut state.held {
            held.wrote(mark);
        }
        if !std::mem::replace(&mut state.flushes, true) {
            tokio::spawn(flush(self.me.clone()));
        }
        Ok(mark)
    }

    /// The next step of making everything written durable; none once it is.
    fn flush_step(&self) -> Option<ScopeFuture<'static, ()>> {
        let mut state = self.lock();
        let step = match self.replicas {
            Some(_) => self.ship_step(&mut state),
            None => self.sync_step(&mut state),
        };
        if step.is_none() {
            state.flushes = false;
        }
        step
    }

    fn sync_step(&self, state: &mut State) -> Option<ScopeFuture<'static, ()>> {
        if self.outputs.is_settled() {
            return None;
        }
        let mark = self.outputs.written();
        let Some(database) = state.database.as_mut().filter(|_| !state.given_up) else {
            self.lose_outputs(state);
            return None;
        };
        match database.sync_beside() {
            Some(synced) => {
                let scope = self.me.clone();
                Some(Box::pin(async move {
                    let synced = synced.await;
                    if let Some(scope) = scope.upgrade() {
                        let mut state = scope.lock();
                        scope.synced(&mut state, mark, synced);
                    }
                }))
            }
            // It moves the log, which must not be while a transaction is open.
            None if database.in_transaction() => {
                self.lose_outputs(state);
                None
            }
            None => {
                let synced = database.sync();
                self.synced(state, mark, synced);
                Some(Box::pin(std::future::ready(())))
            }
        }
    }

    fn synced(&self, state: &mut State, mark: Mark, synced: Result<(), StorageFault>) {
        match synced {
            Ok(()) => self.settle_to(mark),
            // Lost already, with the connection that wrote it.
            Err(_) if self.outputs.settled_to() >= mark => {}
            Err(fault) => {
                tracing::error!(actor = %self.address, error = %fault, "write not durable");
                self.lose_outputs(state);
            }
        }
    }

    fn ship_step(&self, state: &mut State) -> Option<ScopeFuture<'static, ()>> {
        if self.outputs.is_settled() {
            return None;
        }
        let State { held: Some(held), database, given_up: false, .. } = &mut *state else {
            self.lose_outputs(state);
            return None;
        };
        let settled = held.settle(capturing(database));
        self.settle_to(held.durable_mark());
        match settled {
            Ok(Settled::Wait(wait)) => return Some(Box::pin(wait)),
            Ok(Settled::Durable) => {}
            Err(error) => {
                tracing::warn!(actor = %self.address, %error, "not known to be durable");
                self.lose_outputs(state);
            }
        }
        None
    }

    fn settle_to(&self, mark: Mark) {
        for since in self.outputs.settle(mark) {
            self.metrics.durable_write_seconds.observe(since.elapsed().as_secs_f64());
        }
    }

    /// What was written is not known to become durable: nobody is told of it, and the actor goes on from
    /// what the disk or the bucket has.
    pub(super) fn lose_outputs(&self, state: &mut State) {
        if self.outputs.is_settled() {
            return;
        }
        state.given_up = true;
        let answers = self.outputs.lose();
        tracing::warn!(actor = %self.address, answers, "answers of lost writes refused");
    }
}

impl State {
    fn may_go_on(&self) -> bool {
        let gets_along = match &self.held {
            Some(held) => held.ships_beside(),
            None => self.database.as_ref().is_some_and(|database| database.syncs_beside()),
        };
        self.only_answers && gets_along
    }
}

async fn flush(scope: Weak<ActorScope>) {
    let mut end = FlushEnd { scope: scope.clone(), is_done: false };
    while let Some(step) = scope.upgrade().and_then(|scope| scope.flush_step()) {
        step.await;
    }
    end.is_done = true;
}

/// The task may end before its work does, with the runtime: what waits must not wait for ever.
struct FlushEnd {
    scope: Weak<ActorScope>,
    is_done: bool,
}

impl Drop for FlushEnd {
    fn drop(&mut self) {
        if let Some(scope) = self.scope.upgrade().filter(|_| !self.is_done) {
            let mut state = scope.lock();
            state.flushes = false;
            scope.lose_outputs(&mut state);
        }
    }
}
