//! Which node may write an actor's history: one record an actor, in the bucket.
//!
//! Promises: of all nodes at most one has a hold of an actor that may acknowledge; each hold has a
//! generation of its own, above all before it; and the history that a hold comes with was listed
//! after its record had been written, so no upload of an earlier holder that was acknowledged is
//! missing from it. A hold is of one lease's term and ends with it. Whatever becomes of a release, a
//! hold ends before it is sent.
//!
//! Not here: whether a node is alive (`lease`, `node`) and what is in the history (`history`,
//! `replica`). The bytes are in docs/internals/bucket-layout.md.

mod acquisition;
mod found;
mod hold;
mod owners;
pub mod record;
pub mod rules;
mod writes;

#[cfg(test)]
mod tests;

pub use found::FoundHistory;
pub use hold::{Begun, Hold, Right};
pub use owners::{AcquireError, Acquired, Owners, OwnersParts, Released};
pub use record::{Holder, OwnerRecord, OwnerRecordError, owner_key};
