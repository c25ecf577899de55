//! The public port: HTTP in, events to the tree, answers out.
//!
//! Promises: a request's address is read once and exactly; what the host says about a request
//! (`x-wasmkeep-*`) cannot be said by its client; `/actor/` never reaches the front; every answer the host makes itself carries a
//! reason and whether the event ran. What runs, and where, is the tree's business.

mod actor;
mod body;
mod connection;
mod console;
mod front;
mod health;
mod respond;
mod server;
mod websocket;

pub use console::{Commands, ConsoleSpec};
pub use server::{Edge, EdgeError, EdgeState, Serves};
