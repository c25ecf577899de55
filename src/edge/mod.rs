//! The public port: HTTP in, events to the tree, answers out. And in `cluster`, the port on which
//! other nodes hand over the events of this node's actors.
//!
//! Promises: a request's address is read once and exactly; what the host says about a request
//! (`x-wasmkeep-*`) cannot be said by its client; `/actor/` never reaches the front; every answer the host makes itself carries a
//! reason and whether the event ran. What runs, and where, is the tree's business.

mod actor;
mod body;
mod cluster;
mod connection;
mod console;
mod front;
mod health;
mod respond;
mod server;
mod stream;
mod websocket;

pub use cluster::{ClusterPort, ClusterSpec};
pub use console::{Commands, ConsoleSpec};
pub use server::{Edge, EdgeError, EdgeState, Serves};
