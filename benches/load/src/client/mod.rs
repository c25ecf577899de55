//! Clients that take as little of the machine as they can: they share its cores with the server.

pub mod closed;
pub mod exchange;
pub mod open;
pub mod socket;

use std::time::Duration;

use hdrhistogram::Histogram;

/// What a load saw.
pub struct Seen {
    /// In microseconds.
    pub latencies: Histogram<u64>,
    /// Operations that one latency is of.
    pub of_each: u64,
    pub took: Duration,
}

impl Seen {
    pub fn nothing() -> Self {
        // To a minute, with three digits: coarser than no figure that is printed.
        let latencies = Histogram::new_with_bounds(1, 60_000_000, 3).expect("legal bounds");
        Self { latencies, of_each: 1, took: Duration::ZERO }
    }

    pub fn note(&mut self, latency: Duration) {
        self.latencies.saturating_record(latency.as_micros() as u64);
    }

    /// Operations.
    pub fn count(&self) -> u64 {
        self.latencies.len() * self.of_each
    }

    pub fn rate(&self) -> f64 {
        self.count() as f64 / self.took.as_secs_f64()
    }
}
