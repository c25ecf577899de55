//! What the cluster port asks of the node about what other nodes send.

use bytes::Bytes;

use crate::address::{Address, NodeId};
use crate::event::{Event, Refusal, Reply, ReplyFrom};
use crate::ports::{Hops, LinkFuture, PeerKey, SocketAsked};
use crate::socket::Opened;

/// Why an event of another node has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTaken {
    Refused(Refusal),
    /// This node does not have the actor. Said before anything of the event is admitted, so that it
    /// can be sent there.
    Elsewhere(NodeId),
}

/// The node, as its cluster port sees it.
pub trait FromPeers: Send + Sync + 'static {
    /// The live node that has this key, by the leases this node knows. Asked for every request: a
    /// connection outlives the lease of who opened it.
    fn peer(&self, key: &PeerKey) -> Option<NodeId>;

    /// As `Tree::deliver`, for an event that came over so many hops.
    fn deliver(
        &self,
        hops: Hops,
        event: Event,
        answer: ReplyFrom,
    ) -> LinkFuture<'_, Result<Reply, NotTaken>>;

    /// As `Tree::open_socket`.
    fn open_socket(
        &self,
        hops: Hops,
        asked: SocketAsked,
    ) -> LinkFuture<'_, Result<Opened, NotTaken>>;

    /// A node says that it has started. Nothing it says counts: its lease is read in the bucket, and
    /// has to have the key of the connection.
    fn hello(&self, key: PeerKey, lease: Bytes) -> LinkFuture<'_, ()>;

    /// A peer released these actors for this node.
    fn take(&self, from: NodeId, actors: Vec<Address>) -> LinkFuture<'_, ()>;
}
