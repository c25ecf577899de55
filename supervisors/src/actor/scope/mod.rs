//! What an actor may ask during one event: its storage in `storage`, what makes it durable in
//! `durable`, its calls in `calls`, its alarm in `alarms`, its WebSockets in `sockets`, its hold in a
//! cluster in `hold`; what begins and ends an event is here.

mod alarms;
mod calls;
mod durable;
mod hold;
mod inspect;
mod sockets;
mod storage;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

pub use alarms::Attempt;

use crate::actor::queue::Gate;
use crate::address::Address;
use crate::alarm::Bell;
use crate::call::CallPorts;
use crate::event::{
    AttachmentError, Caller, CloseError, Message, NotDurable, OutputGate, SendError, SocketId,
};
use crate::guest_log::LogRate;
use crate::limits::LOG_LINES_PER_SECOND;
use crate::metrics::Metrics;
use crate::ports::{
    CallError, CallRequest, CallResponse, Clock, Database, Databases, EventScope, GuestScope,
    RowSet, ScopeFuture, SqlError, SqlValue, StorageFault,
};
use crate::replica::{Held, Replicas};
use crate::socket::{Socket, Sockets};
use crate::tap::{Happening, Tap};
use crate::time::Timestamp;
use crate::values::Values;

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
    /// In a cluster: what lets this node act for the actor.
    held: Option<Held>,
    is_clustered: bool,
    /// The actor deleted itself, and the bucket is not told yet.
    owes_reset: bool,
    /// The index has an alarm that the database has no more, and the bucket may have.
    owes_index: bool,
    /// A hold was given up, and the record names this node all the same.
    owes_disown: bool,
    /// The hold is new: the index of this node may not have the actor's alarm.
    is_new_here: bool,
    deadline: Instant,
    delete: Delete,
    /// The database failed in this event: it must be closed and opened anew.
    given_up: bool,
    /// Who sent the present event.
    caller: Caller,
    /// An alarm is firing: the guest's calls concern the one after it.
    firing: bool,
    /// Which attempt of `on-alarm` runs; 0 in other handlers.
    attempt: u32,
    /// The event may have changed the alarm: the index may have to follow.
    alarm_changed: bool,
    /// What the index says, once that is known.
    indexed: Option<Option<Timestamp>>,
    /// Whether an alarm is pending, once that is known.
    has_alarm: Option<bool>,
    /// The event is a request, and has let nothing out beside what the output gate holds.
    only_answers: bool,
    /// A task makes durable what the output gate waits for.
    flushes: bool,
    log: LogRate,
    /// The message sent last in this event: the next is often the same one, to another client.
    sent: Option<Message>,
    /// Sockets that the event has to do with, the oldest first: whose message it is, and once it has
    /// asked for its connections, those. Who is sent to is mostly among them.
    known: Vec<Arc<Socket>>,
}

impl State {
    /// What is known of the database's content goes with it.
    fn forget_database(&mut self) {
        self.database = None;
        self.indexed = None;
        self.has_alarm = None;
    }

    /// On a node of its own always; in a cluster while the actor is held.
    fn may_write(&self) -> bool {
        self.held.as_ref().map_or(!self.is_clustered, |held| held.right().is_valid())
    }

    /// The actor was deleted in this event, or that was tried.
    fn is_deleted(&self) -> bool {
        matches!(self.delete, Delete::Done | Delete::Failed)
    }
}

/// What the scopes of a class share.
pub struct ScopePorts {
    pub databases: Arc<dyn Databases>,
    pub calls: Arc<CallPorts>,
    pub clock: Arc<dyn Clock>,
    pub bell: Arc<Bell>,
    pub values: Arc<Values>,
    pub metrics: Arc<Metrics>,
    pub tap: Arc<Tap>,
    pub sockets: Arc<Sockets>,
    /// A delete takes the actor's sockets along.
    pub sockets_end_with_actor: bool,
    pub wall_budget: Duration,
    /// Of a node in a cluster: the bucket has what actors write.
    pub replicas: Option<Arc<Replicas>>,
}

/// The `EventScope` of one resident actor.
pub struct ActorScope {
    address: Address,
    ports: Arc<ScopePorts>,
    queue: Arc<Gate>,
    outputs: Arc<OutputGate>,
    state: Mutex<State>,
    me: Weak<Self>,
}

impl std::ops::Deref for ActorScope {
    type Target = ScopePorts;

    fn deref(&self) -> &ScopePorts {
        &self.ports
    }
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
    /// Of an actor whose events wait in `queue`.
    pub fn new(address: Address, ports: Arc<ScopePorts>, queue: Arc<Gate>) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            database: None,
            held: None,
            is_clustered: ports.replicas.is_some(),
            owes_reset: false,
            owes_index: false,
            owes_disown: false,
            is_new_here: false,
            deadline: now,
            delete: Delete::NotAsked,
            given_up: false,
            caller: Caller::Outside,
            firing: false,
            attempt: 0,
            alarm_changed: false,
            indexed: None,
            has_alarm: None,
            only_answers: false,
            flushes: false,
            log: LogRate::new(LOG_LINES_PER_SECOND, now),
            sent: None,
            known: Vec::new(),
        };
        Arc::new_cyclic(|me| Self {
            address,
            ports,
            queue,
            outputs: Arc::default(),
            state: Mutex::new(state),
            me: me.clone(),
        })
    }

    /// What the answers of the actor go through.
    pub fn outputs(&self) -> Arc<OutputGate> {
        Arc::clone(&self.outputs)
    }

    /// As `begin_event`, for a request: its answer can be held back.
    pub fn begin_request(&self, caller: &Caller, deadline: Instant) {
        self.outputs.begin_event();
        self.begin(caller, deadline, true);
    }

    pub fn begin_event(&self, caller: &Caller, deadline: Instant) {
        self.begin(caller, deadline, false);
    }

    fn begin(&self, caller: &Caller, deadline: Instant, only_answers: bool) {
        let mut state = self.lock();
        state.deadline = deadline;
        state.delete = Delete::NotAsked;
        state.firing = false;
        state.attempt = 0;
        state.alarm_changed = false;
        state.only_answers = only_answers;
        state.caller = caller.clone();
        if let Some(database) = &mut state.database {
            database.begin_event(deadline);
        }
    }

    /// Rolls back what is open, carries out a delete the event asked for, and settles the alarm.
    pub fn end_event(&self, attempt: Option<Attempt>) -> EndOfEvent {
        let mut state = self.lock();
        state.sent = None;
        state.forget_sockets();
        match state.log.take_dropped() {
            0 => {}
            lines => self.tap.tell(&self.address, || Happening::LogDropped { lines }),
        }
        if !state.given_up
            && let Some(Err(fault)) = state.database.as_mut().map(|database| database.end_event())
        {
            tracing::error!(actor = %self.address, error = %fault, "database failed");
            state.given_up = true;
        }
        match state.delete {
            Delete::Done => {
                self.end_sockets();
                return EndOfEvent::Deleted;
            }
            Delete::AtTheEnd | Delete::Failed => {
                if let Err(fault) = self.delete_now(&mut state, "self") {
                    tracing::error!(actor = %self.address, error = %fault, "delete failed");
                    // Part of the files may be gone: in a cluster the bucket has all of them.
                    self.give_up_hold(&mut state);
                    return EndOfEvent::GivenUp;
                }
                state.owes_reset = state.is_clustered;
                if !state.is_clustered {
                    self.end_sockets();
                }
                return EndOfEvent::Deleted;
            }
            Delete::NotAsked => {}
        }
        if !state.given_up
            && let Err(fault) = self.end_alarm(&mut state, attempt)
        {
            tracing::error!(actor = %self.address, error = %fault, "alarm not settled");
            state.given_up = true;
        }
        if !state.given_up {
            self.ship(&mut state);
        }
        if std::mem::take(&mut state.given_up) {
            self.give_up_hold(&mut state);
            return EndOfEvent::GivenUp;
        }
        EndOfEvent::Kept
    }

    /// The event that ends deletes the actor.
    pub fn is_deleting(&self) -> bool {
        self.lock().delete == Delete::AtTheEnd
    }

    /// Lets go of everything, with the process.
    pub fn abandon(&self) {
        let mut state = self.lock();
        self.lose_outputs(&mut state);
        state.forget_database();
        state.held = None;
    }

    /// The database failed: it is closed when the event ends.
    pub fn give_up(&self) {
        self.lock().given_up = true;
    }

    fn end_alarm(&self, state: &mut State, attempt: Option<Attempt>) -> Result<(), StorageFault> {
        if let Some(attempt) = attempt {
            self.settle(state, attempt)?;
        }
        if std::mem::take(&mut state.is_new_here) && self.exists_now(state) {
            state.alarm_changed = true;
        }
        if state.alarm_changed && state.is_clustered {
            self.index_early(state)
        } else if state.alarm_changed {
            self.index_alarm(state)
        } else {
            Ok(())
        }
    }

    fn log_line(&self, line: &str, is_error: bool) {
        if !self.lock().log.admits(Instant::now()) {
            self.metrics.guest_log_lines_dropped.inc();
            return;
        }
        self.tap.guest_line(&self.address, line, is_error);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock ends this actor's process, and its scope with it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventScope for ActorScope {
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
        Box::pin(self.write_durably(sql, params))
    }

    fn delete_self(&self) {
        let mut state = self.lock();
        if state.delete == Delete::NotAsked {
            state.delete = Delete::AtTheEnd;
        }
    }

    fn delete_self_durable(&self) -> ScopeFuture<'_, Result<(), SqlError>> {
        Box::pin(self.delete_durably())
    }

    fn set_alarm(&self, at: Timestamp) -> Result<(), SqlError> {
        self.set(at)
    }

    fn get_alarm(&self) -> Result<Option<Timestamp>, SqlError> {
        self.get()
    }

    fn clear_alarm(&self) -> Result<(), SqlError> {
        self.clear()
    }

    fn alarm_attempt(&self) -> u32 {
        self.lock().attempt
    }

    fn connections(&self) -> Vec<SocketId> {
        self.know_connections()
    }

    fn send(&self, socket: SocketId, message: Message) -> Result<(), SendError> {
        self.send_to(socket, message)
    }

    fn close_socket(&self, socket: SocketId, code: u16, reason: String) -> Result<(), CloseError> {
        let socket = self.socket(socket).ok_or(CloseError::Closed)?;
        socket.close_checked(code, reason)
    }

    fn attachment(&self, socket: SocketId) -> Option<Vec<u8>> {
        Some(self.socket(socket)?.attachment())
    }

    fn set_attachment(&self, socket: SocketId, bytes: Vec<u8>) -> Result<(), AttachmentError> {
        self.socket(socket).ok_or(AttachmentError::Closed)?.set_attachment(bytes)
    }
}

impl GuestScope for ActorScope {
    fn address(&self) -> &Address {
        &self.address
    }

    fn call<'a>(
        &'a self,
        target: &'a str,
        request: CallRequest,
    ) -> ScopeFuture<'a, Result<CallResponse, CallError>> {
        self.call_one(target, request)
    }

    fn call_many(
        &self,
        calls: Vec<(String, CallRequest)>,
    ) -> ScopeFuture<'_, Vec<Result<CallResponse, CallError>>> {
        self.call_each(calls)
    }

    fn before_output(&self) -> Option<ScopeFuture<'static, Result<(), NotDurable>>> {
        self.before_output()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.values.get(name).map(str::to_owned)
    }

    fn log(&self, text: &str, is_error: bool) {
        for line in text.split('\n') {
            self.log_line(line, is_error);
        }
    }
}
