//! Events that are passed from node to node: what one node writes about an event for another, how the
//! node that has its actor is found over several of them, and what a node does with what it gets.
//!
//! Promises: caller, chain and headers of an event are the same on every node, and only a node can say
//! them: they travel apart from what a client or a guest wrote. What may have run is never sent again.
//! Who owns an actor is not decided here (`ownership`), nor how bytes travel (`ports::PeerLink`).

mod answer;
mod arrival;
mod base64;
mod bytes;
mod follow;
mod record;
#[cfg(test)]
mod tests;

pub use answer::{ANSWER, Answer, HopRefused};
pub use arrival::{FromPeers, NotTaken};
pub use follow::{FindPeer, Relay, Returned, Unrelayed};
pub use record::{
    Carried, HELLO_PATH, HOP, Hop, HopError, RELAY_PATH, SOCKET_PATH, TAKE_PATH, decode_actors,
    encode_actors,
};
