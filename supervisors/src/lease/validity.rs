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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::*;
    use crate::testing::SteadyClock;

    fn session(number: u64) -> Session {
        Session::from_bytes(u128::from(number).to_be_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_is_valid_up_to_its_horizon_and_never_in_another_term() {
        let clock = SteadyClock::new();
        let validity = Validity::new(Arc::new(clock.clone()));
        assert!(validity.term().is_none());
        let first = validity.begin(session(1), clock.now().plus(Duration::from_secs(10)), None);
        assert!(first.is_valid() && first.may_start());
        assert_eq!(validity.term().map(|term| term.session()), Some(session(1)));
        clock.jump(Duration::from_secs(9));
        assert!(first.is_valid() && !first.may_start());
        clock.jump(Duration::from_secs(1));
        assert!(!first.is_valid(), "at the horizon");
        assert!(validity.term().is_none(), "though nobody has ended it");
        validity.end();
        let time = Some(BucketTime(7));
        let second = validity.begin(session(2), clock.now().plus(Duration::from_secs(10)), time);
        assert!(!first.is_valid() && second.is_valid());
        assert_eq!(second.renewed(), time);
        first.ended().await;
        validity.end();
        validity.end();
        assert!(!second.is_valid());
        second.ended().await;
    }

    /// The order of loads and stores: a term that has ended is never found valid by the horizon of
    /// the next one.
    #[test]
    fn no_thread_finds_a_term_valid_after_it_has_ended() {
        struct Still;
        impl Steady for Still {
            fn now(&self) -> NodeTime {
                NodeTime(1)
            }
            fn sleep(
                &self,
                _: Duration,
            ) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
                Box::pin(std::future::pending())
            }
        }
        let validity = Validity::new(Arc::new(Still));
        let ended = AtomicU64::new(0);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let mut seen = 0;
                    while ended.load(Ordering::SeqCst) < 20_000 {
                        let Some(term) = validity.term() else { continue };
                        let number = u64::try_from(u128::from_be_bytes(term.session().as_bytes()));
                        let number = number.expect("a small number");
                        for _ in 0..20 {
                            let before = ended.load(Ordering::SeqCst);
                            let is_valid = term.is_valid();
                            assert!(!is_valid || before < number, "term {number} has ended");
                        }
                        assert!(number >= seen, "an earlier term came back");
                        seen = number;
                    }
                });
            }
            for number in 1..=20_000 {
                validity.begin(session(number), NodeTime(2), None);
                validity.extend(NodeTime(3), None);
                validity.end();
                ended.store(number, Ordering::SeqCst);
            }
        });
    }
}
