//! What stands above the bucket's bare operations: nonces, and finding out about a write whose
//! outcome is not known.
//!
//! Promises: a write under a condition is reported as landed only if it did, and as lost only if
//! another one's is there and this one's never will be; whatever is neither is unknown. It sends the same bytes again
//! only while the object is as it was before, never after the deadline that all attempts share, and
//! never once the caller's word says that it may not. A first attempt that lands late then meets
//! another version and changes nothing.
//!
//! It does not keep a hold: a caller whose right to write ended stops it by `Attempts::may_send`.
//! See ADR 0015.

mod again;
mod compare_and_set;
mod key;
mod list_all;
mod nonce;

#[cfg(test)]
mod tests;
mod verdict;

pub use again::Again;
pub use compare_and_set::{Attempts, SetError, compare_and_set};
pub use key::{KeyError, check_key};
pub use list_all::{ListAllError, list_all};
pub use nonce::Nonce;
pub use verdict::Expected;
