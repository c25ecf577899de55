//! A tree behind a cluster port: which nodes it knows, and which actors it says are elsewhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::address::{Address, NodeId};
use crate::event::{Event, Reply, ReplyFrom};
use crate::ports::{Hops, LinkFuture, PeerKey, SocketAsked};
use crate::relay::{FromPeers, NotTaken};
use crate::socket::Opened;
use crate::tree::Tree;

#[derive(Default)]
struct Known {
    peers: HashMap<PeerKey, NodeId>,
    elsewhere: HashMap<Address, NodeId>,
    hops: Vec<u8>,
    hellos: Vec<(PeerKey, Bytes)>,
    taken: Vec<(NodeId, Vec<Address>)>,
    greeted: Option<NodeId>,
}

/// Takes what other nodes send.
pub struct TreeOfPeers {
    tree: Arc<Tree>,
    known: Mutex<Known>,
    delivering: AtomicUsize,
}

/// An event that has come and is not answered, nor left by its sender.
struct Delivering<'a>(&'a AtomicUsize);

impl<'a> Delivering<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Delivering<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TreeOfPeers {
    pub fn new(tree: Arc<Tree>) -> Arc<Self> {
        Arc::new(Self { tree, known: Mutex::default(), delivering: AtomicUsize::new(0) })
    }

    /// A node whose lease is live.
    pub fn knows(&self, key: PeerKey, node: NodeId) {
        self.lock().peers.insert(key, node);
    }

    /// Its lease has ended.
    pub fn forgets(&self, key: &PeerKey) {
        self.lock().peers.remove(key);
    }

    /// Whoever says hello next is found in the bucket as this node.
    pub fn finds_at_hello(&self, node: NodeId) {
        self.lock().greeted = Some(node);
    }

    /// Another node has this actor.
    pub fn moves(&self, actor: Address, to: NodeId) {
        self.lock().elsewhere.insert(actor, to);
    }

    /// Of everything that came, over how many hops it did.
    pub fn hops(&self) -> Vec<u8> {
        self.lock().hops.clone()
    }

    /// Events that have come and wait for their answers.
    pub fn delivering(&self) -> usize {
        self.delivering.load(Ordering::SeqCst)
    }

    pub fn hellos(&self) -> Vec<(PeerKey, Bytes)> {
        self.lock().hellos.clone()
    }

    pub fn taken(&self) -> Vec<(NodeId, Vec<Address>)> {
        self.lock().taken.clone()
    }

    fn arrives(&self, actor: &Address, hops: Hops) -> Result<(), NotTaken> {
        let mut known = self.lock();
        known.hops.push(hops.count());
        match known.elsewhere.get(actor) {
            Some(node) => Err(NotTaken::Elsewhere(node.clone())),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FromPeers for TreeOfPeers {
    fn peer(&self, key: &PeerKey) -> Option<NodeId> {
        self.lock().peers.get(key).cloned()
    }

    fn deliver(
        &self,
        hops: Hops,
        event: Event,
        answer: ReplyFrom,
    ) -> LinkFuture<'_, Result<Reply, NotTaken>> {
        Box::pin(async move {
            let _delivering = Delivering::begin(&self.delivering);
            self.arrives(&event.address, hops)?;
            self.tree.deliver(event, answer).await.map_err(NotTaken::Refused)
        })
    }

    fn open_socket(
        &self,
        hops: Hops,
        asked: SocketAsked,
    ) -> LinkFuture<'_, Result<Opened, NotTaken>> {
        Box::pin(async move {
            self.arrives(&asked.address, hops)?;
            let SocketAsked { address, request, caller } = asked;
            let opened = self.tree.open_socket(&address, request, caller).await;
            opened.map_err(NotTaken::Refused)
        })
    }

    fn hello(&self, key: PeerKey, lease: Bytes) -> LinkFuture<'_, ()> {
        let mut known = self.lock();
        known.hellos.push((key, lease));
        if let Some(node) = known.greeted.take() {
            known.peers.insert(key, node);
        }
        Box::pin(async {})
    }

    fn take(&self, from: NodeId, actors: Vec<Address>) -> LinkFuture<'_, ()> {
        self.lock().taken.push((from, actors));
        Box::pin(async {})
    }
}
