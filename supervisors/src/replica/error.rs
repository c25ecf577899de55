//! What callers tell apart.

use thiserror::Error;

use crate::bucket::SetError;
use crate::ownership::AcquireError;
use crate::ports::StorageFault;

/// Why an actor is not held here. Its event cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HoldError {
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// Trying again will not help, on any node.
    #[error("{0}")]
    Broken(String),
    /// A newer node wrote what is needed: this one must be upgraded.
    #[error("this node must be upgraded: {0}")]
    Newer(String),
    #[error(transparent)]
    Storage(#[from] StorageFault),
}

/// Why a hold cannot go on. Its actor is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Lost {
    #[error("the outcome of an upload is not known")]
    Unknown,
    #[error("the hold had ended")]
    Lapsed,
    /// By the bucket's clock this node's lease had run out when a write landed.
    #[error("a write landed after the lease")]
    Late,
    #[error("the bucket refuses")]
    Denied,
    /// Another writer used this hold's generation: a fault of the protocol.
    #[error("the history has another segment of this generation")]
    Conflict,
    #[error("the database failed")]
    Storage,
    /// The process that ships failed.
    #[error("shipping failed")]
    Process,
}

impl Lost {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Lost::Unknown => "unknown",
            Lost::Lapsed => "lapsed",
            Lost::Late => "late",
            Lost::Denied => "denied",
            Lost::Conflict => "conflict",
            Lost::Storage => "storage",
            Lost::Process => "process",
        }
    }
}

impl From<&SetError> for Lost {
    fn from(error: &SetError) -> Self {
        match error {
            SetError::Lost(_) => Lost::Conflict,
            SetError::Unknown(_) => Lost::Unknown,
            SetError::Denied(_) => Lost::Denied,
            SetError::Stopped => Lost::Lapsed,
        }
    }
}

/// Why it is not known that something is durable. It may be; the actor is to be given up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShipError {
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error(transparent)]
    Storage(#[from] StorageFault),
}
