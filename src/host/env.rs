//! `wasmkeep:actor/env`: no layer of values exists yet, so no name is set.

use wasmkeep_wit::actor::wasmkeep::actor::env as wit;

use super::state::HostState;

impl wit::Host for HostState {
    fn get(&mut self, _name: String) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}
