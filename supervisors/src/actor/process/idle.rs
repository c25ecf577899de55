//! What an actor does without events: it rests after some seconds, and leaves memory after the idle
//! timeout.

use std::time::Duration;

use ractor::{ActorRef, MessagingErr};
use tokio::task::JoinHandle;

use super::{ActorProcess, State};
use crate::actor::mailbox::ActorMessage;
use crate::tap::Happening;

/// After so long without an event, what only the next one would use is given back. To open a database
/// again takes a few hundred microseconds, which no actor is to pay many times a minute.
const REST_AFTER: Duration = Duration::from_secs(10);

/// The checks that are under way: one of each kind is enough. They end with the process: what waits for
/// its moment keeps all queues of the process in memory.
#[derive(Default)]
pub(super) struct Armed {
    rest: Option<Timer>,
    idle: Option<Timer>,
}

struct Timer(JoinHandle<Result<(), MessagingErr<ActorMessage>>>);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ActorProcess {
    pub(super) fn arm_checks(&self, myself: &ActorRef<ActorMessage>, state: &mut State) {
        // Asked last: it takes a lock, and this is at the end of every event.
        if state.checks.rest.is_none() && state.scope.has_open_database() {
            self.arm_rest_check(myself, state, REST_AFTER);
        }
        self.arm_idle_check(myself, state, self.0.idle_timeout);
    }

    pub(super) fn check_rest(&self, myself: &ActorRef<ActorMessage>, state: &mut State) {
        state.checks.rest = None;
        match REST_AFTER.checked_sub(state.last_event.elapsed()) {
            None | Some(Duration::ZERO) => state.scope.rest(),
            Some(left) => self.arm_rest_check(myself, state, left),
        }
    }

    pub(super) async fn check_idle(&self, myself: &ActorRef<ActorMessage>, state: &mut State) {
        state.checks.idle = None;
        let idle = state.last_event.elapsed();
        if idle < self.0.idle_timeout {
            self.arm_idle_check(myself, state, self.0.idle_timeout - idle);
        } else if state.shared.gate.close_if_idle() {
            self.leave_memory(myself, state, "idle").await;
        } else {
            self.arm_idle_check(myself, state, self.0.idle_timeout);
        }
    }

    /// Another node has the actor: nothing keeps this process but what is queued.
    pub(super) async fn leave_if_idle(&self, myself: &ActorRef<ActorMessage>, state: &mut State) {
        if state.shared.gate.close_if_idle() {
            self.leave_memory(myself, state, "elsewhere").await;
        }
    }

    /// The gate is closed: gives up instance, database and hold, and ends the process.
    pub(super) async fn leave_memory(
        &self,
        myself: &ActorRef<ActorMessage>,
        state: &mut State,
        cause: &'static str,
    ) {
        self.settle(state).await;
        state.instance = None;
        state.follows = None;
        if let Err(fault) = Box::pin(state.scope.leave()).await {
            // What was committed is in the WAL beside the file, and is read from there.
            tracing::error!(actor = %state.shared.address, error = %fault, "close failed");
        }
        state.residence = None;
        self.0.metrics.hibernations.with_label_values(&[cause]).inc();
        self.0.scope.tap.tell(&state.shared.address, || Happening::Hibernated { cause });
        myself.stop(None);
    }

    fn arm_rest_check(&self, myself: &ActorRef<ActorMessage>, state: &mut State, after: Duration) {
        let timer = || Timer(myself.send_after(after, || ActorMessage::RestCheck));
        state.checks.rest.get_or_insert_with(timer);
    }

    fn arm_idle_check(&self, myself: &ActorRef<ActorMessage>, state: &mut State, after: Duration) {
        let timer = || Timer(myself.send_after(after, || ActorMessage::IdleCheck));
        state.checks.idle.get_or_insert_with(timer);
    }
}
