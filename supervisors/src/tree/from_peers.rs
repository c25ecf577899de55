//! What other nodes send to the actors of this one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::Tree;
use super::dispatcher::Delivered;
use crate::address::{Address, NodeId};
use crate::event::{Event, Refusal, Reply, ReplyFrom};
use crate::node::Peers;
use crate::ports::{Hops, LinkFuture, PeerKey, SocketAsked};
use crate::relay::{FromPeers, NotTaken};
use crate::socket::Opened;

/// How long a hello waits until its lease has been read, and how often that is looked for.
const HELLO_WAIT: Duration = Duration::from_secs(2);
const HELLO_LOOK: Duration = Duration::from_millis(10);

/// The tree, as the cluster port sees it.
pub struct PeersOfTree {
    pub tree: Arc<Tree>,
    pub peers: Arc<Peers>,
}

impl FromPeers for PeersOfTree {
    fn peer(&self, key: &PeerKey) -> Option<NodeId> {
        self.peers.live_with_key(key)
    }

    fn deliver(
        &self,
        _: Hops,
        event: Event,
        answer: ReplyFrom,
    ) -> LinkFuture<'_, Result<Reply, NotTaken>> {
        Box::pin(async move {
            match self.tree.dispatcher.deliver_counted(Box::new(event), answer).await {
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

    fn hello(&self, key: PeerKey, lease: Bytes) -> LinkFuture<'_, ()> {
        Box::pin(async move {
            if let Err(error) = self.peers.hello(&lease) {
                return tracing::warn!(%error, "hello not understood");
            }
            // Its lease is read by who watches the others.
            let until = Instant::now() + HELLO_WAIT;
            while self.peer(&key).is_none() && Instant::now() < until {
                sleep(HELLO_LOOK).await;
            }
        })
    }

    fn take(&self, _: NodeId, actors: Vec<Address>) -> LinkFuture<'_, ()> {
        // The record says who may have them; the first event takes them.
        let _ = actors;
        Box::pin(std::future::ready(()))
    }
}
