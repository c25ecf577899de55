//! Keeps one node's lease: writes it, renews it, and ends the term when that fails.
//!
//! It is no ractor process: it runs alone on a thread of its own, so that nothing else a node does
//! can delay it.

use std::sync::Arc;

use tokio::sync::watch;

use super::record::{LeaseRecord, LeaseState, Load, Serves, lease_key};
use super::session::Session;
use super::validity::Validity;
use super::view::{Ended, LeaseView, Phase, Why};
use crate::address::NodeId;
use crate::bucket::{Attempts, Expected, Nonce, SetError, compare_and_set};
use crate::limits::{LEASE_GRACE, LEASE_TTL};
use crate::ports::{Bucket, Denial, Doubt, ETag, Random, Steady, Wait, Written};
use crate::time::NodeTime;

/// What is done with the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Serve,
    /// The others are told at once that this node takes nothing more.
    Drain,
    /// The lease is given back. No hold may be left: the others take its actors on sight.
    Release,
}

/// What the node tells the others of itself.
#[derive(Debug, Clone)]
pub struct Told {
    pub address: String,
    pub key: [u8; 32],
    pub serves: Vec<Serves>,
    pub version: String,
    pub features: Vec<String>,
}

pub struct LeaseParts {
    /// With connections of its own: no upload may delay a renewal.
    pub bucket: Arc<dyn Bucket>,
    pub clock: Arc<dyn Steady>,
    pub random: Arc<dyn Random>,
    /// What is kept. Nothing else changes it.
    pub validity: Arc<Validity>,
    pub node: NodeId,
    pub told: Told,
    /// Of the process before this one, only if that is known to be gone: the machine was not started
    /// anew since, and nobody else has the data directory.
    pub last_session: Option<Session>,
    /// Called before a session is written to the bucket: a process after this one may be asked whose
    /// it was.
    pub remember: Arc<dyn Fn(Session) + Send + Sync>,
    pub load: Arc<dyn Fn() -> Load + Send + Sync>,
}

pub struct LeaseKeeper {
    pub(super) parts: LeaseParts,
    pub(super) key: String,
    view: watch::Sender<LeaseView>,
    /// Sessions of this node that have ended, and whose writes may still land.
    pub(super) own: Vec<Session>,
}

/// The lease as it was last written.
pub(super) struct Lease {
    pub(super) session: Session,
    pub(super) etag: ETag,
    pub(super) beat: u64,
    pub(super) state: LeaseState,
    /// Before the write was sent.
    pub(super) sent: NodeTime,
    pub(super) horizon: NodeTime,
}

/// Why a write of the lease is not known to have landed.
pub(super) enum Unwritten {
    Denied(Denial),
    /// Another write is there: its body, none when nothing is.
    Lost(Option<bytes::Bytes>),
    Unknown(Doubt),
    /// Its time was over before it was sent.
    TooLate,
}

impl LeaseKeeper {
    pub fn new(parts: LeaseParts) -> Self {
        let key = lease_key(&parts.node);
        let view = LeaseView { phase: Phase::Starting, session: None, why: None };
        let own = parts.last_session.into_iter().collect();
        Self { parts, key, view: watch::Sender::new(view), own }
    }

    pub fn view(&self) -> watch::Receiver<LeaseView> {
        self.view.subscribe()
    }

    /// Until the lease is released as ordered, or lost for good. After a lapse it begins anew with
    /// another session. However this ends, dropped or in a panic, the term ends with it.
    pub async fn run(mut self, mut orders: watch::Receiver<Order>) -> Ended {
        let _ends = EndsTerm(Arc::clone(&self.parts.validity));
        let ended = self.keep(&mut orders).await;
        self.parts.validity.end();
        let why = match &ended {
            Ended::Released => None,
            Ended::Fenced { by, reason } => {
                Some(Why::Fenced { by: by.clone(), reason: reason.clone() })
            }
            Ended::Denied(denial) => Some(Why::Denied(denial.clone())),
        };
        self.show(Phase::Ended, None, why);
        ended
    }

    async fn keep(&mut self, orders: &mut watch::Receiver<Order>) -> Ended {
        loop {
            let mut released = orders.clone();
            let started = tokio::select! {
                biased;
                // What it may have written has no holds, and expires.
                () = until(&mut released, |order| order == Order::Release) => {
                    return Ended::Released;
                }
                started = self.start(orders) => started,
            };
            let lease = match started {
                Ok(lease) => lease,
                Err(denial) => return Ended::Denied(denial),
            };
            tracing::info!(node = %self.parts.node, session = %lease.session, "lease begun");
            match self.hold(lease, orders).await {
                Ok(ended) => return ended,
                Err(why) => {
                    tracing::warn!(node = %self.parts.node, cause = %why, "lease lapsed");
                    self.show(Phase::Starting, None, Some(why));
                }
            }
        }
    }

    pub(super) fn now(&self) -> NodeTime {
        self.parts.clock.now()
    }

    /// True when that is news.
    pub(super) fn show(&self, phase: Phase, session: Option<Session>, why: Option<Why>) -> bool {
        let view = LeaseView { phase, session, why };
        self.view.send_if_modified(|shown| {
            let is_news = *shown != view;
            *shown = view;
            is_news
        })
    }

    pub(super) fn record(&self, session: Session, state: LeaseState, beat: u64) -> LeaseRecord {
        let Told { address, key, serves, version, features } = self.parts.told.clone();
        LeaseRecord {
            node: self.parts.node.clone(),
            session,
            state,
            beat,
            nonce: Nonce::draw(&*self.parts.random),
            address,
            key,
            serves,
            version,
            features,
            ttl: LEASE_TTL,
            grace: LEASE_GRACE,
            load: (self.parts.load)(),
        }
    }

    /// Writes the lease once. Nothing is sent, and nothing waited for, at or after `deadline`.
    pub(super) async fn write(
        &self,
        record: &LeaseRecord,
        expected: Expected,
        deadline: NodeTime,
    ) -> Result<Written, Unwritten> {
        let LeaseParts { bucket, clock, random, .. } = &self.parts;
        let attempts = Attempts {
            wait: Wait::Lease,
            deadline,
            clock: &**clock,
            may_send: &|| true,
            random: &**random,
        };
        let set = compare_and_set(&**bucket, &self.key, record.encode(), expected, attempts).await;
        set.map_err(|error| match error {
            SetError::Denied(denial) | SetError::Unknown(Doubt::Denied(denial)) => {
                Unwritten::Denied(denial)
            }
            SetError::Lost(object) => Unwritten::Lost(object.map(|object| object.body)),
            SetError::Unknown(doubt) => Unwritten::Unknown(doubt),
            SetError::Stopped => Unwritten::TooLate,
        })
    }
}

/// The state that an order asks for.
pub(super) fn state_for(order: Order) -> LeaseState {
    match order {
        Order::Serve => LeaseState::Live,
        Order::Drain | Order::Release => LeaseState::Draining,
    }
}

pub(super) fn phase_of(state: &LeaseState) -> Phase {
    match state {
        LeaseState::Live => Phase::Live,
        _ => Phase::Draining,
    }
}

/// Returns once the present order is of this kind; never when no more orders can come.
pub(super) async fn until(
    orders: &mut watch::Receiver<Order>,
    is_it: impl Fn(Order) -> bool + Send,
) {
    if orders.wait_for(|order| is_it(*order)).await.is_err() {
        std::future::pending().await
    }
}

struct EndsTerm(Arc<Validity>);

impl Drop for EndsTerm {
    fn drop(&mut self) {
        self.0.end();
    }
}
