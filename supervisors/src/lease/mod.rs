//! A node's right to act: a lease in the bucket that it renews, and the moment up to which it holds.

mod session;
mod validity;

pub use session::{Session, SessionError};
pub use validity::{Term, Validity};
