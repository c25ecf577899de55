//! Brings what actors commit to the bucket, and back to whichever node needs them.
//!
//! A `Held` is an actor while this node holds it. What it commits is captured between events and shipped
//! as segments, one at a time; a segment is acknowledged if its answer came while the hold was valid
//! (`rules`). A hold that cannot say what became of an upload is lost: its actor is given up, and the
//! next hold, of a higher generation, restores what the bucket has.
//!
//! Promises: what `durable` answered is in every later restore; a restore is exactly the head of its
//! listing, or an error, never a guess; nothing is sent under a hold that has ended; and what is
//! collected is needed by no later restore.
//!
//! Not here: who may hold (`ownership`), what objects are (`history`), where pages come from (the port
//! `Capturing`).

mod collect;
mod error;
mod fetch;
mod held;
mod kept;
mod leave;
mod marks;
mod process;
mod replicas;
mod restore;
pub mod rules;
mod send;
mod shared;
mod ship;
mod stand_in;

#[cfg(test)]
mod tests;

pub use error::{HoldError, Lost, ShipError};
pub use held::{Held, Settled, ShipWait};
pub use process::ReplicaSupervisor;
pub use replicas::{Holding, ReplicaParts, Replicas};
