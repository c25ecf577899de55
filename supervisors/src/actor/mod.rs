//! One actor: its mailbox, its life, and what its code may ask.
//!
//! Promises: one event at a time, in arrival order; at most 1,024 wait; an event whose sender left
//! is not run; whatever the guest does, its process lives and the next event finds the database as
//! the last committed statement left it. What it deliberately does not do: retry an event.

pub mod inspection;
pub mod mailbox;
pub mod process;
pub mod queue;
pub mod residents;
pub mod scope;

pub use inspection::{InspectError, Inspected, QueueLength, Served, Standing};
pub use mailbox::Mailbox;
pub use residents::{Residence, Residents, Seat};

#[cfg(test)]
mod tests;
