//! Keeps work that blocks off the runtime's workers.
//!
//! A statement runs where it is called: stepping aside costs more than most take. What is known to
//! take long (fsyncs, checkpoints, recoveries, statements that were slow before) hands the worker's
//! other tasks to another thread first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

/// A statement that once took longer runs off the runtime from then on.
const SLOW: Duration = Duration::from_millis(2);

/// Runs `work`, which may block, without holding up the other tasks of this worker.
pub fn off_runtime<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}

/// As `off_runtime`, for work that only sometimes takes long.
pub fn off_runtime_if<T>(takes_long: bool, work: impl FnOnce() -> T) -> T {
    if takes_long { off_runtime(work) } else { work() }
}

/// The statements of the whole process that were slow, by hash. A full table forgets.
pub struct SlowStatements([AtomicU64; 1024]);

pub static SLOW_STATEMENTS: SlowStatements = SlowStatements([const { AtomicU64::new(0) }; 1024]);

impl SlowStatements {
    pub fn contains(&self, hash: u64) -> bool {
        self.place(hash).load(Ordering::Relaxed) == hash
    }

    /// Takes note of how long a statement ran.
    pub fn ran(&self, hash: u64, time: Duration) {
        if time > SLOW {
            self.place(hash).store(hash, Ordering::Relaxed);
        }
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.0[(hash % self.0.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_with_every_runtime_and_with_none() {
        assert_eq!(off_runtime(|| 1), 1);
        let one_thread = tokio::runtime::Builder::new_current_thread().build();
        assert_eq!(one_thread.expect("a runtime").block_on(async { off_runtime(|| 2) }), 2);
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        assert_eq!(threads.expect("a runtime").block_on(async { off_runtime(|| 3) }), 3);
    }

    #[test]
    fn a_slow_statement_is_remembered() {
        let statements = SlowStatements([const { AtomicU64::new(0) }; 1024]);
        statements.ran(7, Duration::from_micros(10));
        assert!(!statements.contains(7));
        statements.ran(7, Duration::from_millis(3));
        assert!(statements.contains(7));
        assert!(!statements.contains(7 + 1024));
    }
}
