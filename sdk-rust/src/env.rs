//! Configuration and secrets the operator gave to this class.

use crate::bindings::wasmkeep::actor::env as host;

/// The value of a name, or `None`. Names are letters, digits and `_`.
///
/// From a file given with `wasmkeep serve --env CLASS=FILE`, a deploy or a secret. The process
/// environment (`std::env`) is empty in an actor.
///
/// ```no_run
/// # use wasmkeep_sdk::{Error, Result, env};
/// fn webhook() -> Result<String> {
///     env::get("WEBHOOK_URL").ok_or_else(|| Error::internal("WEBHOOK_URL is not set"))
/// }
/// ```
pub fn get(name: &str) -> Option<String> {
    host::get(name)
}
