//! The real protocol in random runs.

use wasmkeep_sim::sweep::{Until, sweep};

const SEEDS: u64 = 2_000;

#[test]
fn no_random_run_breaks_a_promise() {
    let sweep = sweep(0..SEEDS, None, Until::TheLast);
    for (seed, why) in &sweep.broken {
        eprintln!("seed {seed}: {why}\n    cargo xtask sim --seed {seed}");
    }
    assert!(sweep.broken.is_empty(), "{} of {SEEDS} seeds broke a promise", sweep.broken.len());

    // In a run in which nothing happens nothing breaks.
    let counts = sweep.counts;
    for (what, count, least) in [
        ("acknowledged writes", counts.acknowledged, 10),
        ("writes that changed nothing", counts.unchanged, 1),
        ("holds", counts.holds, 7),
        ("holds taken from others", counts.taken, 1),
        ("objects collected", counts.removed, 3),
    ] {
        assert!(count >= SEEDS * least, "{count} {what} in {SEEDS} runs");
    }
    for (what, count) in [
        ("resets", counts.resets),
        ("snapshots", counts.snapshots),
        ("parked holds that woke", counts.woken),
        ("holds after the own release", counts.unlisted),
    ] {
        assert!(count >= SEEDS / 10, "{count} {what} in {SEEDS} runs");
    }
}
