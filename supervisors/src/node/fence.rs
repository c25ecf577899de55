//! Ending another node's lease: for a take, or for an operator.

use std::time::Duration;

use thiserror::Error;

use super::peers::{Peers, PeersError, ROUNDS};
use super::rules::Seen;
use crate::address::NodeId;
use crate::bucket::{Attempts, Expected, Nonce, SetError, compare_and_set};
use crate::lease::rules::Asked;
use crate::lease::{LeaseRecord, LeaseState, Load, Session, lease_key};
use crate::limits::{BUCKET_LEASE_WAIT, BUCKET_RECORD_WAIT, LEASE_GRACE, LEASE_PERIOD, LEASE_TTL};
use crate::ports::{ETag, Wait};

/// What an operator's fence found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fenced {
    Now,
    /// It had been released or fenced before.
    Before,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FenceError {
    #[error("there is no lease of this node")]
    NoSuchNode,
    #[error("the node renews its lease: it is alive")]
    Beating,
    #[error("the lease of the node cannot be read")]
    Unreadable,
    #[error(transparent)]
    Bucket(#[from] PeersError),
}

impl Peers {
    /// Ends a node's lease on an operator's word that it is gone. Its holds are void for all others at
    /// once; should it run after all, it may act up to its next renewal, or its horizon if it is cut
    /// off. So one that renews its lease is left alone, unless `force`.
    pub async fn fence(
        &self,
        node: &NodeId,
        reason: &str,
        force: bool,
    ) -> Result<Fenced, FenceError> {
        let first = self.read(node).await?;
        if first.lease().is_some_and(|lease| lease.state.is_acting()) && !force {
            self.parts.clock.sleep(A_BEAT).await;
        }
        for _ in 0..ROUNDS {
            let read = self.read(node).await?;
            let version = read.version().ok_or(FenceError::NoSuchNode)?;
            let lease = read.lease().ok_or(FenceError::Unreadable)?;
            if !lease.state.is_acting() {
                return Ok(Fenced::Before);
            }
            if !force && first.version() != Some(version) {
                return Err(FenceError::Beating);
            }
            let state = LeaseState::Fenced { by: self.parts.node.clone(), reason: reason.into() };
            let fence = LeaseRecord { state, ..(**lease).clone() };
            let expected = Expected::Version(version.clone());
            if self.write(fence, expected, &|| true).await? {
                return Ok(Fenced::Now);
            }
        }
        Err(FenceError::Beating)
    }

    /// Ends a lease that expired. False when another version is there: the node lives, or somebody
    /// was faster.
    pub(super) async fn fence_expired(
        &self,
        node: &NodeId,
        session: Session,
        expired: &Seen<ETag>,
    ) -> Result<bool, PeersError> {
        let term = self.parts.validity.term().ok_or(PeersError::NotLive)?;
        let by = self.parts.node.clone();
        let state = LeaseState::Fenced { by, reason: "expired".to_owned() };
        let fence = match expired.lease() {
            Some(lease) => LeaseRecord { state, ..(**lease).clone() },
            None => self.fence_of_nothing(node, session, state),
        };
        let expected = match expired.version() {
            Some(etag) => Expected::Version(etag.clone()),
            None => Expected::Absent,
        };
        let is_fenced = self.write(fence, expected, &|| term.is_valid()).await?;
        if is_fenced {
            tracing::warn!(node = %node, session = %session, "expired lease fenced");
        }
        Ok(is_fenced)
    }

    /// Stands where there is no lease, or none that can be read.
    fn fence_of_nothing(&self, node: &NodeId, session: Session, state: LeaseState) -> LeaseRecord {
        LeaseRecord {
            node: node.clone(),
            session,
            state,
            beat: 0,
            nonce: Nonce::draw(&*self.parts.random),
            address: String::new(),
            key: [0; 32],
            serves: Vec::new(),
            version: String::new(),
            features: Vec::new(),
            ttl: LEASE_TTL,
            grace: LEASE_GRACE,
            load: Load::default(),
        }
    }

    /// False when another version is there.
    async fn write(
        &self,
        fence: LeaseRecord,
        expected: Expected,
        may_send: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<bool, PeersError> {
        let fence = LeaseRecord { nonce: Nonce::draw(&*self.parts.random), ..fence };
        let sent = self.parts.clock.now();
        let attempts = Attempts {
            wait: Wait::Lease,
            deadline: sent.plus(BUCKET_RECORD_WAIT),
            clock: &*self.parts.clock,
            may_send,
            random: &*self.parts.random,
        };
        let (bucket, key) = (&*self.parts.bucket, lease_key(&fence.node));
        match compare_and_set(bucket, &key, fence.encode(), expected, attempts).await {
            Ok(written) => {
                let asked = Asked { sent, answered: self.parts.clock.now() };
                let node = fence.node.clone();
                self.saw(&node, Some(written.etag), Some(fence.into()), asked);
                Ok(true)
            }
            Err(SetError::Lost(_)) => Ok(false),
            Err(SetError::Stopped) => Err(PeersError::NotLive),
            Err(SetError::Denied(denial)) => Err(PeersError::Denied(denial)),
            Err(SetError::Unknown(doubt)) => Err(PeersError::Unknown(doubt)),
        }
    }
}

/// A node that lives has renewed its lease within this time.
const A_BEAT: Duration = LEASE_PERIOD.saturating_add(BUCKET_LEASE_WAIT);
