//! What reaches an actor, and what comes back.
//!
//! An event carries its own way to answer. Whoever sent it may leave: an event whose sender left
//! while it waited is not run, one that has started runs to its end. Requests are HTTP-shaped
//! data; nothing here speaks HTTP.

mod hops;
mod output_gate;
mod packed;
mod reasons;
mod refusal;
mod socket;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use futures_core::Stream;
use thiserror::Error;

pub use hops::Hops;
pub use output_gate::{Mark, NotDurable, OutputGate};
pub use packed::packed;
pub use reasons::{REASONS, ReasonRow};
pub use refusal::{Ran, Reason, Refusal};
pub use socket::{
    AttachmentError, CloseError, Closing, Message, OpenRequest, SendError, SocketEvent, SocketId,
    SocketTask, Utf8,
};

use self::output_gate::Departing;
use crate::address::{Address, NodeId};

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

impl Reply {
    /// The answer to an event that is no request: it ran to its end.
    pub const fn done() -> Self {
        Self { status: 204, headers: Vec::new(), body: Body::Empty }
    }
}

/// Who sent an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A client on the public port.
    Outside,
    /// The last actor of a chain, which waits for the answer.
    Actor(CallChain),
    /// The front, under its address. Nothing can call it back, so it is in no chain.
    Front(Address),
}

impl Caller {
    /// Who called, unless it was a client.
    pub fn address(&self) -> Option<&Address> {
        match self {
            Caller::Outside => None,
            Caller::Actor(chain) => Some(chain.caller()),
            Caller::Front(front) => Some(front),
        }
    }

    /// Whether `actor` waits for what is called: called itself, it would wait for itself.
    pub fn waits_for(&self, actor: &Address) -> bool {
        matches!(self, Caller::Actor(chain) if chain.holds(actor))
    }
}

/// Actors that wait for one another, the first caller first. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallChain(Arc<[Address]>);

impl CallChain {
    /// The chain of what `actor` calls while it handles an event of `caller`.
    pub fn below(caller: &Caller, actor: &Address) -> Self {
        match caller {
            Caller::Outside | Caller::Front(_) => Self([actor.clone()].into()),
            Caller::Actor(chain) => Self(chain.0.iter().cloned().chain([actor.clone()]).collect()),
        }
    }

    /// A chain that was taken apart on its way from another node; none without an actor.
    pub fn of(actors: Vec<Address>) -> Option<Self> {
        (!actors.is_empty()).then(|| Self(actors.into()))
    }

    /// Its actors, the first caller first.
    pub fn actors(&self) -> &[Address] {
        &self.0
    }

    /// Who calls.
    pub fn caller(&self) -> &Address {
        self.0.last().expect("a chain is made with its first actor")
    }

    /// Whether `actor` waits in this chain: called, it would wait for itself.
    pub fn holds(&self, actor: &Address) -> bool {
        self.0.contains(actor)
    }
}

/// A request, as it is handed to a guest.
#[derive(Debug)]
pub struct Request {
    pub head: RequestHead,
    pub body: Body,
    pub caller: Caller,
}

/// What an actor is to do.
#[derive(Debug)]
pub enum Task {
    /// A request of a client, or a call of another actor or of the front.
    Request(Request),
    /// Its alarm is due. Whether that is so is for the actor's own database to say.
    Alarm,
    /// Something happened to one of its WebSockets.
    Socket(SocketTask),
}

impl Task {
    pub fn kind(&self) -> Kind {
        match self {
            Task::Request(Request { caller: Caller::Outside, .. }) => Kind::Request,
            Task::Request(Request { caller: Caller::Actor(_) | Caller::Front(_), .. }) => {
                Kind::Call
            }
            Task::Alarm => Kind::Alarm,
            Task::Socket(task) => match task.event {
                SocketEvent::Open(_) => Kind::SocketOpen,
                SocketEvent::Message(_) => Kind::SocketMessage,
                SocketEvent::Close(_) => Kind::SocketClose,
            },
        }
    }

    /// Whose access rules it has to meet; an alarm always reaches its actor.
    pub fn caller(&self) -> Option<&Caller> {
        match self {
            Task::Request(request) => Some(&request.caller),
            Task::Alarm => None,
            Task::Socket(task) => Some(&task.caller),
        }
    }

    /// Whether all of it is here: then it is not run for a sender that has left.
    pub fn is_whole(&self) -> bool {
        !matches!(self, Task::Request(Request { body: Body::Stream(_), .. }))
    }
}

/// The kinds of events, as metrics and `wasmkeep tail` name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Request,
    Call,
    Alarm,
    SocketOpen,
    SocketMessage,
    SocketClose,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::Request,
        Kind::Call,
        Kind::Alarm,
        Kind::SocketOpen,
        Kind::SocketMessage,
        Kind::SocketClose,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Request => "request",
            Kind::Call => "call",
            Kind::Alarm => "alarm",
            Kind::SocketOpen => "socket-open",
            Kind::SocketMessage => "socket-message",
            Kind::SocketClose => "socket-close",
        }
    }
}

/// An event on its way to an actor.
#[derive(Debug)]
pub struct Event {
    pub address: Address,
    pub task: Task,
    pub reply: ReplyTo,
    pub ticket: Ticket,
}

/// What comes back for an event.
#[derive(Debug)]
pub enum Answer {
    Ended(Result<Reply, Refusal>),
    /// Another node has the actor: nothing ran here, and all of it is handed back.
    Elsewhere(NodeId, Task),
}

/// Where the answer to an event goes. Dropped unused, its receiver learns that too.
pub struct ReplyTo {
    sender: Option<tokio::sync::oneshot::Sender<Answer>>,
    status: Option<u16>,
    may_answer: Option<MayAnswer>,
    gate: Option<Arc<OutputGate>>,
}

/// Asked when an answer leaves.
pub type MayAnswer = Box<dyn Fn() -> bool + Send + Sync>;

/// Receives the answer to an event.
pub type ReplyFrom = tokio::sync::oneshot::Receiver<Answer>;

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").field("status", &self.status).finish_non_exhaustive()
    }
}

impl ReplyTo {
    pub fn channel() -> (Self, ReplyFrom) {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        (Self { sender: Some(sender), status: None, may_answer: None, gate: None }, receiver)
    }

    /// Nobody waits for the answer.
    pub const fn nobody() -> Self {
        Self { sender: None, status: None, may_answer: None, gate: None }
    }

    /// From now on an answer of the actor leaves only while this holds.
    pub fn only_while(&mut self, may_answer: MayAnswer) {
        self.may_answer = Some(may_answer);
    }

    /// From now on an answer leaves only once what the actor wrote durably before it is durable.
    pub fn through(&mut self, gate: Arc<OutputGate>) {
        self.gate = Some(gate);
    }

    /// Hands the task back: another node has the actor.
    pub fn hand_back(&mut self, owner: NodeId, task: Task) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(Answer::Elsewhere(owner, task));
        }
    }

    /// Sends the answer; false when one was sent before or nobody waits for it.
    pub fn send(&mut self, answer: Result<Reply, Refusal>) -> bool {
        let Some(sender) = self.sender.take() else { return false };
        self.status = Some(match &answer {
            Ok(reply) => reply.status,
            Err(refusal) => refusal.reason.status(),
        });
        let departing = Departing { sender, answer, may_answer: self.may_answer.take() };
        match &self.gate {
            Some(gate) => gate.pass(departing),
            None => departing.leave(),
        }
    }

    /// The status of the answer that was sent.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    pub fn is_answered(&self) -> bool {
        self.sender.is_none()
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
}
