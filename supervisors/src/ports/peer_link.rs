//! How an event reaches the node that has its actor.

use std::future::Future;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::{Address, NodeId};
use crate::event::{Caller, Event, Hops, OpenRequest, Reason, Refusal, Reply};

/// SHA-256 of the public key that a node draws at its start. Its lease says it, so whoever may write
/// to the bucket decides which keys count.
pub type PeerKey = [u8; 32];

/// Where a peer listens, and the key it has to prove there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerAt {
    pub node: NodeId,
    pub address: String,
    pub key: PeerKey,
}

/// A WebSocket that is to be opened on an actor of another node.
#[derive(Debug, Clone)]
pub struct SocketAsked {
    pub address: Address,
    pub request: OpenRequest,
    pub caller: Caller,
}

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// The frames of a WebSocket that another node's actor has accepted.
pub type PeerSocket = Pin<Box<dyn Duplex>>;

/// Why nothing reached a peer. The event has certainly not run.
#[derive(Debug, Error)]
pub enum NotReached {
    #[error("no connection: {0}")]
    Unreachable(io::Error),
    #[error("no connection within {} s", crate::limits::PEER_CONNECT_WAIT.as_secs())]
    TooSlow,
    /// Another node listens there, or the same one was started anew.
    #[error("who listens there does not have the key of the node's lease")]
    WrongKey,
    /// It has not seen this node's lease yet, or sees it ended.
    #[error("the peer does not know this node as a live one")]
    Stranger,
    #[error("as many requests as there may be are with this peer")]
    Busy,
    /// Of another version, or no node at all.
    #[error("the peer did not understand the hop")]
    NotUnderstood,
    /// Messages and ends of sockets reach their actor on its own node alone.
    #[error("such an event is not for other nodes")]
    NotForPeers,
}

/// Why a peer's actor gave no answer. What has not run is given back, its body untouched.
#[derive(Debug, Error)]
pub enum RelayError<T> {
    #[error("the peer was not reached: {cause}")]
    NotReached { returned: T, cause: NotReached },
    /// The peer does not have the actor, and says who does. It has not run.
    #[error("the peer says that {holder} has the actor")]
    Elsewhere { returned: T, holder: NodeId },
    /// What the peer says in the actor's place; it knows whether the event ran.
    #[error("refused by the peer: {0}")]
    Refused(Refusal),
    /// The peer had the event when it was lost: whether it ran is unknown, so it must not be sent
    /// again.
    #[error("the peer was lost before it answered")]
    Lost,
}

impl<T> RelayError<T> {
    /// What the event's sender is told, if nothing else can be done for it.
    pub fn into_refusal(self) -> Refusal {
        match self {
            RelayError::NotReached { cause: NotReached::Busy, .. } => {
                Refusal::not_run(Reason::NoCapacity).with_detail(
                    "as many requests as there may be wait for the node that has this actor; retry",
                )
            }
            RelayError::NotReached { .. } => Refusal::not_run(Reason::OwnerUnreachable),
            RelayError::Elsewhere { .. } => Refusal::not_run(Reason::TooManyHops),
            RelayError::Refused(refusal) => refusal,
            RelayError::Lost => Refusal::unknown(Reason::OwnerLost),
        }
    }
}

pub type LinkFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Hands events to other nodes. An event is sent once: nothing that may have run is sent again.
pub trait PeerLink: Send + Sync + 'static {
    /// Hands a request or an alarm over and returns the head of the answer. Who stops polling leaves:
    /// the peer learns it, and does not run what waits. A body that arrives in pieces is not read
    /// before the peer's actor asks for it. `hops` counts this one.
    fn relay(
        &self,
        to: PeerAt,
        hops: Hops,
        event: Event,
    ) -> LinkFuture<'_, Result<Reply, RelayError<Box<Event>>>>;

    /// Asks a peer's actor whether it takes a WebSocket. One that does not is `Refused`, with
    /// `SocketRefused`.
    fn open_socket(
        &self,
        to: PeerAt,
        hops: Hops,
        asked: SocketAsked,
    ) -> LinkFuture<'_, Result<PeerSocket, RelayError<Box<SocketAsked>>>>;

    /// Tells a peer that this node has started: it reads the lease in the bucket at once.
    fn hello(&self, to: PeerAt, lease: Bytes) -> LinkFuture<'_, Result<(), NotReached>>;

    /// Tells a peer that actors were released for it. A hint: it promises nothing.
    fn take(&self, to: PeerAt, actors: Vec<Address>) -> LinkFuture<'_, Result<(), NotReached>>;
}
