//! The other nodes, as their leases show them: who is there, where, and which of their sessions have
//! ended.
//!
//! Promises: a session is called void only when it can never act again. Either its own lease says so,
//! or a read sent after the question shows another session in its place, or the lease stood unchanged
//! for its whole time and this node then fenced it.
//!
//! It decides nothing about records of actors: that is `ownership`.

mod fence;
mod peers;
pub mod rules;
#[cfg(test)]
mod tests;
mod watch;

pub use fence::{FenceError, Fenced};
pub use peers::{Peer, Peers, PeersError, PeersParts};
