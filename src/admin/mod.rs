//! What the operator of one node may ask: which actors there are, what stands in one of them, and
//! what happens now.
//!
//! The same code answers whether the node runs or not. Running, it answers on a local socket in the
//! data directory, which only the directory's owner may enter; otherwise a command opens the data
//! directory itself and has the answer written into a pipe. Either way a client reads lines
//! (`protocol`).
//!
//! Promised: nothing here runs an actor's code, makes an actor or changes what one holds, but for a
//! test that moves the node's clock. A running
//! node reads an actor's database between two of its events.

mod answer;
mod client;
mod lines;
mod operator;
mod outlook;
mod protocol;
mod server;
mod show;
mod socket;
mod tail;

pub use client::{Ask, ClientError, Session, answer_into_pipe};
pub use operator::{Advance, Operator, RunningNode};
pub use protocol::{
    ActorRequest, Command, Facts, Failure, FailureKind, Line, ListRequest, ListedActor,
    REQUEST_BYTES_MAX, SqlCell, SqlRequest, Which,
};
pub use server::AdminServer;
pub use socket::connect;
pub use tail::{Fields, RecordKind, TailRecord, TailRequest};
