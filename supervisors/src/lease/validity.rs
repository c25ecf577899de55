//! How long this node may act, as every hold asks it: two loads, no lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::session::Session;
use crate::limits::LEASE_LAST_START;
use crate::ports::{BucketTime, Steady};
use crate::time::NodeTime;
use crate::twin::{Twin, is_broken};

/// The lease's present term and its horizon. Only the lease's process changes it.
pub struct Validity {
    clock: Arc<dyn Steady>,
    /// The number of the present term; 0 and every even one mean that there is none.
    number: AtomicU64,
    /// `NodeTime` up to which the present term is valid.
    horizon: AtomicU64,
    /// The bucket's clock at the last renewal; 0 when it did not say.
    renewed: AtomicU64,
    present: watch::Sender<Option<Session>>,
}

/// One unbroken validity of this node's lease, with its session. Once it has ended it never holds
/// again.
#[derive(Clone)]
pub struct Term {
    validity: Arc<Validity>,
    number: u64,
    session: Session,
}

impl Validity {
    /// Without a term.
    pub fn new(clock: Arc<dyn Steady>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            number: AtomicU64::new(0),
            horizon: AtomicU64::new(0),
            renewed: AtomicU64::new(0),
            present: watch::Sender::new(None),
        })
    }

    /// Begins a term that is valid up to `horizon`. The one before must have been ended.
    pub fn begin(
        self: &Arc<Self>,
        session: Session,
        horizon: NodeTime,
        renewed: Option<BucketTime>,
    ) -> Term {
        self.set(horizon, renewed);
        let number = self.number.load(Ordering::SeqCst) | 1;
        self.number.store(number, Ordering::SeqCst);
        self.present.send_replace(Some(session));
        Term { validity: Arc::clone(self), number, session }
    }

    /// The present term was renewed.
    pub fn extend(&self, horizon: NodeTime, renewed: Option<BucketTime>) {
        self.set(horizon, renewed);
    }

    /// Ends the present term, and every hold with it.
    pub fn end(&self) {
        let number = self.number.load(Ordering::SeqCst);
        if number % 2 == 1 {
            // Before the horizon can move again: who reads a later one finds its own term over.
            self.number.store(number + 1, Ordering::SeqCst);
            self.horizon.store(0, Ordering::SeqCst);
            self.present.send_replace(None);
        }
    }

    /// The present term, if it is valid now.
    pub fn term(self: &Arc<Self>) -> Option<Term> {
        let session = (*self.present.borrow())?;
        let number = self.number.load(Ordering::SeqCst);
        let term = Term { validity: Arc::clone(self), number, session };
        // Between the two reads another term may have begun: then the number is of that one.
        let is_same = *self.present.borrow() == Some(session);
        (number % 2 == 1 && is_same && term.is_valid()).then_some(term)
    }

    /// The session of the present term: none between two terms. For who waits for a change.
    pub fn watch(&self) -> watch::Receiver<Option<Session>> {
        self.present.subscribe()
    }

    fn set(&self, horizon: NodeTime, renewed: Option<BucketTime>) {
        self.renewed.store(renewed.map_or(0, |time| time.0), Ordering::SeqCst);
        self.horizon.store(horizon.0, Ordering::SeqCst);
    }
}

impl Term {
    pub fn session(&self) -> Session {
        self.session
    }

    /// The node may act for this term now: acknowledge, answer, send a write.
    pub fn is_valid(&self) -> bool {
        self.is_valid_at(self.validity.clock.now())
    }

    /// An event may start: there is some time to the horizon.
    pub fn may_start(&self) -> bool {
        self.is_valid_at(self.validity.clock.now().plus(LEASE_LAST_START))
    }

    /// The bucket's clock at the last renewal, if it said so. It is of this term only if the term is
    /// found valid after it was asked for.
    pub fn renewed(&self) -> Option<BucketTime> {
        match self.validity.renewed.load(Ordering::SeqCst) {
            0 => None,
            time => Some(BucketTime(time)),
        }
    }

    /// Returns once the term has been ended. A horizon that passes unnoticed does not count: ask
    /// `is_valid` for that.
    pub async fn ended(&self) {
        let mut present = self.validity.present.subscribe();
        let _ = present.wait_for(|session| *session != Some(self.session)).await;
    }

    fn is_valid_at(&self, now: NodeTime) -> bool {
        let keeps_on = is_broken(Twin::KeepsSessionOverLapse);
        // In this order: a horizon read after the term ended may be the next one's. `begin` writes the
        // horizon before the number and `end` the number before anything else, so a number that is
        // still this term's makes the horizon read before it this term's too.
        let horizon = NodeTime(self.validity.horizon.load(Ordering::SeqCst));
        let is_present = self.validity.number.load(Ordering::SeqCst) == self.number;
        (is_present || keeps_on) && now < horizon
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "term({})", self.session)
    }
}
