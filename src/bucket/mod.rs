//! The bucket that the nodes of a cluster share, over S3: `ports::Bucket`.
//!
//! Promises what the port does, and above all that nothing is tried twice. It stands on `rust-s3`
//! with its retries at zero and reads status, headers and body itself, so that no answer is taken
//! for another: `meaning` is the table of what they say. Whether a store keeps its word is not taken
//! on trust: `probe` finds out, and which form of ETags the store compares.
//!
//! It redirects nothing, refreshes no credentials, and uploads in one piece. What rust-s3 lacks is
//! made up for here alone. See ADR 0015.
//!
//! `folder` is another one: a folder of this machine, for development.

mod advice;
mod etag;
mod folder;
mod listing;
mod meaning;
mod probe;
mod random;
mod s3;
mod send;
mod settings;
#[cfg(test)]
mod tests;
mod url;

pub use advice::{explain, place};
pub use etag::ETagForm;
pub use folder::{FolderBucket, FolderError};
pub use probe::{Latencies, ProbeError, Probed, Violation, probe};
pub use random::SystemRandom;
pub use s3::{ConnectError, S3Bucket};
pub use settings::{Addressing, BucketSettings, Credentials, Endpoint, EndpointError};
pub use url::{BucketUrl, BucketUrlError};
