//! Connections that are not taken: each is counted, one a minute is logged.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use wasmkeep_supervisors::limits::PEER_REFUSAL_LOG_EVERY;
use wasmkeep_supervisors::metrics::Metrics;

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    PlainText,
    NoCertificate,
    Handshake,
    Stranger,
    TooMany,
}

impl Why {
    const fn as_str(self) -> &'static str {
        match self {
            Why::PlainText => "plain-text",
            Why::NoCertificate => "no-certificate",
            Why::Handshake => "handshake",
            Why::Stranger => "stranger",
            Why::TooMany => "too-many",
        }
    }
}

pub struct Refusals {
    metrics: Arc<Metrics>,
    log: Mutex<Log>,
}

/// When a refusal was logged last, and how many there were since.
#[derive(Default)]
struct Log {
    last: Option<Instant>,
    unsaid: u64,
}

impl Log {
    /// How many were not said before this one, if this one is.
    fn says(&mut self, now: Instant) -> Option<u64> {
        let is_due = self.last.is_none_or(|last| now - last >= PEER_REFUSAL_LOG_EVERY);
        if !is_due {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

impl Refusals {
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, log: Mutex::default() }
    }

    pub fn refuse(&self, why: Why, from: Option<SocketAddr>) {
        let why = why.as_str();
        self.metrics.peer_refused(why);
        let said = self.log.lock().unwrap_or_else(PoisonError::into_inner).says(Instant::now());
        if let Some(unsaid) = said {
            tracing::warn!(why, from = ?from, unsaid, "connection to the cluster port refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_a_minute_is_said_and_the_others_are_counted() {
        let mut log = Log::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(log.says(at(0)), Some(0));
        assert_eq!(log.says(at(1)), None);
        assert_eq!(log.says(at(59)), None);
        assert_eq!(log.says(at(60)), Some(2));
        assert_eq!(log.says(at(119)), None);
        assert_eq!(log.says(at(500)), Some(1));
    }
}
