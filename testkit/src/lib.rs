#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod actor;
mod command;
mod node;
mod socket;
mod tail;

pub use actor::{Actor, Answer};
pub use node::{Builder, Node};
pub use socket::{Closed, WebSocket};
pub use tail::Tail;

use std::time::{Duration, Instant};

/// Longer than any step of a test should take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds; panics with `what` when it does not within 20 s.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
