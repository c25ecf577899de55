//! Wall time, as alarms have it, and the node's own time, as leases have it. Where they come from are
//! ports; here they are only compared.

use std::time::Duration;

/// Milliseconds since 1970-01-01T00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// How long until then; nothing when it has passed.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    pub fn plus(self, later: Duration) -> Timestamp {
        let ms = u64::try_from(later.as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(ms))
    }
}

/// Nanoseconds since some moment of this machine's, by a clock that nobody sets and that goes on while
/// the machine sleeps. It is compared with itself only, never with another node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTime(pub u64);

impl NodeTime {
    /// How long it is since then; nothing when that is yet to come.
    pub fn since(self, earlier: NodeTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub fn plus(self, later: Duration) -> NodeTime {
        let nanos = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        NodeTime(self.0.saturating_add(nanos))
    }
}
