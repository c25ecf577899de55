//! How far an event has come. Pure.

use crate::limits::RELAY_HOPS_MAX;

/// How often an event was passed on from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hops(u8);

impl Hops {
    /// Of an event that came from its sender.
    pub const NONE: Self = Self(0);

    /// None for more than there may be.
    pub const fn counted(hops: u8) -> Option<Self> {
        if hops <= RELAY_HOPS_MAX { Some(Self(hops)) } else { None }
    }

    /// Passed on once more; none when that would be too often.
    pub const fn one_more(self) -> Option<Self> {
        Self::counted(self.0.saturating_add(1))
    }

    pub const fn count(self) -> u8 {
        self.0
    }
}
