//! What this node knows of the others, and what it is asked about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::Notify;

use super::rules::{Seen, Verdict};
use crate::address::NodeId;
use crate::lease::rules::Asked;
use crate::lease::{
    LeaseRecord, LeaseRecordError, LeaseState, Load, Serves, Session, Validity, lease_key,
};
use crate::limits::{NODE_GONE_KEPT, NODES_MAX};
use crate::ports::{Bucket, Denial, Doubt, ETag, GetError, Random, Steady, Wait};
use crate::time::NodeTime;

/// Reads of one question. Each further one means that the lease changed in between.
pub(super) const ROUNDS: usize = 4;

pub struct PeersParts {
    pub bucket: Arc<dyn Bucket>,
    pub clock: Arc<dyn Steady>,
    pub random: Arc<dyn Random>,
    /// Of this node: it fences nobody without a valid lease of its own.
    pub validity: Arc<Validity>,
    pub node: NodeId,
}

pub struct Peers {
    pub(super) parts: PeersParts,
    known: Mutex<Known>,
    /// Somebody said hello.
    pub(super) hello: Notify,
}

#[derive(Default)]
struct Known {
    seen: BTreeMap<NodeId, Seen<ETag>>,
    /// Nodes that exist, as somebody said; they are to be read.
    unread: BTreeSet<NodeId>,
}

/// Another node, as its lease tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub node: NodeId,
    pub session: Session,
    pub address: String,
    pub key: [u8; 32],
    pub state: LeaseState,
    /// It was not renewed for a while; forwards are tried all the same.
    pub is_suspect: bool,
    pub serves: Vec<Serves>,
    pub version: String,
    pub features: Vec<String>,
    pub load: Load,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeersError {
    /// This node may not write now.
    #[error("this node has no valid lease")]
    NotLive,
    #[error("the lease of the node is not known: {0}")]
    Unknown(Doubt),
    #[error(transparent)]
    Denied(Denial),
    #[error("there are more than {NODES_MAX} nodes")]
    TooMany,
}

impl Peer {
    /// Its lease holds, as far as is known.
    pub fn is_live(&self) -> bool {
        self.state.is_acting()
    }

    fn of(seen: &Seen<ETag>) -> Option<Self> {
        let lease = seen.lease()?;
        Some(Self {
            node: lease.node.clone(),
            session: lease.session,
            address: lease.address.clone(),
            key: lease.key,
            state: lease.state.clone(),
            is_suspect: seen.is_suspect(),
            serves: lease.serves.clone(),
            version: lease.version.clone(),
            features: lease.features.clone(),
            load: lease.load,
        })
    }
}

impl Peers {
    pub fn new(parts: PeersParts) -> Self {
        Self { parts, known: Mutex::default(), hello: Notify::new() }
    }

    /// A node with a lease that could be read when it was last looked at.
    pub fn find(&self, node: &NodeId) -> Option<Peer> {
        Peer::of(self.known().seen.get(node)?)
    }

    /// The node with a live lease that says this key. Asked for each request of a peer: nothing is copied
    /// for it but the name.
    pub fn live_with_key(&self, key: &[u8; 32]) -> Option<NodeId> {
        let known = self.known();
        let mut leases = known.seen.values().filter_map(Seen::lease);
        let found = leases.find(|lease| lease.key == *key && lease.state.is_acting())?;
        Some(found.node.clone())
    }

    /// All of them, in the order of their names; this node is not among them.
    pub fn all(&self) -> Vec<Peer> {
        self.known().seen.values().filter_map(Peer::of).collect()
    }

    /// A node that has just started sent its lease: it is looked for in the bucket at once. What it
    /// sent counts for nothing else.
    pub fn hello(&self, lease: &[u8]) -> Result<(), LeaseRecordError> {
        let lease = LeaseRecord::decode(lease)?;
        if self.add(lease.node) {
            self.hello.notify_one();
        }
        Ok(())
    }

    /// Whether the holds of a node's session have ended for good. To say so of a lease that merely
    /// expired, it is fenced first. The caller read the session before it asks.
    pub async fn is_void(&self, node: &NodeId, session: Session) -> Result<bool, PeersError> {
        if *node == self.parts.node {
            return self.is_before_this(session).await;
        }
        let mut seen = self.known().seen.get(node).cloned();
        let mut verdict =
            seen.as_ref().map_or(Verdict::ReadFirst, |seen| seen.verdict_before(session));
        for _ in 0..ROUNDS {
            match (verdict, &seen) {
                (Verdict::Void, _) => return Ok(true),
                (Verdict::Stands, _) => return Ok(false),
                (Verdict::FenceFirst, Some(expired)) => {
                    if self.fence_expired(node, session, expired).await? {
                        return Ok(true);
                    }
                }
                (Verdict::FenceFirst, None) | (Verdict::ReadFirst, _) => {}
            }
            let read = self.read(node).await?;
            verdict = read.verdict(session);
            seen = Some(read);
        }
        // It changes faster than it can be looked at, so somebody writes it.
        Ok(false)
    }

    /// Of this node's own sessions all but the present one have ended, unless the lease shows a later
    /// one: another process took the name while this one's clock stood still.
    async fn is_before_this(&self, session: Session) -> Result<bool, PeersError> {
        let term = self.parts.validity.term().ok_or(PeersError::NotLive)?;
        if term.session() == session {
            return Ok(false);
        }
        let read = self.read(&self.parts.node).await?;
        match read.lease().is_none_or(|lease| lease.session == term.session()) {
            true => Ok(true),
            false => Err(PeersError::NotLive),
        }
    }

    /// Reads a node's lease, and returns what that shows, with all that was seen of the same version.
    pub(super) async fn read(&self, node: &NodeId) -> Result<Seen<ETag>, PeersError> {
        let before = self.known().seen.get(node).cloned();
        let etag = before.as_ref().and_then(|seen| seen.version().cloned());
        let key = lease_key(node);
        let sent = self.parts.clock.now();
        let read = match &etag {
            Some(etag) => self.parts.bucket.get_if_changed(&key, etag, Wait::Lease).await,
            None => self.parts.bucket.get(&key, Wait::Lease).await.map(Some),
        };
        let asked = Asked { sent, answered: self.parts.clock.now() };
        let (version, lease) = match (read, &before) {
            (Ok(Some(object)), _) => {
                let lease = LeaseRecord::decode(&object.body).map_err(|error| {
                    tracing::warn!(node = %node, cause = %error, "lease of a node not readable");
                });
                let lease = lease.ok().filter(|lease| lease.node == *node).map(Arc::new);
                (Some(object.etag), lease)
            }
            (Ok(None), Some(before)) => (etag, before.lease().cloned()),
            (Ok(None), None) | (Err(GetError::Missing), _) => (None, None),
            (Err(GetError::Denied(denial)), _) => return Err(PeersError::Denied(denial)),
            (Err(GetError::Unknown(doubt)), _) => return Err(PeersError::Unknown(doubt)),
        };
        let is_this = |seen: &Seen<ETag>| seen.version() == version.as_ref();
        let kept = self.saw(node, version.clone(), lease.clone(), asked);
        if let Some(kept) = kept.filter(is_this) {
            return Ok(kept);
        }
        // Another read has shown another version meanwhile. It may have been sent before this one.
        Ok(match before.filter(is_this) {
            Some(before) => before.seen(version, lease, asked),
            None => Seen::new(version, lease, asked),
        })
    }

    /// Keeps what a read or write showed. Returns what is known then, which may be of a newer version.
    pub(super) fn saw(
        &self,
        node: &NodeId,
        version: Option<ETag>,
        lease: Option<Arc<LeaseRecord>>,
        asked: Asked,
    ) -> Option<Seen<ETag>> {
        if *node == self.parts.node {
            return None;
        }
        let mut known = self.known();
        let seen = match known.seen.remove(node) {
            Some(before) => before.seen(version, lease, asked),
            None if known.seen.len() >= NODES_MAX => return None,
            None => Seen::new(version, lease, asked),
        };
        known.seen.insert(node.clone(), seen.clone());
        Some(seen)
    }

    /// Remembers that there is such a node. True when it is to be read.
    pub(super) fn add(&self, node: NodeId) -> bool {
        let mut known = self.known();
        let has_room = known.seen.len() + known.unread.len() < NODES_MAX;
        let is_wanted = node != self.parts.node && (has_room || known.seen.contains_key(&node));
        if is_wanted {
            known.unread.insert(node);
        }
        is_wanted
    }

    /// What was read of a node that only somebody named. Without a lease it is none: who is asked about
    /// a session of such a node watches it all the same.
    pub(super) fn forget_missing(&self, node: &NodeId) {
        let mut known = self.known();
        if known.seen.get(node).is_some_and(|seen| seen.version().is_none()) {
            known.seen.remove(node);
        }
    }

    pub(super) fn knows(&self, node: &NodeId) -> bool {
        self.known().seen.contains_key(node)
    }

    /// The nodes that somebody named since this was last asked.
    pub(super) fn take_unread(&self) -> Vec<NodeId> {
        std::mem::take(&mut self.known().unread).into_iter().collect()
    }

    /// Every node to look at, and when the first of them may be seen to have expired.
    pub(super) fn to_read(&self) -> (Vec<NodeId>, Option<NodeTime>) {
        let mut known = self.known();
        known.seen.retain(|_, seen| !seen.is_gone_for(NODE_GONE_KEPT));
        let expires = known.seen.values().filter_map(Seen::expires_at).min();
        (known.seen.keys().cloned().collect(), expires)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each entry is whole after a panic anywhere.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
