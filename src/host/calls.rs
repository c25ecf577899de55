//! `wasmkeep:actor/calls`.

use wasmkeep_wit::actor::wasmkeep::actor::actors::{CallError, Request, Response};
use wasmkeep_wit::actor::wasmkeep::actor::calls as wit;

use super::actors::{error_out, request_in, response_out};
use super::state::HostState;

impl wit::Host for HostState {
    async fn call_many(
        &mut self,
        calls: Vec<(String, Request)>,
    ) -> wasmtime::Result<Vec<Result<Response, CallError>>> {
        let calls = calls.into_iter().map(|(target, request)| (target, request_in(request)));
        let answers = self.scope.call_many(calls.collect()).await.into_iter();
        Ok(answers.map(|answer| answer.map(response_out).map_err(error_out)).collect())
    }
}
