//! The smallest front: it needs nothing but `wasi:http`, so other servers run it too.

use wasmkeep_sdk::{Request, Response, Result};

fn handle(_: Request) -> Result<Response> {
    Ok(Response::text("hello"))
}

wasmkeep_sdk::front!(handle);
