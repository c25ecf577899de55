//! A class's compiled component, an instance of it, and what it may ask during one event.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;
use tokio::time::Instant;

use super::database::{RowSet, SqlError, SqlValue};
use crate::address::Address;
use crate::event::{
    AttachmentError, CloseError, Header, Message, NotDurable, ReplyTo, Request, SendError,
    SocketEvent, SocketId,
};
use crate::time::Timestamp;

pub type GuestFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, GuestFault>> + Send + 'a>>;
pub type ScopeFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One version of a class: a compiled component that makes instances.
pub trait Guest: Send + Sync + 'static {
    /// Hexadecimal SHA-256 of the component.
    fn component(&self) -> &str;

    /// Makes an instance whose host calls go to `scope`.
    fn instantiate(&self, scope: Arc<dyn EventScope>) -> GuestFuture<'_, Box<dyn Instance>>;
}

/// A component in memory. It serves one call at a time; after any fault but `Refused` and
/// `NoResponse` it must be dropped.
pub trait Instance: Send {
    /// Runs one handler, to its end or to `deadline`.
    fn run<'a>(&'a mut self, call: GuestCall<'a>, deadline: Instant) -> GuestFuture<'a, ()>;

    /// Whether the instance has gathered so much that a fresh one should take its place.
    fn is_worn(&mut self) -> bool;
}

/// Which handler to run.
pub enum GuestCall<'a> {
    Init,
    /// The answer goes to `reply` as soon as the guest gives its head.
    Request {
        request: Request,
        reply: &'a mut ReplyTo,
    },
    Alarm,
    Socket {
        socket: SocketId,
        event: SocketEvent,
    },
}

/// What an actor sends to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    pub method: String,
    /// Path and query below the callee's address.
    pub path: String,
    pub headers: Vec<Header>,
    pub body: Bytes,
}

/// What it gets back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResponse {
    pub status: u16,
    pub headers: Vec<Header>,
    pub body: Bytes,
}

/// Why a call has no response. The cases are those of `call-error` in `wit/actors.wit`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    #[error("timeout")]
    Timeout,
    #[error("reentrant")]
    Reentrant,
    #[error("invalid address")]
    InvalidAddress,
    #[error("failed: {0}")]
    Failed(String),
}

/// How guest code failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GuestFault {
    /// The request cannot be put to a guest. Nothing ran, and the instance stays.
    #[error("the request does not fit: {0}")]
    Unfit(String),
    /// The handler returned an error of its own. The instance stays.
    #[error("the handler failed: {0}")]
    Refused(String),
    /// The handler returned without a response. The instance stays.
    #[error("the handler returned without a response")]
    NoResponse,
    #[error("the guest trapped: {0}")]
    Trapped(String),
    #[error("the event used up its CPU budget")]
    CpuExceeded,
    #[error("the event used up its wall time")]
    WallExceeded,
    #[error("no instance could be made: {0}")]
    NotInstantiated(String),
}

impl GuestFault {
    /// Whether the instance may serve further events.
    pub fn keeps_instance(&self) -> bool {
        matches!(self, GuestFault::Unfit(_) | GuestFault::Refused(_) | GuestFault::NoResponse)
    }
}

/// The front's compiled component.
pub trait FrontGuest: Send + Sync + 'static {
    /// Answers one request with an instance of its own, to its end or to `deadline`. The answer
    /// goes to `reply` as soon as the guest gives its head. Dropped, it ends the instance.
    fn run<'a>(
        &'a self,
        request: Request,
        reply: &'a mut ReplyTo,
        scope: Arc<dyn GuestScope>,
        deadline: Instant,
    ) -> GuestFuture<'a, ()>;
}

/// What an actor as well as the front may ask of the host while it runs.
pub trait GuestScope: Send + Sync + 'static {
    /// Who this guest is.
    fn address(&self) -> &Address;

    /// Calls `class/name`, and waits for the answer.
    fn call<'a>(
        &'a self,
        target: &'a str,
        request: CallRequest,
    ) -> ScopeFuture<'a, Result<CallResponse, CallError>>;

    /// Calls all of them at once; one result each, in their order.
    fn call_many(
        &self,
        calls: Vec<(String, CallRequest)>,
    ) -> ScopeFuture<'_, Vec<Result<CallResponse, CallError>>>;

    /// Asked before anything leaves the guest that is no answer and no call: what has to end first. None
    /// when nothing has. After an error it must not leave.
    fn before_output(&self) -> Option<ScopeFuture<'static, Result<(), NotDurable>>> {
        None
    }

    /// A value the operator gave to this guest.
    fn env(&self, name: &str) -> Option<String>;

    /// What the guest wrote to its standard output or error, a line or several.
    fn log(&self, line: &str, is_error: bool);
}

/// Everything an actor may ask of the host during one event. Between events the guest does not
/// run, so nothing is asked.
pub trait EventScope: GuestScope {
    fn exec(&self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError>;

    fn query(&self, sql: &str, params: Vec<SqlValue>) -> Result<RowSet, SqlError>;

    fn exec_durable<'a>(
        &'a self,
        sql: &'a str,
        params: Vec<SqlValue>,
    ) -> ScopeFuture<'a, Result<u64, SqlError>>;

    fn delete_self(&self);

    fn delete_self_durable(&self) -> ScopeFuture<'_, Result<(), SqlError>>;

    fn set_alarm(&self, at: Timestamp) -> Result<(), SqlError>;

    fn get_alarm(&self) -> Result<Option<Timestamp>, SqlError>;

    fn clear_alarm(&self) -> Result<(), SqlError>;

    /// Which attempt of `on-alarm` runs, counted from 1; 0 in any other handler.
    fn alarm_attempt(&self) -> u32;

    /// The actor's accepted, open sockets, the oldest first.
    fn connections(&self) -> Vec<SocketId>;

    /// Queues a message for one client.
    fn send(&self, socket: SocketId, message: Message) -> Result<(), SendError>;

    fn close_socket(&self, socket: SocketId, code: u16, reason: String) -> Result<(), CloseError>;

    /// What is kept with a socket, until its close event has ended.
    fn attachment(&self, socket: SocketId) -> Option<Vec<u8>>;

    fn set_attachment(&self, socket: SocketId, bytes: Vec<u8>) -> Result<(), AttachmentError>;
}
