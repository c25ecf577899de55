//! The wall clock of this machine, which alarms go by.

use std::time::{SystemTime, UNIX_EPOCH};

use wasmkeep_supervisors::ports::Clock;
use wasmkeep_supervisors::time::Timestamp;

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // Before 1970 nothing was set, so nothing is due.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
