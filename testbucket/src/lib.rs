//! A bucket in memory that speaks S3, for tests and development.
//!
//! Objects are in one map under one lock, so of writes under one condition exactly one lands. Its
//! dialect can be chosen, honest or broken, and it fails as `Fault`s tell it to, one request at a
//! time. `TestBucket` runs it as a child process; `store` (feature of that name) is the store.

mod child;
mod dialect;
mod fault;
#[cfg(feature = "store")]
pub mod store;

pub use child::{ACCESS_KEY, BUCKET, Counts, SECRET_KEY, TestBucket};
pub use dialect::Dialect;
pub use fault::{Fault, Operation, What};
