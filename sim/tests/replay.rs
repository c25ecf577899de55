//! A seed can be had again.

use wasmkeep_sim::runtime::IS_SEEDED;
use wasmkeep_sim::world::{Outcome, Setup, run};
use wasmkeep_supervisors::twin::Twin;

fn traced(seed: u64, twin: Option<Twin>) -> Outcome {
    run(Setup { seed, twin, keeps_trace: true })
}

#[track_caller]
fn is_seeded() {
    if !IS_SEEDED {
        panic!("build with RUSTFLAGS='--cfg tokio_unstable', as `cargo xtask test` does");
    }
}

#[test]
fn the_same_seed_twice_gives_the_same_trace() {
    is_seeded();
    for seed in 0..30 {
        // On another thread: what a thread draws for itself must not matter.
        let elsewhere = std::thread::spawn(move || traced(seed, None));
        let (here, elsewhere) = (traced(seed, None), elsewhere.join().expect("it ends"));
        assert!(here.trace.len() > 100, "seed {seed}: {} lines", here.trace.len());
        let differs = here.trace.iter().zip(&elsewhere.trace).find(|(here, other)| here != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(here, elsewhere, "seed {seed}");
    }
}

#[test]
fn what_is_not_traced_runs_the_same() {
    is_seeded();
    for seed in 0..30 {
        let Outcome { broken, counts, .. } = run(Setup::of(seed));
        let traced = traced(seed, None);
        assert_eq!((broken, counts), (traced.broken, traced.counts), "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_traces() {
    assert_ne!(traced(1, None).trace, traced(2, None).trace);
}
