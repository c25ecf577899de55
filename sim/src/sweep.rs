//! Many seeds, on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use wasmkeep_supervisors::twin::Twin;

use crate::checker::Counts;
use crate::world::{Setup, run};

#[derive(Debug, Clone, Default)]
pub struct Sweep {
    pub ran: u64,
    pub counts: Counts,
    /// Ascending by seed.
    pub broken: Vec<(u64, String)>,
}

/// When a sweep ends before its last seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    TheLast,
    OneBreaks,
}

/// Each core runs a seed at a time, on a runtime of its own. Which seeds break does not depend on that.
pub fn sweep(seeds: Range<u64>, twin: Option<Twin>, until: Until) -> Sweep {
    let next = AtomicU64::new(seeds.start);
    let is_over = AtomicBool::new(false);
    let all = Mutex::new(Sweep::default());
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome = run(Setup { seed, twin, keeps_trace: false });
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.ran += 1;
            all.counts.add(&outcome.counts);
            if let Some(why) = outcome.broken {
                all.broken.push((seed, why));
                is_over.store(until == Until::OneBreaks, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.broken.sort();
    all
}
