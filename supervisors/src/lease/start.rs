//! From no lease to a term, without acting beside another process of the same id.

use std::time::Duration;

use tokio::sync::watch;

use super::process::{Lease, LeaseKeeper, Order, Unwritten, phase_of, state_for};
use super::record::{LeaseRecord, LeaseRecordError, LeaseState};
use super::rules::{self, Asked, Found, Start, Watched};
use super::session::Session;
use super::view::{Phase, Why};
use crate::bucket::Expected;
use crate::limits::{LEASE_GRACE, LEASE_PERIOD, LEASE_RETRY, LEASE_TTL};
use crate::ports::{Denial, ETag, GetError, Wait};
use crate::twin::{Twin, is_broken};

/// Sessions that are remembered as this node's own. To forget one costs a wait, nothing else.
const OWN_SESSIONS: usize = 16;

/// What there is under the node's id, as it is watched.
struct Seen {
    lease: Option<Result<LeaseRecord, LeaseRecordError>>,
    watched: Watched<Option<ETag>>,
}

impl Seen {
    fn found(&self) -> Found<'_> {
        match &self.lease {
            None => Found::Nothing,
            Some(Ok(lease)) => Found::Lease(lease),
            Some(Err(_)) => Found::Unreadable,
        }
    }

    fn expired_after(&self) -> Duration {
        match &self.lease {
            Some(Ok(lease)) => lease.expired_after(),
            _ => LEASE_TTL + LEASE_GRACE,
        }
    }
}

impl LeaseKeeper {
    /// Returns once a term has begun.
    pub(super) async fn start(&mut self, orders: &watch::Receiver<Order>) -> Result<Lease, Denial> {
        let mut watched = None;
        loop {
            let Some(seen) = self.look(watched.clone()).await? else {
                self.parts.clock.sleep(LEASE_RETRY).await;
                continue;
            };
            match self.may_write(&seen) {
                Some(expected) => {
                    let state = state_for(*orders.borrow());
                    match self.begin(expected, state).await {
                        Ok(lease) => return Ok(lease),
                        Err(Unwritten::Denied(denial)) => return Err(denial),
                        Err(Unwritten::Unknown(doubt)) => self.starting(Why::Unknown(doubt)),
                        Err(Unwritten::Lost(_) | Unwritten::TooLate) => {}
                    }
                }
                None => self.wait_for_a_change(&seen).await,
            }
            watched = Some(seen.watched);
        }
    }

    /// Reads what is there; none when that is not known.
    async fn look(&self, watched: Option<Watched<Option<ETag>>>) -> Result<Option<Seen>, Denial> {
        let sent = self.now();
        let read = self.parts.bucket.get(&self.key, Wait::Lease).await;
        let asked = Asked { sent, answered: self.now() };
        let object = match read {
            Ok(object) => Some(object),
            Err(GetError::Missing) => None,
            Err(GetError::Denied(denial)) => return Err(denial),
            Err(GetError::Unknown(doubt)) => {
                self.starting(Why::Unknown(doubt));
                return Ok(None);
            }
        };
        let lease = object.as_ref().map(|object| LeaseRecord::decode(&object.body));
        let version = object.map(|object| object.etag);
        let watched = match watched {
            Some(watched) => watched.seen(version, asked),
            None => Watched::new(version, asked),
        };
        Ok(Some(Seen { lease, watched }))
    }

    /// What a first write must find; none while it has to wait.
    fn may_write(&self, seen: &Seen) -> Option<Expected> {
        let is_expired = seen.watched.is_unchanged_for(seen.expired_after());
        match (rules::start(seen.found(), &self.own, is_expired), seen.watched.version()) {
            (Start::Create, _) | (Start::Replace, None) => Some(Expected::Absent),
            (Start::Replace, Some(etag)) => Some(Expected::Version(etag.clone())),
            (Start::Wait, _) => None,
        }
    }

    /// Until another process may have given a sign of life, or may be seen to give none.
    async fn wait_for_a_change(&self, seen: &Seen) {
        match &seen.lease {
            Some(Ok(lease)) => self.starting(Why::Beside { address: lease.address.clone() }),
            Some(Err(error)) => self.starting(Why::Unreadable(error.clone())),
            None => {}
        }
        let expires = seen.watched.unchanged_for_at(seen.expired_after());
        let wait = expires.since(self.now()).clamp(LEASE_RETRY, LEASE_PERIOD);
        self.parts.clock.sleep(wait).await;
    }

    async fn begin(&mut self, expected: Expected, state: LeaseState) -> Result<Lease, Unwritten> {
        let session = self.next_session();
        (self.parts.remember)(session);
        let record = self.record(session, state.clone(), 1);
        let sent = self.now();
        let written = self.write(&record, expected, sent.plus(LEASE_TTL)).await?;
        let asked = Asked { sent, answered: self.now() };
        let horizon = rules::started(asked).ok_or(Unwritten::TooLate)?;
        self.parts.validity.begin(session, horizon, written.date);
        self.show(phase_of(&state), Some(session), None);
        Ok(Lease { session, etag: written.etag, beat: 1, state, sent, horizon })
    }

    /// One that no write ever carried: others may have seen an earlier one end.
    fn next_session(&mut self) -> Session {
        match self.own.last() {
            Some(last) if is_broken(Twin::KeepsSessionOverLapse) => *last,
            _ => {
                let session = Session::draw(&*self.parts.random);
                if self.own.len() == OWN_SESSIONS {
                    self.own.remove(0);
                }
                self.own.push(session);
                session
            }
        }
    }

    fn starting(&self, why: Why) {
        if self.show(Phase::Starting, None, Some(why.clone())) {
            tracing::warn!(node = %self.parts.node, cause = %why, "lease not begun");
        }
    }
}
