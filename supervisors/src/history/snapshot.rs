//! What stands in for segments: snapshots for a whole chain, merged objects for a run of it.

use super::header::{Base, Description, Kind, Meta};
use super::position::Position;

/// The line of meta that keeps where the last delete is: its segment and snapshot stay for good, and
/// a stand-in is all that later holders see of what came before.
const RESET: &str = "reset";

/// Every page, after `segment`. `reset` is the newest reset on
/// the chain, if there is one.
pub fn snapshot(segment: Base, db_pages: u32, reset: Option<Position>) -> Description {
    stand_in(Kind::Snapshot, segment, db_pages, reset)
}

/// The pages that the segments from the `from`th of a generation to `last` changed, as they are
/// after the last. `base` is what the first of them applies on; `reset` as with a snapshot.
pub fn merged(
    last: Base,
    from: u64,
    base: Option<Base>,
    db_pages: u32,
    reset: Option<Position>,
) -> Description {
    Description { from, base, ..stand_in(Kind::Merged, last, db_pages, reset) }
}

fn stand_in(kind: Kind, segment: Base, db_pages: u32, reset: Option<Position>) -> Description {
    Description {
        kind,
        at: segment.at,
        base: None,
        stands_for: Some(segment.hash),
        from: segment.at.seq(),
        session: [0; 16],
        wall_ms: 0,
        db_pages,
        frames: 0,
        meta: Meta::new(),
    }
    .with_reset(reset)
}

impl Description {
    pub(super) fn with_reset(mut self, reset: Option<Position>) -> Self {
        self.meta.extend(reset.map(|reset| (RESET.to_owned(), reset.to_string())));
        self
    }

    /// The newest reset at or below this object, as far as the object tells.
    pub fn reset(&self) -> Option<Position> {
        match self.kind {
            Kind::Reset => Some(self.at),
            _ => self.meta.get(RESET)?.parse().ok(),
        }
    }
}
