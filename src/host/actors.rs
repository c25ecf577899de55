//! `wasmkeep:actor/actors`: the actor's address; calls are not in this build, and it says so.

use wasmkeep_wit::actor::wasmkeep::actor::actors as wit;

use super::state::HostState;

/// What a call answers while the host has none.
pub const NO_CALLS: &str = "calls between actors are not in this build; nothing ran";

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
        _target: String,
        _request: wit::Request,
    ) -> wasmtime::Result<Result<wit::Response, wit::CallError>> {
        Ok(Err(wit::CallError::Failed(NO_CALLS.into())))
    }
}
