//! What the Rust SDK has above the contract, on a real node: `tests/guests/sdk` uses it as it is told.

mod migrations;
mod services;
mod timers;

use crate::support::{Node, Setup};

fn sdk() -> Setup {
    Node::serve().class("sdk", "guest-sdk.wasm")
}
