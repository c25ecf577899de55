//! What other nodes send to the actors of this one.

use std::sync::Arc;

use bytes::Bytes;

use super::Tree;
use super::dispatcher::Delivered;
use crate::address::{Address, NodeId};
use crate::event::{Event, Refusal, Reply, ReplyFrom};
use crate::node::Peers;
use crate::ports::{Hops, LinkFuture, PeerKey, SocketAsked};
use crate::relay::{FromPeers, NotTaken};
use crate::socket::Opened;

/// The tree, as the cluster port sees it.
pub struct PeersOfTree {
    pub tree: Arc<Tree>,
    pub peers: Arc<Peers>,
}

impl FromPeers for PeersOfTree {
    fn peer(&self, key: &PeerKey) -> Option<NodeId> {
        let found = self.peers.all().into_iter().find(|peer| peer.key == *key && peer.is_live());
        found.map(|peer| peer.node)
    }

    fn deliver(
        &self,
        _: Hops,
        event: Event,
        answer: ReplyFrom,
    ) -> LinkFuture<'_, Result<Reply, NotTaken>> {
        Box::pin(async move {
            match self.tree.dispatcher.deliver_counted(event, answer).await {
                Ok(Delivered::Here(reply)) => Ok(reply),
                Ok(Delivered::Elsewhere(owner, _)) => Err(NotTaken::Elsewhere(owner)),
                Err(refusal) => Err(NotTaken::Refused(refusal)),
            }
        })
    }

    fn open_socket(
        &self,
        _: Hops,
        SocketAsked { address, request, caller }: SocketAsked,
    ) -> LinkFuture<'_, Result<Opened, NotTaken>> {
        Box::pin(async move {
            let opened = self.tree.open_socket_here(&address, request, caller).await;
            opened.map_err(|refusal: Refusal| match self.tree.owner_elsewhere(&address, &refusal) {
                Some(owner) => NotTaken::Elsewhere(owner),
                None => NotTaken::Refused(refusal),
            })
        })
    }

    fn hello(&self, _: PeerKey, lease: Bytes) -> LinkFuture<'_, ()> {
        if let Err(error) = self.peers.hello(&lease) {
            tracing::warn!(%error, "hello not understood");
        }
        Box::pin(std::future::ready(()))
    }

    fn take(&self, _: NodeId, actors: Vec<Address>) -> LinkFuture<'_, ()> {
        // The record says who may have them; the first event takes them.
        let _ = actors;
        Box::pin(std::future::ready(()))
    }
}
