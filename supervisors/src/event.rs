//! What reaches an actor, and what comes back.
//!
//! An event carries its own way to answer. Whoever sent it may leave: an event whose sender left
//! while it waited is not run, one that has started runs to its end. Requests are HTTP-shaped
//! data; nothing here speaks HTTP.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use futures_core::Stream;
use thiserror::Error;

use crate::address::Address;

/// One header: its name in lower case, and its bytes.
pub type Header = (Bytes, Bytes);

/// A body that arrives in pieces.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// The body of a request or a response.
pub enum Body {
    Empty,
    Whole(Bytes),
    Stream(BodyStream),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Empty => f.write_str("Empty"),
            Body::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Body::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// Why a body ended before its end.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum BodyError {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the sender of the body left before its end")]
    SenderLeft,
    #[error("the event failed before its answer was complete")]
    EventFailed,
}

/// Everything of a request but its body.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// In upper case: `GET`.
    pub method: String,
    /// Path and query below the actor's address.
    pub path: String,
    /// The host the client asked for, as it wrote it.
    pub authority: String,
    pub headers: Vec<Header>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<Header>,
    pub body: Body,
}

/// Who sent an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A client on the public port.
    Outside,
    /// Another actor of the app.
    Actor(Address),
}

/// A request, as it is handed to a guest.
#[derive(Debug)]
pub struct Request {
    pub head: RequestHead,
    pub body: Body,
    pub caller: Caller,
}

/// An event on its way to an actor.
#[derive(Debug)]
pub struct Event {
    pub address: Address,
    pub request: Request,
    pub reply: ReplyTo,
    pub ticket: Ticket,
}

/// Where the answer to an event goes. Dropped unused, its receiver learns that too.
#[derive(Debug)]
pub struct ReplyTo(Option<tokio::sync::oneshot::Sender<Result<Reply, Refusal>>>);

/// Receives the answer to an event.
pub type ReplyFrom = tokio::sync::oneshot::Receiver<Result<Reply, Refusal>>;

impl ReplyTo {
    pub fn channel() -> (Self, ReplyFrom) {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        (Self(Some(sender)), receiver)
    }

    /// Sends the answer; false when one was sent before or nobody waits for it.
    pub fn send(&mut self, answer: Result<Reply, Refusal>) -> bool {
        self.0.take().is_some_and(|sender| sender.send(answer).is_ok())
    }

    pub fn is_answered(&self) -> bool {
        self.0.is_none()
    }
}

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const LEFT: u8 = 2;

/// Decides, once, whether an event starts or its sender leaves first.
#[derive(Debug, Clone, Default)]
pub struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// The actor is about to run the event; false when the sender has left.
    pub fn start(&self) -> bool {
        self.0.compare_exchange(WAITING, STARTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The sender leaves; false when the event has started and will run to its end.
    pub fn leave(&self) -> bool {
        self.0.compare_exchange(WAITING, LEFT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub fn has_started(&self) -> bool {
        self.0.load(Ordering::Acquire) == STARTED
    }
}

/// Whether the actor's code ran for an event that has no answer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    NotRun,
    Ran,
    Unknown,
}

impl Ran {
    pub const fn as_str(self) -> &'static str {
        match self {
            Ran::NotRun => "not-run",
            Ran::Ran => "ran",
            Ran::Unknown => "unknown",
        }
    }
}

/// Why the host answers instead of the actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The request is not one the server takes: the address, a header, the framing.
    BadRequest,
    /// No such class, or no such path.
    NotFound,
    /// The request's body is declared larger than the limit.
    BodyTooLarge,
    /// 1,024 events wait for this actor already.
    QueueFull,
    /// Every resident instance is busy.
    NoCapacity,
    /// The node is stopping.
    Stopping,
    /// The actor's process ended while the event waited.
    Unavailable,
    /// The address failed so often that it is left alone for a while.
    Quarantined,
    /// `on-init` failed or trapped.
    InitFailed,
    /// The handler returned without an answer.
    NoResponse,
    /// The guest trapped.
    Trapped,
    /// The guest used up its CPU.
    CpuExceeded,
    /// The event used up its wall time.
    WallExceeded,
    /// The component could not be instantiated.
    NotInstantiated,
    /// The actor's database cannot be opened.
    DatabaseUnusable,
    /// A fault of the host itself.
    HostFault,
}

impl Reason {
    pub const ALL: [Reason; 16] = [
        Reason::BadRequest,
        Reason::NotFound,
        Reason::BodyTooLarge,
        Reason::QueueFull,
        Reason::NoCapacity,
        Reason::Stopping,
        Reason::Unavailable,
        Reason::Quarantined,
        Reason::InitFailed,
        Reason::NoResponse,
        Reason::Trapped,
        Reason::CpuExceeded,
        Reason::WallExceeded,
        Reason::NotInstantiated,
        Reason::DatabaseUnusable,
        Reason::HostFault,
    ];

    /// The word programs read, in `x-wasmkeep-reason` and in the body.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::BadRequest => "bad-request",
            Reason::NotFound => "not-found",
            Reason::BodyTooLarge => "body-too-large",
            Reason::QueueFull => "queue-full",
            Reason::NoCapacity => "no-capacity",
            Reason::Stopping => "stopping",
            Reason::Unavailable => "unavailable",
            Reason::Quarantined => "quarantined",
            Reason::InitFailed => "init-failed",
            Reason::NoResponse => "no-response",
            Reason::Trapped => "trapped",
            Reason::CpuExceeded => "cpu-exceeded",
            Reason::WallExceeded => "wall-exceeded",
            Reason::NotInstantiated => "not-instantiated",
            Reason::DatabaseUnusable => "database-unusable",
            Reason::HostFault => "host-fault",
        }
    }

    /// The sentence people read when nothing more precise is known.
    const fn sentence(self) -> &'static str {
        match self {
            Reason::BadRequest => "the request is malformed",
            Reason::NotFound => "there is nothing at this address",
            Reason::BodyTooLarge => "the request's body is larger than 16 MiB",
            Reason::QueueFull => "1,024 events wait for this actor already; retry later",
            Reason::NoCapacity => {
                "every instance this node may hold is busy; retry, or raise --max-instances"
            }
            Reason::Stopping => "this node is stopping; retry",
            Reason::Unavailable => "the actor stopped before this event started; retry",
            Reason::Quarantined => "this actor failed repeatedly and is left alone for now; retry",
            Reason::InitFailed => {
                "the actor's on-init failed; it is tried again with the next event"
            }
            Reason::NoResponse => "the actor's handler returned without a response",
            Reason::Trapped => "the actor's code trapped",
            Reason::CpuExceeded => "the event used more CPU than --cpu-budget-ms allows",
            Reason::WallExceeded => "the event ran longer than --wall-budget-ms allows",
            Reason::NotInstantiated => "the component could not be instantiated",
            Reason::DatabaseUnusable => "the actor's database cannot be opened",
            Reason::HostFault => "the server failed while it handled this event",
        }
    }
}

/// The host's own answer to an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub ran: Ran,
    /// Says more than the reason's own sentence; shown to the client.
    pub detail: Option<String>,
}

impl Refusal {
    /// The event did not run.
    pub const fn not_run(reason: Reason) -> Self {
        Self { reason, ran: Ran::NotRun, detail: None }
    }

    /// The event ran, at least in part.
    pub const fn ran(reason: Reason) -> Self {
        Self { reason, ran: Ran::Ran, detail: None }
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn sentence(&self) -> &str {
        self.detail.as_deref().unwrap_or(self.reason.sentence())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.reason.as_str(), self.ran.as_str(), self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_starts_or_its_sender_leaves_never_both() {
        let started = Ticket::default();
        assert!(started.start());
        assert!(!started.leave());

        let left = Ticket::default();
        assert!(left.leave());
        assert!(!left.start());
        assert!(!left.has_started());
    }

    #[test]
    fn reasons_are_distinct_words() {
        let words: std::collections::HashSet<_> = Reason::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
    }
}
