//! How many lines an actor may log.

use tokio::time::Instant;

use crate::limits::LOG_LINES_PER_SECOND;

/// Counts an actor's lines, second by second.
pub struct LogRate {
    second: Instant,
    lines: u32,
    /// Of the present event.
    dropped: u32,
}

impl LogRate {
    pub fn new(now: Instant) -> Self {
        Self { second: now, lines: 0, dropped: 0 }
    }

    /// Counts a line; false when it is one too many.
    pub fn admits(&mut self) -> bool {
        if self.second.elapsed().as_secs() >= 1 {
            (self.second, self.lines) = (Instant::now(), 0);
        }
        self.lines = self.lines.saturating_add(1);
        let admitted = self.lines <= LOG_LINES_PER_SECOND;
        self.dropped = self.dropped.saturating_add(u32::from(!admitted));
        admitted
    }

    /// How many lines were dropped since this was asked last.
    pub fn take_dropped(&mut self) -> u32 {
        std::mem::take(&mut self.dropped)
    }
}
