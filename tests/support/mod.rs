//! The harness: nodes, the actors on them, and two clients, an ordinary and a raw one.

mod alarm;
mod answer;
mod browser;
mod cluster;
mod disk;
mod index;
mod node;
mod raw;
mod server;
mod shim;
mod socket;
mod wait;
mod wall_clock;

pub use alarm::{HOUR_MS, now_ms};
pub use answer::Answer;
pub use browser::Browser;
pub use cluster::{Cluster, TAKEOVER_PATIENCE, Way};
pub use disk::{Disk, SmallDisk};
pub use index::open;
pub use node::{Actor, Node, Setup, component, listens_at, run, wasmkeep};
pub use raw::{DONE, Raw};
pub use server::Server;
pub use socket::{
    BINARY, CLOSE, CONTINUATION, FIN, Frame, PING, PONG, TEXT, WebSocket, masked, upgrade,
};
pub use wait::{SetAtTheEnd, eventually, eventually_within, in_parallel, patience};
pub use wall_clock::WallClock;
