//! The WebSockets of the node's actors. The host owns them: they outlive their actor's instance,
//! and what their clients send wakes it.
//!
//! Promises: a socket is among its actor's connections from the moment the actor has accepted it;
//! its messages reach the actor one at a time, in order, and its close event after them, once,
//! however long that has to wait; what waits for a client is bounded. A held socket costs its actor
//! no place in memory.
//!
//! `registry` has them by address, `held` is one of them, `line` is what its connection holds, and
//! `process` looks after them. Nothing here knows frames.

mod held;
mod line;
mod process;
mod registry;
pub mod rules;
#[cfg(test)]
mod tests;

pub use held::{Outgoing, Socket};
pub use line::{Line, Opened};
pub use process::{SocketsParts, SocketsProcess};
pub use registry::Sockets;
