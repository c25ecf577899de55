//! When a write that landed may be acknowledged. Pure.

use std::time::Duration;

use crate::limits::{ACKNOWLEDGE_SLACK, LEASE_TTL};
use crate::twin::{Twin, is_broken};

/// What is known when the answer to a write has come.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// This very hold was given up or released meanwhile.
    pub hold_has_ended: bool,
    /// The session is unbroken, and it is before the horizon.
    pub term_is_valid: bool,
    /// When the write landed, and when the lease was renewed last: milliseconds of the bucket's clock.
    pub landed: Option<u64>,
    pub renewed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Acknowledged,
    /// Another node may hold the actor by now.
    HoldEnded,
    /// The lease was renewed too long before, by the bucket's clock: that of this node stood still.
    Late,
}

/// A pause after this changes nothing: what landed before the horizon is in every listing that the
/// next holder may make.
pub fn verdict(answer: Answer) -> Verdict {
    let is_valid = answer.term_is_valid || is_broken(Twin::AcknowledgesPastHorizon);
    if answer.hold_has_ended || !is_valid {
        return Verdict::HoldEnded;
    }
    let since = answer.landed.zip(answer.renewed);
    let since =
        since.map(|(landed, renewed)| Duration::from_millis(landed.saturating_sub(renewed)));
    match since {
        Some(since) if since > LEASE_TTL + ACKNOWLEDGE_SLACK => Verdict::Late,
        _ => Verdict::Acknowledged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::leave_out;

    const GOOD: Answer =
        Answer { hold_has_ended: false, term_is_valid: true, landed: None, renewed: None };

    #[test]
    fn an_answer_counts_while_its_hold_is_valid() {
        assert_eq!(verdict(GOOD), Verdict::Acknowledged);
        assert_eq!(verdict(Answer { hold_has_ended: true, ..GOOD }), Verdict::HoldEnded);
        let late = Answer { term_is_valid: false, ..GOOD };
        assert_eq!(verdict(late), Verdict::HoldEnded);
        let _twin = leave_out(Twin::AcknowledgesPastHorizon);
        assert_eq!(verdict(late), Verdict::Acknowledged);
    }

    #[test]
    fn the_buckets_clock_only_ever_refuses() {
        let dated = |landed, renewed| Answer { landed, renewed, ..GOOD };
        for (landed, renewed, said) in [
            (Some(112_000), Some(100_000), Verdict::Acknowledged),
            (Some(112_001), Some(100_000), Verdict::Late),
            (Some(90_000), Some(100_000), Verdict::Acknowledged),
            (Some(999_000), None, Verdict::Acknowledged),
            (None, Some(100_000), Verdict::Acknowledged),
        ] {
            assert_eq!(verdict(dated(landed, renewed)), said, "{landed:?} {renewed:?}");
        }
        let ended = Answer { term_is_valid: false, ..dated(Some(100_000), Some(100_000)) };
        assert_eq!(verdict(ended), Verdict::HoldEnded);
    }
}
