//! Holds an actor's answers back until what they may tell of is durable.
//!
//! A durable write may let its event end, and the next one begin, while the disk or the bucket still
//! works on it. Until that is done nothing leaves the actor: its answers wait here in their order,
//! and whatever else would tell of the write waits for `settled`. If it turns out not to be durable,
//! all that waits fails, and so does everything until the actor starts anew: nobody outside sees what
//! may be lost. ADR 0021.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Answer, MayAnswer, Reason, Refusal, Reply};
use crate::limits::ANSWERS_HELD_MAX;

/// A durable write: the how manyth it is since the actor came into memory.
pub type Mark = u64;

/// It is not known whether a write became durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("what the actor wrote is not known to be durable")]
pub struct NotDurable;

/// Between one actor and everybody outside.
#[derive(Debug, Default)]
pub struct OutputGate {
    gated: Mutex<Gated>,
    /// Writes were settled or lost.
    changed: Notify,
}

#[derive(Default)]
struct Gated {
    written: Mark,
    /// The writes up to this one are durable, or lost.
    settled: Mark,
    /// Writes were lost, and the actor has not started anew since: it goes on with what may not be.
    is_lost: bool,
    /// When each write was made that is not settled.
    since: VecDeque<Instant>,
    held: VecDeque<(Mark, Departing)>,
    /// The present event has given its answer.
    is_answered: bool,
}

/// An answer on its way out.
pub(super) struct Departing {
    pub sender: tokio::sync::oneshot::Sender<Answer>,
    pub answer: Result<Reply, Refusal>,
    /// Whether the node may still answer for the actor; without it, it always may.
    pub may_answer: Option<MayAnswer>,
}

impl Departing {
    /// Sends it; false when nobody waits for it.
    pub fn leave(self) -> bool {
        let may_answer = self.may_answer.is_none_or(|may_answer| may_answer());
        let answer = match self.answer {
            Ok(_) if !may_answer => Err(Refusal::ran(Reason::LeaseLost)),
            answer => answer,
        };
        self.sender.send(Answer::Ended(answer)).is_ok()
    }
}

impl Departing {
    /// What the answer tells of is not known to be durable.
    fn refuse(self) -> bool {
        let has_lapsed = self.may_answer.is_some_and(|may_answer| !may_answer());
        let reason = if has_lapsed { Reason::LeaseLost } else { Reason::NotDurable };
        self.sender.send(Answer::Ended(Err(Refusal::ran(reason)))).is_ok()
    }
}

impl OutputGate {
    /// An event begins that has not answered.
    pub fn begin_event(&self) {
        self.lock().is_answered = false;
    }

    /// Whether the present event may end before its durable write is: what it has still to say goes
    /// through here.
    pub fn holds_answer(&self) -> bool {
        !self.lock().is_answered
    }

    /// No more answers are to be held.
    pub fn is_full(&self) -> bool {
        self.lock().held.len() >= ANSWERS_HELD_MAX
    }

    /// Everything written durably so far is durable, and what leaves does so at once.
    pub fn is_open(&self) -> bool {
        self.lock().is_open()
    }

    /// Closes the gate: something was committed that has to be durable before anything leaves.
    pub fn write(&self, at: Instant) -> Mark {
        let mut gated = self.lock();
        gated.written += 1;
        gated.since.push_back(at);
        gated.written
    }

    /// The newest write.
    pub fn written(&self) -> Mark {
        self.lock().written
    }

    /// No write waits to become durable: each is, or was lost.
    pub fn is_settled(&self) -> bool {
        self.lock().is_settled()
    }

    /// The newest write that is settled, or was lost.
    pub fn settled_to(&self) -> Mark {
        self.lock().settled
    }

    /// The writes up to `mark` are durable: what waited for them leaves. Returns since when each
    /// waited.
    pub fn settle(&self, mark: Mark) -> Vec<Instant> {
        let mut gated = self.lock();
        let newly = usize::try_from(mark.saturating_sub(gated.settled)).unwrap_or(usize::MAX);
        let newly = newly.min(gated.since.len());
        let since = gated.since.drain(..newly).collect();
        gated.settled = gated.settled.max(mark);
        let free = gated.held.partition_point(|(after, _)| *after <= mark);
        let leaving: Vec<_> = gated.held.drain(..free).collect();
        drop(gated);
        self.changed.notify_waiters();
        for (_, departing) in leaving {
            departing.leave();
        }
        since
    }

    /// No write that is not settled is known to become durable: what waited for them is refused, and
    /// what comes until `begin_anew`. Returns how many answers waited.
    pub fn lose(&self) -> usize {
        let mut gated = self.lock();
        if gated.is_settled() {
            return 0;
        }
        gated.is_lost = true;
        gated.settled = gated.written;
        gated.since.clear();
        let lost = std::mem::take(&mut gated.held);
        drop(gated);
        self.changed.notify_waiters();
        let count = lost.len();
        for (_, departing) in lost {
            departing.refuse();
        }
        count
    }

    /// The actor forgot what was lost: from here on it rests on what disk or bucket have.
    pub fn begin_anew(&self) {
        self.lock().is_lost = false;
    }

    /// Returns once the writes up to `mark` are durable, or not known to become so.
    pub async fn settled(&self, mark: Mark) -> Result<(), NotDurable> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Before the look: what happens after it wakes this.
            changed.as_mut().enable();
            if let Some(outcome) = self.lock().outcome(mark) {
                return outcome;
            }
            changed.await;
        }
    }

    /// Lets an answer out, or holds it. False when nobody waits for it any more.
    pub(super) fn pass(&self, departing: Departing) -> bool {
        let mut gated = self.lock();
        gated.is_answered = true;
        if gated.is_lost {
            drop(gated);
            return departing.refuse();
        }
        if gated.is_open() {
            drop(gated);
            return departing.leave();
        }
        let after = gated.written;
        gated.held.push_back((after, departing));
        true
    }

    fn lock(&self) -> MutexGuard<'_, Gated> {
        self.gated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gated {
    fn is_open(&self) -> bool {
        self.is_settled() && !self.is_lost
    }

    fn is_settled(&self) -> bool {
        self.settled == self.written
    }

    fn outcome(&self, mark: Mark) -> Option<Result<(), NotDurable>> {
        match self.is_lost {
            true => Some(Err(NotDurable)),
            false => (mark <= self.settled).then_some(Ok(())),
        }
    }
}

impl fmt::Debug for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, settled, held, .. } = self;
        f.debug_struct("Gated")
            .field("written", written)
            .field("settled", settled)
            .field("held", &held.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::event::{ReplyFrom, ReplyTo};

    fn gate() -> Arc<OutputGate> {
        Arc::new(OutputGate::default())
    }

    fn answered(gate: &Arc<OutputGate>) -> ReplyFrom {
        let (mut reply, from) = ReplyTo::channel();
        reply.through(Arc::clone(gate));
        assert!(reply.send(Ok(Reply::done())));
        from
    }

    fn left(from: &mut ReplyFrom) -> Option<Result<u16, Reason>> {
        match from.try_recv() {
            Ok(Answer::Ended(Ok(reply))) => Some(Ok(reply.status)),
            Ok(Answer::Ended(Err(refusal))) => Some(Err(refusal.reason)),
            Ok(Answer::Elsewhere(..)) => panic!("it was not handed back"),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => panic!("it was dropped"),
        }
    }

    #[test]
    fn an_open_gate_holds_nothing() {
        assert_eq!(left(&mut answered(&gate())), Some(Ok(204)));
    }

    #[test]
    fn an_answer_leaves_once_every_write_before_it_is_durable() {
        let gate = gate();
        let first = gate.write(Instant::now());
        let mut one = answered(&gate);
        let second = gate.write(Instant::now());
        let (mut two, mut three) = (answered(&gate), answered(&gate));
        assert_eq!((left(&mut one), left(&mut two)), (None, None));
        assert_eq!(gate.settle(first).len(), 1);
        assert_eq!((left(&mut one), left(&mut two)), (Some(Ok(204)), None));
        assert_eq!(gate.settle(second).len(), 1);
        assert_eq!((left(&mut two), left(&mut three)), (Some(Ok(204)), Some(Ok(204))));
        assert!(gate.is_open());
    }

    #[test]
    fn what_is_settled_twice_counts_once_and_late_word_of_old_writes_frees_no_new_ones() {
        let gate = gate();
        let old = gate.write(Instant::now());
        assert_eq!(gate.lose(), 0);
        gate.begin_anew();
        gate.write(Instant::now());
        let mut answer = answered(&gate);
        assert!(gate.settle(old).is_empty());
        assert_eq!(left(&mut answer), None);
        assert!(!gate.is_open());
    }

    #[test]
    fn answers_of_lost_writes_say_so_and_so_do_those_that_follow_until_the_actor_begins_anew() {
        let gate = gate();
        gate.write(Instant::now());
        let mut lost = answered(&gate);
        assert_eq!(gate.lose(), 1);
        assert_eq!(left(&mut lost), Some(Err(Reason::NotDurable)));
        assert_eq!(left(&mut answered(&gate)), Some(Err(Reason::NotDurable)));
        assert!(!gate.is_open());
        gate.begin_anew();
        assert_eq!(left(&mut answered(&gate)), Some(Ok(204)));
    }

    #[test]
    fn a_held_answer_asks_when_it_leaves_whether_the_node_may_answer() {
        let gate = gate();
        let mark = gate.write(Instant::now());
        let valid = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let (mut reply, mut from) = ReplyTo::channel();
        let asked = Arc::clone(&valid);
        reply.only_while(Box::new(move || asked.load(std::sync::atomic::Ordering::Relaxed)));
        reply.through(Arc::clone(&gate));
        reply.send(Ok(Reply::done()));
        valid.store(false, std::sync::atomic::Ordering::Relaxed);
        gate.settle(mark);
        assert_eq!(left(&mut from), Some(Err(Reason::LeaseLost)));
    }

    #[test]
    fn an_event_that_has_answered_waits_for_its_next_durable_write() {
        let gate = gate();
        gate.begin_event();
        assert!(gate.holds_answer());
        let _from = answered(&gate);
        assert!(!gate.holds_answer());
        gate.begin_event();
        assert!(gate.holds_answer());
        assert!(!gate.is_full());
        gate.write(Instant::now());
        let held: Vec<_> = (0..ANSWERS_HELD_MAX).map(|_| answered(&gate)).collect();
        assert!(gate.is_full(), "{} answers are held", held.len());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_learns_how_it_ended() {
        let gate = gate();
        assert_eq!(gate.settled(gate.written()).await, Ok(()));
        let mark = gate.write(Instant::now());
        let waits = |mark| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.settled(mark).await })
        };
        let durable = waits(mark);
        tokio::task::yield_now().await;
        gate.settle(mark);
        assert_eq!(durable.await.expect("it ends"), Ok(()));
        let lost = waits(gate.write(Instant::now()));
        tokio::task::yield_now().await;
        gate.lose();
        assert_eq!(lost.await.expect("it ends"), Err(NotDurable));
    }
}
