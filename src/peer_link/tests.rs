//! Two nodes on loopback: real connections and TLS, trees with a guest that does as its request says.

mod bodies;
mod node;
mod refused;
mod requests;
mod sockets;
