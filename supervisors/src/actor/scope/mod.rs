//! What an actor's storage calls mean: opens the database at the first one, keeps the rules of
//! deletes and durability, and hands the SQL to `ports::Database`.

mod alarms;
mod inspect;
mod sockets;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

pub use alarms::Attempt;

use crate::address::Address;
use crate::alarm::Bell;
use crate::call::{CallPorts, Outgoing, reserve};
use crate::event::{
    AttachmentError, CallChain, Caller, CloseError, Message, Reason, Refusal, SendError, SocketId,
};
use crate::guest_log::{LogRate, as_line, log_line};
use crate::limits::LOG_LINES_PER_SECOND;
use crate::metrics::Metrics;
use crate::ports::{
    CallError, CallRequest, CallResponse, Clock, Database, Databases, EventScope, GuestScope, Meta,
    OpenError, RowSet, ScopeFuture, SqlError, SqlValue, StorageFault,
};
use crate::socket::Sockets;
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
    log: LogRate,
    /// The message sent last in this event: the next is often the same one, to another client.
    sent: Option<Message>,
}

impl State {
    /// What is known of the database's content goes with it.
    fn forget_database(&mut self) {
        self.database = None;
        self.indexed = None;
        self.has_alarm = None;
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
}

/// The `EventScope` of one resident actor.
pub struct ActorScope {
    address: Address,
    ports: Arc<ScopePorts>,
    state: Mutex<State>,
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
    pub fn new(address: Address, ports: Arc<ScopePorts>) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            database: None,
            deadline: now,
            delete: Delete::NotAsked,
            given_up: false,
            caller: Caller::Outside,
            firing: false,
            attempt: 0,
            alarm_changed: false,
            indexed: None,
            has_alarm: None,
            log: LogRate::new(LOG_LINES_PER_SECOND, now),
            sent: None,
        };
        Arc::new(Self { address, ports, state: Mutex::new(state) })
    }

    pub fn begin_event(&self, caller: &Caller, deadline: Instant) {
        let mut state = self.lock();
        state.deadline = deadline;
        state.delete = Delete::NotAsked;
        state.firing = false;
        state.attempt = 0;
        state.alarm_changed = false;
        state.caller = caller.clone();
        if let Some(database) = &mut state.database {
            database.begin_event(deadline);
        }
    }

    /// Rolls back what is open, carries out a delete the event asked for, and settles the alarm.
    pub fn end_event(&self, attempt: Option<Attempt>) -> EndOfEvent {
        let mut state = self.lock();
        state.sent = None;
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
                    return EndOfEvent::GivenUp;
                }
                self.end_sockets();
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
        if std::mem::take(&mut state.given_up) {
            state.forget_database();
            return EndOfEvent::GivenUp;
        }
        EndOfEvent::Kept
    }

    /// The database failed: it is closed when the event ends.
    pub fn give_up(&self) {
        self.lock().given_up = true;
    }

    fn end_alarm(&self, state: &mut State, attempt: Option<Attempt>) -> Result<(), StorageFault> {
        if let Some(attempt) = attempt {
            self.settle(state, attempt)?;
        }
        if state.alarm_changed {
            self.index_alarm(state)?;
        }
        Ok(())
    }

    /// Whether anything of the actor is there.
    pub fn exists(&self) -> Result<bool, Refusal> {
        if self.exists_now(&self.lock()) {
            return Ok(true);
        }
        let known = self.databases.fileless_init(&self.address).map_err(|f| self.unusable(&f))?;
        Ok(known.is_some())
    }

    /// Whether the actor has a database.
    fn exists_now(&self, state: &State) -> bool {
        state.database.is_some() || self.databases.has_file(&self.address)
    }

    /// The database, opened if need be, but not made.
    fn existing<'a>(
        &self,
        state: &'a mut State,
    ) -> Result<Option<&'a mut dyn Database>, StorageFault> {
        if !self.exists_now(state) {
            return Ok(None);
        }
        match self.open(state) {
            Ok(database) => Ok(Some(database)),
            Err(OpenError::Failed(fault)) => Err(fault),
            Err(OpenError::Damaged { path, cause }) => {
                Err(StorageFault { operation: "open", path, cause })
            }
        }
    }

    /// The component whose `on-init` succeeded last for this actor.
    pub fn initialised_by(&self) -> Result<Option<String>, Refusal> {
        let mut state = self.lock();
        if !self.exists_now(&state) {
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
        match &mut state.database {
            Some(database) => database.set_meta(Meta::InitComponent, Some(component)),
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
        self.with_open(&mut self.lock(), call)
    }

    fn with_open<T>(
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
    fn delete_now(&self, state: &mut State, how: &str) -> Result<(), StorageFault> {
        state.forget_database();
        state.given_up = false;
        state.alarm_changed = false;
        let removed = self.databases.remove(&self.address);
        self.metrics.deleted(how, removed.is_ok());
        removed
    }

    fn write_durably(&self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError> {
        let started = Instant::now();
        let mut state = self.lock();
        let changed =
            self.with_open(&mut state, |database| database.exec_before_sync(sql, params))?;
        // An alarm that is durable must be in an index that is.
        let indexed = match self.has_alarm(&mut state) {
            Ok(true) => self.databases.sync_index(),
            Ok(false) => Ok(()),
            Err(fault) => Err(fault),
        };
        self.with_open(&mut state, |database| {
            indexed.and_then(|()| database.sync()).map_err(|fault| {
                tracing::error!(actor = %self.address, error = %fault, "write not durable");
                SqlError::Internal("the write could not be made durable".into())
            })
        })?;
        self.metrics.durable_write_seconds.observe(started.elapsed().as_secs_f64());
        Ok(changed)
    }

    /// What this event can call with.
    fn outgoing(&self) -> Outgoing {
        let state = self.lock();
        Outgoing {
            ports: Arc::clone(&self.calls),
            caller: Caller::Actor(CallChain::below(&state.caller, &self.address)),
            from: self.address.clone(),
            deadline: state.deadline - reserve(self.wall_budget),
            waiting: None,
        }
    }

    fn log_line(&self, line: &str, is_error: bool) {
        if !self.lock().log.admits(Instant::now()) {
            self.metrics.guest_log_lines_dropped.inc();
            return;
        }
        self.metrics.guest_log_lines.inc();
        let line = as_line(line);
        self.tap.tell(&self.address, || Happening::Log { is_error, line: line.to_string() });
        log_line(&self.address, &line, is_error);
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
        Box::pin(std::future::ready(self.write_durably(sql, params)))
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
            match self.delete_now(&mut state, "self_durable") {
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
        self.sockets.open_of(&self.address)
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
        Box::pin(self.outgoing().call(target.to_owned(), request))
    }

    fn call_many(
        &self,
        calls: Vec<(String, CallRequest)>,
    ) -> ScopeFuture<'_, Vec<Result<CallResponse, CallError>>> {
        Box::pin(self.outgoing().call_many(calls))
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
