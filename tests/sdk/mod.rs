//! What the SDKs have above the contract, on a real node: `tests/guests/sdk` uses it as it is told, and in
//! TypeScript `tests/guests-ts/sdk`.

mod migrations;
mod services;
mod timers;
mod web_engine;

use crate::support::{Node, Setup};

fn sdk() -> Setup {
    Node::serve().class("sdk", "guest-sdk.wasm")
}

/// Actors of the same class, written anew in TypeScript.
fn sdk_in_typescript() -> Setup {
    Node::serve().class("sdk", "guest-sdk-ts.wasm")
}
