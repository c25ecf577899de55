//! The wall clocks that alarms go by: this machine's, and one that stands until it is moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wasmkeep_supervisors::ports::Clock;
use wasmkeep_supervisors::time::Timestamp;

use crate::config::ClockKind;

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // Before 1970 nothing was set, so nothing is due.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Stands at the moment it was made, until somebody moves it on.
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn standing_now() -> Self {
        Self(AtomicU64::new(SystemClock.now().0))
    }

    pub fn advance(&self, by: Duration) -> Timestamp {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let added = |now: u64| Some(now.saturating_add(by));
        let before = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, added);
        Timestamp(before.unwrap_or_else(|now| now).saturating_add(by))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// The clocks of one node.
pub struct Clocks {
    /// Alarms go by it.
    pub of_alarms: Arc<dyn Clock>,
    /// What guests see, when that is not the machine's.
    pub of_guests: Option<Arc<dyn Clock>>,
    /// What can be moved of them.
    pub manual: Option<Arc<ManualClock>>,
}

impl Clocks {
    pub fn new(kind: ClockKind) -> Self {
        match kind {
            ClockKind::System => {
                Self { of_alarms: Arc::new(SystemClock), of_guests: None, manual: None }
            }
            ClockKind::Manual => {
                let clock = Arc::new(ManualClock::standing_now());
                Self {
                    of_alarms: Arc::clone(&clock) as _,
                    of_guests: Some(Arc::clone(&clock) as _),
                    manual: Some(clock),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_until_it_is_moved() {
        let clock = ManualClock::standing_now();
        let then = clock.now();
        assert_eq!(clock.advance(Duration::from_secs(60)), Timestamp(then.0 + 60_000));
        assert_eq!(clock.now(), Timestamp(then.0 + 60_000));
        assert_eq!(clock.advance(Duration::MAX), Timestamp(u64::MAX));
        assert_eq!(clock.now(), Timestamp(u64::MAX));
    }
}
