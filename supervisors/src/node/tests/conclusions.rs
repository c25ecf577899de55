//! The rules alone.

use super::*;
use crate::twin::{Twin, leave_out};

/// A read sent at one second and answered at another.
fn asked(sent: u64, answered: u64) -> Asked {
    let at = |second: u64| NodeTime(second * 1_000_000_000);
    Asked { sent: at(sent), answered: at(answered) }
}

fn live(session: Session) -> Option<Arc<LeaseRecord>> {
    Some(Arc::new(a_lease(session, LeaseState::Live)))
}

fn ended(state: LeaseState) -> Option<Arc<LeaseRecord>> {
    Some(Arc::new(a_lease(T, state)))
}

#[test]
fn a_lease_expires_by_reads_sent_after_its_time_and_by_no_others() {
    let seen = Seen::new(Some(1), live(T), asked(100, 101));
    assert_eq!(seen.verdict(T), Verdict::Stands);
    assert!(!seen.is_suspect());
    // Sent before, answered long after.
    let seen = seen.seen(Some(1), live(T), asked(110, 130));
    assert!(!seen.is_suspect() && !seen.is_expired());
    let seen = seen.seen(Some(1), live(T), asked(111, 112));
    assert!(seen.is_suspect() && !seen.is_expired());
    let seen = seen.seen(Some(1), live(T), asked(115, 140));
    assert_eq!(seen.verdict(T), Verdict::Stands);
    let seen = seen.seen(Some(1), live(T), asked(116, 117));
    assert!(seen.is_expired());
    assert_eq!(
        (seen.verdict(T), seen.verdict_before(T)),
        (Verdict::FenceFirst, Verdict::FenceFirst)
    );
    // It was renewed after all.
    let seen = seen.seen(Some(2), live(T), asked(117, 118));
    assert_eq!((seen.verdict(T), seen.is_suspect()), (Verdict::Stands, false));
}

#[test]
fn the_twin_that_counts_from_receipt_calls_a_renewed_lease_void() {
    let late = || {
        let seen = Seen::new(Some(1), live(T), asked(100, 101));
        seen.seen(Some(1), live(T), asked(102, 120)).verdict(T)
    };
    assert_eq!(late(), Verdict::Stands);
    let _broken = leave_out(Twin::VerdictFromReceiptWithoutFence);
    assert_eq!(late(), Verdict::Void);
}

#[test]
fn what_was_seen_before_the_question_tells_of_its_own_session_only() {
    let other = Seen::new(Some(1), live(OTHER), asked(100, 101));
    assert_eq!(other.verdict_before(T), Verdict::ReadFirst);
    assert_eq!(other.verdict(T), Verdict::Void, "a read sent after it tells");
    let same = Seen::new(Some(1), live(T), asked(100, 101));
    assert_eq!(same.verdict_before(T), Verdict::ReadFirst, "it may have ended since");
    for state in [LeaseState::Released, fenced()] {
        let seen = Seen::new(Some(1), ended(state), asked(100, 101));
        assert_eq!(seen.verdict_before(T), Verdict::Void);
        assert_eq!(seen.verdict_before(OTHER), Verdict::ReadFirst);
    }
    let none = Seen::new(None::<u32>, None, asked(100, 101));
    assert_eq!((none.verdict_before(T), none.verdict(T)), (Verdict::ReadFirst, Verdict::Stands));

    let _broken = leave_out(Twin::VoidByCachedSession);
    assert_eq!(other.verdict_before(T), Verdict::Void);
}

#[test]
fn that_there_is_no_lease_or_none_that_can_be_read_is_a_version_too() {
    for version in [None, Some(1)] {
        let seen = Seen::new(version, None, asked(100, 101));
        let seen = seen.seen(version, None, asked(115, 116));
        assert_eq!(seen.verdict(T), Verdict::Stands);
        let seen = seen.seen(version, None, asked(116, 117));
        assert_eq!(seen.verdict(T), Verdict::FenceFirst);
        assert_eq!(seen.is_gone_for(seconds(15.0)), version.is_none());
    }
}

#[test]
fn the_writers_numbers_hold_and_outlive_its_lease() {
    let patient = LeaseRecord { ttl: seconds(60.0), ..a_lease(T, LeaseState::Live) };
    let seen = Seen::new(Some(1), Some(Arc::new(patient)), asked(100, 101));
    let gone = seen.clone().seen(None, None, asked(110, 111));
    for (seen, version, lease) in
        [(seen.clone(), Some(1), seen.lease().cloned()), (gone, None, None)]
    {
        let began = if version.is_some() { 101 } else { 111 };
        let seen = seen.seen(version, lease.clone(), asked(began + 64, began + 64));
        assert!(seen.is_suspect() && !seen.is_expired());
        assert!(seen.seen(version, lease, asked(began + 65, began + 65)).is_expired());
    }
}

#[test]
fn an_older_read_that_is_answered_later_takes_nothing_back() {
    let seen = Seen::new(Some(2), live(OTHER), asked(105, 106));
    let after = seen.clone().seen(Some(1), live(T), asked(100, 120));
    assert_eq!(after.version(), Some(&2));
    assert_eq!(after.verdict(OTHER), Verdict::Stands);
    let after = seen.seen(Some(3), live(T), asked(106, 107));
    assert_eq!(after.version(), Some(&3));
}

#[test]
fn an_ended_lease_is_not_looked_at_for_its_end() {
    let at = |lease| Seen::new(Some(1), lease, asked(100, 101)).expires_at();
    assert_eq!(at(live(T)), Some(NodeTime(116_000_000_000)));
    assert_eq!(at(ended(LeaseState::Released)), None);
    assert_eq!(at(None), Some(NodeTime(116_000_000_000)));
}
