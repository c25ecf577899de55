//! Gives the kernel the memory that actors have left: between two pieces that are used glibc keeps it
//! until it is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval};
use wasmkeep_supervisors::metrics::Metrics;

/// Between two looks. A walk through the heap of 8,000 actors holds its locks for some 40 ms, so this is
/// what keeps it away from the 99th of a hundred requests.
const PASS: Duration = Duration::from_secs(5);

/// So many actors or databases must have gone since the last walk.
const GONE_MIN: u64 = 64;

/// Looks for as long as the runtime runs.
pub fn begin(runtime: &Runtime, metrics: Arc<Metrics>) {
    runtime.spawn(async move {
        let mut passes = interval(PASS);
        passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut gone_before = 0;
        loop {
            passes.tick().await;
            let gone = gone(&metrics);
            if gone >= gone_before + GONE_MIN {
                gone_before = gone;
                // Fails only when the runtime stops, and this with it.
                let _ = tokio::task::spawn_blocking(trim).await;
            }
        }
    });
}

/// Actors that left memory and databases that were closed before that, so far.
fn gone(metrics: &Metrics) -> u64 {
    let left = |cause| metrics.hibernations.with_label_values(&[cause]).get();
    metrics.rests.get() + left("idle") + left("evicted")
}

fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: of glibc, for any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
