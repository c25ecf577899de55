//! Answers `hello` to everything, and touches no storage: not in `on-init` either.

use wasmkeep_sdk::{Actor, Request, Response, Result};

#[derive(Default)]
struct Hello;

impl Actor for Hello {
    fn request(&mut self, _: Request) -> Result<Response> {
        Ok(Response::text("hello"))
    }
}

wasmkeep_sdk::actor!(Hello);
