//! The bucket that the nodes of a cluster share: objects under keys, and writes under a condition.
//!
//! Whoever implements it promises: reads and listings show every write that was answered before
//! they were sent; of writes under one condition at most one lands; and **nothing is tried twice**.
//! A write repeated in secret meets its own first landing and reports a mismatch. So whatever is
//! not known is said to be unknown; `crate::bucket` finds out.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::limits::{BUCKET_LEASE_WAIT, BUCKET_RECORD_WAIT, BUCKET_UPLOAD_WAIT};

pub type BucketFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The version of an object, as the bucket names it, without the quotes of HTTP. Equal bodies may
/// have equal versions: what is compared and set carries a nonce.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ETag(String);

impl ETag {
    /// None when it is empty, or what no header can carry.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
        (!text.is_empty() && text.bytes().all(is_plain)).then_some(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// The bucket's own clock, in milliseconds since 1970; most buckets tell whole seconds. It is
/// compared with itself only, never with a clock of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketTime(pub u64);

/// What must hold for a write to land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cond {
    Any,
    /// No object has the key.
    Absent,
    /// The key's object has this version.
    Match(ETag),
}

/// How long an operation may take: only its caller knows what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Lease,
    /// Records, listings, reads of a restore.
    Record,
    Upload,
}

impl Wait {
    pub const fn longest(self) -> Duration {
        match self {
            Wait::Lease => BUCKET_LEASE_WAIT,
            Wait::Record => BUCKET_RECORD_WAIT,
            Wait::Upload => BUCKET_UPLOAD_WAIT,
        }
    }
}

/// An object as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub body: Bytes,
    pub etag: ETag,
    /// When it was written.
    pub modified: Option<BucketTime>,
    /// When it was read.
    pub date: Option<BucketTime>,
}

/// A write that landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub etag: ETag,
    /// When, if the bucket said so.
    pub date: Option<BucketTime>,
}

/// Which keys to list: those that begin with `prefix` and come after `after`, in the order of their
/// bytes, at most `keys_max` of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFrom<'a> {
    pub prefix: &'a str,
    pub after: Option<&'a str>,
    pub keys_max: u16,
}

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub key: String,
    pub etag: ETag,
    pub bytes: u64,
    pub modified: Option<BucketTime>,
}

/// One page of a listing, which may be shorter than was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub objects: Vec<Listed>,
    /// There are further keys, after the last one here. Then this page is not empty.
    pub has_more: bool,
    pub date: Option<BucketTime>,
}

/// The bucket refuses the node, and a retry will not help: no access, no such bucket, another
/// region, a request it does not know. What was asked for did not happen.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the bucket refuses: {status} {code}: {message}")]
pub struct Denial {
    /// 0 when nothing was sent.
    pub status: u16,
    /// The word S3 has for it.
    pub code: String,
    pub message: String,
}

/// Why it is not known whether an operation happened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Doubt {
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the connection failed: {0}")]
    Connection(String),
    /// A conflict, too many requests, or a failure of the bucket's own.
    #[error("the bucket answered {status} {code}")]
    Answered { status: u16, code: String },
    #[error("the bucket's answer cannot be read: {0}")]
    Unreadable(String),
    /// It gave no version that a write could be conditional on.
    #[error("the bucket gave {0}")]
    Version(&'static str),
    /// An attempt before is in doubt, and the bucket refuses to be asked about it.
    #[error(transparent)]
    Denied(Denial),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GetError {
    #[error("there is no such object")]
    Missing,
    #[error(transparent)]
    Denied(Denial),
    #[error("not read: {0}")]
    Unknown(Doubt),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PutError {
    /// The key has an object that the condition forbids.
    #[error("the object is not as expected")]
    Mismatch,
    /// The condition names a version, and the key has no object.
    #[error("there is no such object")]
    Missing,
    #[error(transparent)]
    Denied(Denial),
    /// It landed, did not, or will.
    #[error("not known to have landed: {0}")]
    Unknown(Doubt),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    #[error(transparent)]
    Denied(Denial),
    #[error("not listed: {0}")]
    Unknown(Doubt),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeleteError {
    #[error(transparent)]
    Denied(Denial),
    /// It is gone, is not, or will be.
    #[error("not known to be deleted: {0}")]
    Unknown(Doubt),
}

/// One bucket, below one prefix. Keys are `/`-separated, without a leading slash, without empty
/// parts or ones that are `.` or `..`, and at most `BUCKET_KEY_BYTES_MAX` bytes with the prefix;
/// another is denied and nothing is sent. Who stops polling a write may have written.
pub trait Bucket: Send + Sync + 'static {
    /// At most `BUCKET_OBJECT_BYTES_MAX`.
    fn get<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<Object, GetError>>;

    /// None when the object still has this version.
    fn get_if_changed<'a>(
        &'a self,
        key: &'a str,
        etag: &'a ETag,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Option<Object>, GetError>>;

    fn put<'a>(
        &'a self,
        key: &'a str,
        body: Bytes,
        cond: Cond,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Written, PutError>>;

    fn list<'a>(
        &'a self,
        from: ListFrom<'a>,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Page, ListError>>;

    /// Deletes the object; that there is none is as good.
    fn delete<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<(), DeleteError>>;
}
