//! A node's right to act: a lease in the bucket that it renews, and the moment up to which it holds.
//! The same object is the node's sign of life, and tells the others where it is and what it serves.
//!
//! Promises: between two terms no hold is valid; a term ends at its horizon, which counts from before
//! the renewal was sent; every term has a session of its own, and a session that the lease shows as
//! released, or in whose place there is another, never acts again. A fenced one learns of it at its
//! next renewal, or never and stops at its horizon: who fences has waited for that, or has an
//! operator's word.
//!
//! What others conclude from a lease is in `node`. See docs/internals/bucket-layout.md for the bytes.

mod hold;
mod process;
mod record;
pub mod rules;
mod session;
mod start;
#[cfg(test)]
mod tests;
mod validity;
mod view;

pub use process::{LeaseKeeper, LeaseParts, Order, Told};
pub use record::{
    LEASES, LeaseRecord, LeaseRecordError, LeaseState, Load, Serves, lease_key, node_of_key,
};
pub use session::{Session, SessionError};
pub use validity::{Term, Validity};
pub use view::{Ended, LeaseView, Phase, Why};
