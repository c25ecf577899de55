//! When an alarm fires, and what is pending after it did. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::record::Alarm;
use crate::limits::{ALARM_RETRY_FIRST, ALARM_RETRY_LONGEST};
use crate::time::Timestamp;

/// The number of the attempt to run now, if one is due.
pub fn attempt_due(alarm: Option<Alarm>, now: Timestamp) -> Option<u32> {
    let alarm = alarm?;
    (alarm.due <= now).then(|| alarm.failures.saturating_add(1))
}

/// What is pending once an attempt has ended. `next` is what the handler set itself; a failed
/// handler's is dropped, for the retry takes its place.
pub fn after_attempt(
    attempt: u32,
    succeeded: bool,
    next: Option<Alarm>,
    now: Timestamp,
) -> Option<Alarm> {
    if succeeded {
        return next;
    }
    Some(Alarm { due: now.plus(retry_wait(attempt)), failures: attempt })
}

/// How long after its failed attempt an alarm is tried again: 1 s, doubled each time, 5 min at
/// most.
pub fn retry_wait(attempt: u32) -> Duration {
    doubled(ALARM_RETRY_FIRST, attempt.saturating_sub(1)).min(ALARM_RETRY_LONGEST)
}

pub fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times))
}

/// Spreads what would happen at once over half of its wait: between three and five quarters of it,
/// the same for the same `salt`.
pub fn spread(wait: Duration, salt: impl Hash) -> Duration {
    let mut hasher = DefaultHasher::new();
    salt.hash(&mut hasher);
    let share = (hasher.finish() % 1024) as u32;
    wait * 3 / 4 + wait / 2 * share / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarm(due: u64, failures: u32) -> Alarm {
        Alarm { due: Timestamp(due), failures }
    }

    #[test]
    fn what_is_due() {
        let now = Timestamp(1000);
        assert_eq!(attempt_due(None, now), None);
        assert_eq!(attempt_due(Some(alarm(1001, 0)), now), None);
        assert_eq!(attempt_due(Some(alarm(1000, 0)), now), Some(1));
        assert_eq!(attempt_due(Some(alarm(0, 7)), now), Some(8));
    }

    #[test]
    fn what_is_pending_afterwards() {
        let now = Timestamp(1000);
        let set = Some(alarm(5, 0));
        assert_eq!(after_attempt(1, true, None, now), None);
        assert_eq!(after_attempt(3, true, set, now), set);
        assert_eq!(after_attempt(1, false, set, now), Some(alarm(2000, 1)));
        assert_eq!(after_attempt(3, false, None, now), Some(alarm(5000, 3)));
    }

    #[test]
    fn retries_double_from_1_s_to_5_min() {
        let waits: Vec<u64> = (1..=11).map(|attempt| retry_wait(attempt).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(retry_wait(u32::MAX), ALARM_RETRY_LONGEST);
    }

    #[test]
    fn a_spread_wait_stays_within_a_quarter() {
        let wait = Duration::from_secs(8);
        for salt in 0..1000 {
            let spread = spread(wait, salt);
            assert!(spread >= wait * 3 / 4 && spread <= wait * 5 / 4, "{spread:?}");
        }
        assert_ne!(spread(wait, 1), spread(wait, 2));
    }
}
