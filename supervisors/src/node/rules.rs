//! What an observer may conclude from a lease that it watches.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::rules::{Asked, Watched};
use crate::lease::{LeaseRecord, Session};
use crate::limits::{LEASE_GRACE, LEASE_TTL};
use crate::time::NodeTime;
use crate::twin::{Twin, is_broken};

/// A node's lease as it was last seen. `V` names a version of the object.
#[derive(Debug, Clone)]
pub struct Seen<V> {
    /// None: there is no object.
    watched: Watched<Option<V>>,
    /// None when there is none, or none that can be read.
    lease: Option<Arc<LeaseRecord>>,
    suspect_after: Duration,
    expired_after: Duration,
}

/// Whether the holds of one session have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// For good.
    Void,
    /// They may be valid.
    Stands,
    /// They may, until the version that was watched is fenced.
    FenceFirst,
    /// What is known is too old to tell.
    ReadFirst,
}

impl<V: PartialEq + Clone> Seen<V> {
    pub fn new(version: Option<V>, lease: Option<Arc<LeaseRecord>>, asked: Asked) -> Self {
        let suspect_after = lease.as_ref().map_or(LEASE_TTL, |lease| lease.suspect_after());
        let expired_after =
            lease.as_ref().map_or(LEASE_TTL + LEASE_GRACE, |lease| lease.expired_after());
        Self { watched: Watched::new(version, asked), lease, suspect_after, expired_after }
    }

    /// After another read, which showed this.
    #[must_use]
    pub fn seen(self, version: Option<V>, lease: Option<Arc<LeaseRecord>>, asked: Asked) -> Self {
        let watched = self.watched.clone().seen(version.clone(), asked);
        if *watched.version() == *self.watched.version() {
            return Self { watched, ..self };
        }
        // What takes the place of a lease without saying how long to wait has its numbers: its
        // writer may still go by them.
        let (suspect, expired) = match &lease {
            Some(lease) => (lease.suspect_after(), lease.expired_after()),
            None => (self.suspect_after, self.expired_after),
        };
        Self { watched, lease, suspect_after: suspect, expired_after: expired }
    }

    pub fn version(&self) -> Option<&V> {
        self.watched.version().as_ref()
    }

    pub fn lease(&self) -> Option<&Arc<LeaseRecord>> {
        self.lease.as_ref()
    }

    /// It was not renewed for a while: nothing new is given to this node.
    pub fn is_suspect(&self) -> bool {
        self.watched.is_unchanged_for(self.suspect_after)
    }

    /// It stood for so long that its writer's horizon has passed.
    pub fn is_expired(&self) -> bool {
        self.watched.is_unchanged_for(self.expired_after)
    }

    /// From when on a read can show that it has expired; none when one did, or it has ended anyway.
    pub fn expires_at(&self) -> Option<NodeTime> {
        let has_ended = self.lease.as_ref().is_some_and(|lease| !lease.state.is_acting());
        let is_open = !has_ended && !self.is_expired();
        is_open.then(|| self.watched.unchanged_for_at(self.expired_after))
    }

    /// It is gone from the bucket, for so long.
    pub fn is_gone_for(&self, time: Duration) -> bool {
        self.version().is_none() && self.watched.is_unchanged_for(time)
    }

    /// What was seen before the question says of a session.
    pub fn verdict_before(&self, session: Session) -> Verdict {
        match &self.lease {
            Some(lease) if lease.session == session => match self.verdict(session) {
                // It may have ended meanwhile.
                Verdict::Stands => Verdict::ReadFirst,
                verdict => verdict,
            },
            // Which of the two is newer cannot be told.
            Some(_) if is_broken(Twin::VoidByCachedSession) => Verdict::Void,
            _ => Verdict::ReadFirst,
        }
    }

    /// What this says of a session that was known when the read was sent.
    pub fn verdict(&self, session: Session) -> Verdict {
        match &self.lease {
            // A node ends a session before it writes the next one.
            Some(lease) if lease.session != session => Verdict::Void,
            Some(lease) if !lease.state.is_acting() => Verdict::Void,
            _ if self.is_expired() && is_broken(Twin::VerdictFromReceiptWithoutFence) => {
                Verdict::Void
            }
            _ if self.is_expired() => Verdict::FenceFirst,
            _ => Verdict::Stands,
        }
    }
}
