//! `wasmkeep:actor/calls`: not in this build, and it says so.

use wasmkeep_wit::actor::wasmkeep::actor::actors::{CallError, Request, Response};
use wasmkeep_wit::actor::wasmkeep::actor::calls as wit;

use super::actors::NO_CALLS;
use super::state::HostState;

impl wit::Host for HostState {
    async fn call_many(
        &mut self,
        calls: Vec<(String, Request)>,
    ) -> wasmtime::Result<Vec<Result<Response, CallError>>> {
        Ok(calls.iter().map(|_| Err(CallError::Failed(NO_CALLS.into()))).collect())
    }
}
