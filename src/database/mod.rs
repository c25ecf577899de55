//! One SQLite database per actor, in one file each, and nobody else's hands on it.
//!
//! Promises: what a guest may say in SQL is decided by `sandbox`, with everything not listed there
//! refused; every budget stops the statement that passes it and leaves the database as it was;
//! `sync` returns only once committed data survives a power cut, and a failed one is never
//! retried. What this does not do: replication, and any decision about actors.

mod budget;
mod connection;
mod data_dir;
mod files;
mod index;
mod sandbox;
mod statement;
mod sync;
#[cfg(test)]
mod tests;

pub use data_dir::{DataDir, DataDirError};
pub use files::{DatabaseConfig, LocalDatabases};

/// Runs what may block for long off the runtime's worker, where there is one to free.
fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}
