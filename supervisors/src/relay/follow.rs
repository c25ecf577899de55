//! From node to node until one has the actor.

use std::future::Future;

use crate::address::NodeId;
use crate::event::{Event, Reason, Refusal, Reply};
use crate::ports::{Hops, NotReached, PeerAt, PeerLink, RelayError, SocketAsked};
use crate::socket::Opened;

/// Finds a live peer by its name.
pub type FindPeer<'a> = &'a (dyn Fn(&NodeId) -> Option<PeerAt> + Send + Sync);

/// How events leave this node.
#[derive(Clone, Copy)]
pub struct Relay<'a> {
    pub link: &'a dyn PeerLink,
    /// None for this node itself: what comes back to it is given back, for it to look again.
    pub find: FindPeer<'a>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Unrelayed<T> {
    /// It has not run: look at the actor's record anew, or refuse it.
    Returned {
        returned: T,
        cause: Returned,
    },
    Refused(Refusal),
}

/// Why an event came back.
#[derive(Debug)]
pub enum Returned {
    /// This node knows no such live peer, or is itself the one that is named.
    NoPeer(NodeId),
    NotReached(NodeId, NotReached),
}

impl<T> Unrelayed<T> {
    /// What the event's sender is told, if nothing else can be done for it.
    pub fn into_refusal(self) -> Refusal {
        match self {
            Unrelayed::Refused(refusal) => refusal,
            Unrelayed::Returned { returned, cause: Returned::NotReached(_, cause) } => {
                RelayError::NotReached { returned, cause }.into_refusal()
            }
            Unrelayed::Returned { cause: Returned::NoPeer(_), .. } => {
                Refusal::not_run(Reason::OwnerUnreachable)
            }
        }
    }
}

impl Relay<'_> {
    /// Hands an event to `owner`, and on to the node which that names. `hops` are those it came over.
    pub async fn event(
        self,
        owner: NodeId,
        hops: Hops,
        event: Event,
    ) -> Result<Reply, Unrelayed<Box<Event>>> {
        let send = |peer, hops, event: Box<Event>| self.link.relay(peer, hops, *event);
        self.follow(owner, hops, Box::new(event), send).await
    }

    /// Opens a WebSocket on an actor of `owner`, or of the node which that names.
    pub async fn socket(
        self,
        owner: NodeId,
        hops: Hops,
        asked: SocketAsked,
    ) -> Result<Opened, Unrelayed<Box<SocketAsked>>> {
        let send = |peer, hops, asked: Box<SocketAsked>| self.link.open_socket(peer, hops, *asked);
        match self.follow(owner, hops, Box::new(asked), send).await {
            Ok(socket) => Ok(Opened::Relayed(socket)),
            Err(Unrelayed::Refused(refusal)) if refusal.reason == Reason::SocketRefused => {
                Ok(Opened::Refused(refusal))
            }
            Err(unrelayed) => Err(unrelayed),
        }
    }

    async fn follow<T, A, F>(
        self,
        owner: NodeId,
        hops: Hops,
        carried: T,
        send: impl Fn(PeerAt, Hops, T) -> F,
    ) -> Result<A, Unrelayed<T>>
    where
        F: Future<Output = Result<A, RelayError<T>>>,
    {
        let (mut owner, mut hops, mut returned) = (owner, hops, carried);
        loop {
            let Some(next) = hops.one_more() else {
                return Err(Unrelayed::Refused(Refusal::not_run(Reason::TooManyHops)));
            };
            let Some(peer) = (self.find)(&owner) else {
                return Err(Unrelayed::Returned { returned, cause: Returned::NoPeer(owner) });
            };
            match send(peer, next, returned).await {
                Ok(answer) => return Ok(answer),
                Err(RelayError::Elsewhere { returned: back, holder }) => {
                    (owner, hops, returned) = (holder, next, back);
                }
                Err(RelayError::NotReached { returned, cause }) => {
                    let cause = Returned::NotReached(owner, cause);
                    return Err(Unrelayed::Returned { returned, cause });
                }
                Err(refused @ (RelayError::Refused(_) | RelayError::Lost)) => {
                    return Err(Unrelayed::Refused(refused.into_refusal()));
                }
            }
        }
    }
}
