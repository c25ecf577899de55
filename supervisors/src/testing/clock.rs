//! A wall clock that a test sets, and that advances with tokio's clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::ports::Clock;
use crate::time::Timestamp;

/// Clones are the same clock.
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<(Timestamp, Instant)>>);

impl ManualClock {
    pub fn new(now: u64) -> Self {
        Self(Arc::new(Mutex::new((Timestamp(now), Instant::now()))))
    }

    /// Sets the clock, as an operator or a time server may.
    pub fn set(&self, now: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Timestamp(now), Instant::now());
    }

    pub fn after(&self, wait: Duration) -> Timestamp {
        self.now().plus(wait)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let (set, at) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        set.plus(at.elapsed())
    }
}
