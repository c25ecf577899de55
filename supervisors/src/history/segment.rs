//! The four kinds of segment: the links of a chain.

use super::header::{Base, Description, Kind, Meta};
use super::position::Position;

/// The pages that whole commits changed. `frames` is how many the WAL had for them.
pub fn delta(at: Position, base: Option<Base>, db_pages: u32, frames: u32) -> Description {
    Description { frames, ..segment(Kind::Delta, at, base, db_pages) }
}

/// Every page: after the host's VACUUM, or a file adopted as an actor's first segment. `reset` is the
/// newest reset on the chain, which restores do not look for below a segment that is whole.
pub fn full(
    at: Position,
    base: Option<Base>,
    db_pages: u32,
    reset: Option<Position>,
) -> Description {
    segment(Kind::Full, at, base, db_pages).with_reset(reset)
}

/// Every page of the empty database that a delete leaves.
pub fn reset(at: Position, base: Option<Base>, db_pages: u32) -> Description {
    segment(Kind::Reset, at, base, db_pages)
}

/// No pages. Once it is acknowledged, nothing an earlier holder sent can become the history.
pub fn fence(at: Position, base: Option<Base>, db_pages: u32) -> Description {
    segment(Kind::Fence, at, base, db_pages)
}

fn segment(kind: Kind, at: Position, base: Option<Base>, db_pages: u32) -> Description {
    Description {
        kind,
        at,
        base,
        stands_for: None,
        from: at.seq(),
        session: [0; 16],
        wall_ms: 0,
        db_pages,
        frames: 0,
        meta: Meta::new(),
    }
}
