//! What a node concludes about its own lease, and what anyone may who watches one.

use std::time::Duration;

use super::record::{LeaseRecord, LeaseRecordError, LeaseState};
use super::session::Session;
use crate::address::NodeId;
use crate::limits::LEASE_TTL;
use crate::time::NodeTime;
use crate::twin::{Twin, is_broken};

/// A read or write, by the clock of whoever asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub sent: NodeTime,
    pub answered: NodeTime,
}

/// One version of a lease, as it is watched. That there is none is a version too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched<V> {
    version: V,
    /// When the answer that first showed it was there: it was written before.
    first_seen: NodeTime,
    /// When the last read that showed it was sent: it was not replaced before.
    shown: NodeTime,
}

impl<V: PartialEq> Watched<V> {
    pub fn new(version: V, asked: Asked) -> Self {
        Self { version, first_seen: asked.answered, shown: shown_at(asked) }
    }

    /// After a read showed this version. One that was sent before another version was seen may be
    /// older than that, and changes nothing.
    #[must_use]
    pub fn seen(self, version: V, asked: Asked) -> Self {
        if version == self.version {
            let shown = self.shown.max(shown_at(asked));
            return Self { shown, ..self };
        }
        if asked.sent < self.first_seen { self } else { Self::new(version, asked) }
    }

    pub fn version(&self) -> &V {
        &self.version
    }

    /// Whether it was there, unchanged, all of so much time. What was not looked at does not count.
    pub fn is_unchanged_for(&self, time: Duration) -> bool {
        self.shown.since(self.first_seen) >= time
    }

    /// From when on a read can show that.
    pub fn unchanged_for_at(&self, time: Duration) -> NodeTime {
        self.first_seen.plus(time)
    }
}

fn shown_at(asked: Asked) -> NodeTime {
    match is_broken(Twin::VerdictFromReceiptWithoutFence) {
        true => asked.answered,
        false => asked.sent,
    }
}

/// What a node found under its own id at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    Nothing,
    Lease(&'a LeaseRecord),
    /// A newer program's, perhaps: what stands there may be live.
    Unreadable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Write the lease if there is still none.
    Create,
    /// Write it over the version that was read.
    Replace,
    /// Another process may be acting under this id.
    Wait,
}

/// How a node may begin. `own` are sessions of this node that are known to have ended: those of this
/// process, and the last one of a process before it that is known to be gone.
pub fn start(found: Found<'_>, own: &[Session], is_expired: bool) -> Start {
    if is_broken(Twin::StartsBesideItself) && found != Found::Nothing {
        return Start::Replace;
    }
    match found {
        Found::Nothing => Start::Create,
        Found::Lease(lease) if !lease.state.is_acting() => Start::Replace,
        Found::Lease(lease) if own.contains(&lease.session) => Start::Replace,
        Found::Lease(_) | Found::Unreadable if is_expired => Start::Replace,
        Found::Lease(_) | Found::Unreadable => Start::Wait,
    }
}

/// The horizon of a lease that was written so.
fn horizon(asked: Asked) -> NodeTime {
    // A write lands at any time between the two; an observer may count from the earliest.
    let from = match is_broken(Twin::HorizonFromAnswer) {
        true => asked.answered,
        false => asked.sent,
    };
    from.plus(LEASE_TTL)
}

/// The horizon of a first write, sent when no term was; none when it has passed already.
pub fn started(asked: Asked) -> Option<NodeTime> {
    let horizon = horizon(asked);
    (asked.answered < horizon).then_some(horizon)
}

/// The horizon after a renewal that landed; none when its answer came too late to keep the term.
pub fn renewed(asked: Asked, before: NodeTime) -> Option<NodeTime> {
    let is_late = asked.answered >= before && !is_broken(Twin::HorizonFromAnswer);
    (!is_late).then(|| horizon(asked))
}

/// Who ended a lease that another write is in the place of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overwritten {
    Fenced {
        by: NodeId,
        reason: String,
    },
    /// Another process acts under this node's id.
    Replaced,
    Unreadable(LeaseRecordError),
}

pub fn overwritten(found: Result<LeaseRecord, LeaseRecordError>) -> Overwritten {
    match found {
        Ok(LeaseRecord { state: LeaseState::Fenced { by, reason }, .. }) => {
            Overwritten::Fenced { by, reason }
        }
        Ok(_) => Overwritten::Replaced,
        Err(error) => Overwritten::Unreadable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::leave_out;

    fn asked(sent: u64, answered: u64) -> Asked {
        Asked { sent: at(sent), answered: at(answered) }
    }

    fn at(second: u64) -> NodeTime {
        NodeTime(second * 1_000_000_000)
    }

    #[test]
    fn a_horizon_counts_from_the_sending_and_an_answer_at_the_old_one_is_too_late() {
        assert_eq!(started(asked(100, 101)), Some(at(110)));
        assert_eq!(started(asked(100, 110)), None);
        assert_eq!(renewed(asked(103, 109), at(110)), Some(at(113)));
        assert_eq!(renewed(asked(103, 110), at(110)), None);
        let _broken = leave_out(Twin::HorizonFromAnswer);
        assert_eq!(renewed(asked(103, 110), at(110)), Some(at(120)));
    }

    #[test]
    fn what_is_not_looked_at_is_not_watched() {
        let watched = Watched::new(1, asked(100, 101));
        assert!(!watched.is_unchanged_for(Duration::from_secs(1)));
        let watched = watched.seen(1, asked(105, 200));
        assert!(watched.is_unchanged_for(Duration::from_secs(4)));
        assert!(!watched.is_unchanged_for(Duration::from_secs(5)));
        // Answered later, sent earlier.
        assert_eq!(watched.clone().seen(1, asked(103, 300)), watched);
    }
}
