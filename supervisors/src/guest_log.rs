//! Lines that guests write to the log: how many, how long, and under which name.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;

use crate::address::Address;
use crate::limits::LOG_LINE_BYTES_MAX;
use crate::one_line::in_one_line;

const WINDOW: Duration = Duration::from_secs(1);

/// So many lines a second, and no more.
pub struct LineBudget {
    per_second: u32,
    since: Instant,
    lines: u32,
    dropped: u32,
}

impl LineBudget {
    pub const fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second, since: now, lines: 0, dropped: 0 }
    }

    /// Counts a line; false when it is one too many.
    pub fn take(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            self.since = now;
            self.lines = 0;
        }
        self.lines = self.lines.saturating_add(1);
        let admitted = self.lines <= self.per_second;
        self.dropped = self.dropped.saturating_add(u32::from(!admitted));
        admitted
    }

    /// How many lines were too many since this was asked last.
    pub fn take_dropped(&mut self) -> u32 {
        std::mem::take(&mut self.dropped)
    }
}

/// What a guest wrote, as lines of the log: none longer than the limit, none that looks like two.
pub fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.split('\n').map(|line| in_one_line(&line[..line.floor_char_boundary(LOG_LINE_BYTES_MAX)]))
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
    fn what_a_guest_writes_stays_within_its_lines() {
        let long = "x".repeat(LOG_LINE_BYTES_MAX + 10);
        let text = format!("one\r\n\n{long}");
        let written: Vec<_> = lines(&text).collect();
        assert_eq!(written, ["one\\u{d}", "", &long[..LOG_LINE_BYTES_MAX]]);
    }

    #[test]
    fn each_second_has_its_own_lines() {
        let start = Instant::now();
        let mut budget = LineBudget::new(2, start);
        let taken = [0, 500, 999, 1000, 1001, 1002, 5000];
        let taken = taken.map(|ms| budget.take(start + Duration::from_millis(ms)));
        assert_eq!(taken, [true, true, false, true, true, false, true]);
    }
}
