//! Lines that guests write to the log: how many, and in which form.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;

use crate::address::Address;
use crate::limits::LOG_LINE_BYTES_MAX;
use crate::one_line::in_one_line;

const SECOND: Duration = Duration::from_secs(1);

/// Counts a guest's lines, second by second.
pub struct LogRate {
    per_second: u32,
    second: Instant,
    lines: u32,
    /// Of the present event.
    dropped: u32,
}

impl LogRate {
    pub const fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second, second: now, lines: 0, dropped: 0 }
    }

    /// Counts a line; false when it is one too many.
    pub fn admits(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.second) >= SECOND {
            (self.second, self.lines) = (now, 0);
        }
        self.lines = self.lines.saturating_add(1);
        let admitted = self.lines <= self.per_second;
        self.dropped = self.dropped.saturating_add(u32::from(!admitted));
        admitted
    }

    /// How many lines were dropped since this was asked last.
    pub fn take_dropped(&mut self) -> u32 {
        std::mem::take(&mut self.dropped)
    }
}

/// A line as it may stand in the log: at its longest, and without what is not printable.
pub fn as_line(text: &str) -> Cow<'_, str> {
    in_one_line(&text[..text.floor_char_boundary(LOG_LINE_BYTES_MAX)])
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
        let mut rate = LogRate::new(2, start);
        let admitted = [0, 500, 999, 1000, 1001, 1002, 5000];
        let admitted = admitted.map(|ms| rate.admits(start + Duration::from_millis(ms)));
        assert_eq!(admitted, [true, true, false, true, true, false, true]);
        assert_eq!((rate.take_dropped(), rate.take_dropped()), (2, 0));
    }
}
