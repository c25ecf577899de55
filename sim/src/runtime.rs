//! One thread, on which time passes when nothing else is left to do.

use tokio::runtime::{Builder, Runtime};

/// Whether a seed decides everything. tokio draws the order in which some of its primitives wake, and
/// takes a seed for that only when it is compiled with `--cfg tokio_unstable`, as `cargo xtask sim` and
/// `cargo xtask test` do.
pub const IS_SEEDED: bool = cfg!(tokio_unstable);

pub fn of(seed: u64) -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    #[cfg(not(tokio_unstable))]
    let _ = seed;
    builder.build().expect("a runtime needs a thread and nothing else")
}
