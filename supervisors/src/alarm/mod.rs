//! The one alarm of an actor, and the node's timer.
//!
//! The truth is in the actor's own database (`record`), so it commits and rolls back with what the
//! guest wrote. Beside it the node keeps an index of all its alarms, in another file. The index may
//! be early or stale, never late and never without an entry for an alarm that is committed: a new
//! or earlier alarm is entered before the database commits it, a later or removed one after that.
//! The timer only reads the index, and an actor that is told without cause runs nothing.
//!
//! Fires at least once: the alarm stays in the database until `on-alarm` has succeeded.

pub mod process;
pub mod record;
pub mod rules;

pub use process::{Bell, TimerParts, TimerProcess};

#[cfg(test)]
mod tests;
