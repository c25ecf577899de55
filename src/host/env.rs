//! `wasmkeep:actor/env`.

use wasmkeep_wit::actor::wasmkeep::actor::env as wit;

use super::state::HostState;

impl wit::Host for HostState {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        Ok(self.scope.env(&name))
    }
}
