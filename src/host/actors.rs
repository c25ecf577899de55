//! `wasmkeep:actor/actors`: the actor's address, and calls to others.

use bytes::Bytes;
use wasmkeep_supervisors::ports::{CallError, CallRequest, CallResponse};
use wasmkeep_wit::actor::wasmkeep::actor::actors as wit;

use super::state::HostState;

impl wit::Host for HostState {
    fn self_address(&mut self) -> wasmtime::Result<wit::Address> {
        let address = self.scope.address();
        Ok(wit::Address {
            tenant: address.tenant.to_string(),
            class: address.class.to_string(),
            name: address.name.to_string(),
        })
    }

    async fn call(
        &mut self,
        target: String,
        request: wit::Request,
    ) -> wasmtime::Result<Result<wit::Response, wit::CallError>> {
        let answer = self.scope.call(&target, request_in(request)).await;
        Ok(answer.map(response_out).map_err(error_out))
    }
}

pub fn request_in(request: wit::Request) -> CallRequest {
    let wit::Request { method, path, headers, body } = request;
    let headers = headers.into_iter().map(|(name, value)| (name.into(), value.into()));
    CallRequest { method, path, headers: headers.collect(), body: body.into() }
}

pub fn response_out(response: CallResponse) -> wit::Response {
    let CallResponse { status, headers, body } = response;
    let text = |name: Bytes| String::from_utf8_lossy(&name).into_owned();
    let headers = headers.into_iter().map(|(name, value)| (text(name), value.into()));
    wit::Response { status, headers: headers.collect(), body: body.into() }
}

pub fn error_out(error: CallError) -> wit::CallError {
    match error {
        CallError::Timeout => wit::CallError::Timeout,
        CallError::Reentrant => wit::CallError::Reentrant,
        CallError::InvalidAddress => wit::CallError::InvalidAddress,
        CallError::Failed(how) => wit::CallError::Failed(how),
    }
}
