//! The harness: nodes, the actors on them, and two clients, an ordinary and a raw one.

mod answer;
mod disk;
mod node;
mod raw;
mod server;
mod wait;

pub use answer::Answer;
pub use disk::{Disk, SmallDisk};
pub use node::{Actor, Node, component, wasmkeep};
pub use raw::{DONE, Raw};
pub use server::Server;
pub use wait::{SetAtTheEnd, eventually, in_parallel, patience};
