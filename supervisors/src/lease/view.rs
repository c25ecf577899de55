//! How a node's lease stands, for health checks, logs and whoever waits for it.

use thiserror::Error;

use super::record::LeaseRecordError;
use super::session::Session;
use crate::address::NodeId;
use crate::ports::{Denial, Doubt};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    pub phase: Phase,
    /// Of the present term.
    pub session: Option<Session>,
    /// Why there is none.
    pub why: Option<Why>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// At first, and after every lapse.
    Starting,
    Live,
    Draining,
    /// For good.
    Ended,
}

/// Why a node that wants to act may not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Why {
    #[error("its lease was not renewed in time")]
    Lapsed,
    #[error("its lease is gone from the bucket")]
    Gone,
    #[error("its lease cannot be read or written: {0}")]
    Unknown(Doubt),
    #[error("another process acts under this node's name, at {address:?}")]
    Beside { address: String },
    #[error("what is in the place of its lease cannot be read: {0}")]
    Unreadable(LeaseRecordError),
    #[error(transparent)]
    Denied(Denial),
    #[error("its lease was fenced by {by}: {reason}")]
    Fenced { by: NodeId, reason: String },
}

/// How the keeping of a lease ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Ended {
    /// As it was ordered.
    #[error("the lease is released")]
    Released,
    /// Another node, an operator, or another process under this id ended it while it was valid.
    #[error("the lease was fenced by {by}: {reason}")]
    Fenced { by: NodeId, reason: String },
    #[error(transparent)]
    Denied(Denial),
}
