//! Waits between attempts at something that only reads.

use std::time::Duration;

use super::verdict::backoff;
use crate::ports::{Random, Steady};
use crate::time::NodeTime;

/// The attempts at one read, which share a deadline.
pub struct Again<'a> {
    clock: &'a dyn Steady,
    random: &'a dyn Random,
    deadline: NodeTime,
    failed: u32,
}

impl<'a> Again<'a> {
    /// From here on for so long.
    pub fn within(wait: Duration, clock: &'a dyn Steady, random: &'a dyn Random) -> Self {
        Self { clock, random, deadline: clock.now().plus(wait), failed: 0 }
    }

    /// Waits after an attempt that came to nothing; false when there is no time for another.
    pub async fn pause(&mut self) -> bool {
        let mut random = [0; 8];
        self.random.fill(&mut random);
        let wait = backoff(self.failed, u64::from_le_bytes(random));
        self.failed = self.failed.saturating_add(1);
        if self.clock.now().plus(wait) >= self.deadline {
            return false;
        }
        self.clock.sleep(wait).await;
        true
    }
}
