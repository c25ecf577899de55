//! What commands run on that ask a node or a bucket.

use std::future::Future;

use anyhow::{Context, Result};

use crate::telemetry;

/// Runs a command on a runtime of its own; its log is for what is wrong.
pub fn with_runtime<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    telemetry::start_for_command();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start a runtime")?
        .block_on(work)
}
