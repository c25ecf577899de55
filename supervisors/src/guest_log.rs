//! Lines that guests write to the log: how many, and under which name.

use std::time::Duration;

use tokio::time::Instant;

use crate::address::Address;

const WINDOW: Duration = Duration::from_secs(1);

/// So many lines a second, and no more.
pub struct LineBudget {
    per_second: u32,
    since: Instant,
    lines: u32,
}

impl LineBudget {
    pub const fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second, since: now, lines: 0 }
    }

    /// Counts a line; false when it is one too many.
    pub fn take(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            self.since = now;
            self.lines = 0;
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= self.per_second
    }
}

/// Writes a guest's line to the log.
pub fn log_line(guest: &Address, line: &str, is_error: bool) {
    let stream = if is_error { "stderr" } else { "stdout" };
    tracing::info!(target: "wasmkeep::guest", actor = %guest, stream, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_lines() {
        let start = Instant::now();
        let mut budget = LineBudget::new(2, start);
        let taken = [0, 500, 999, 1000, 1001, 1002, 5000];
        let taken = taken.map(|ms| budget.take(start + Duration::from_millis(ms)));
        assert_eq!(taken, [true, true, false, true, true, false, true]);
    }
}
