//! What a node that needs an actor may do, by the record it sees.
//!
//! Every change of a record is one of these; any other is a bug:
//!
//! ```text
//! none         to held(A, S, g)      g above every generation in the history
//! free(g)      to held(A, S, g + 1)
//! held(B, T, g) to held(A, S, g + 1) only if (B, T) is void, or is (A, S), which has no hold
//! held(A, S, g) to free(g)           by A only: a release with everything acknowledged, or a disown
//! ```

use std::time::Duration;

use super::record::{Holder, OwnerRecord};
use crate::address::NodeId;
use crate::history::Generation;
use crate::lease::Session;
use crate::limits::HANDOVER_WAIT;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// There is no record: write a first one, above the history.
    Create,
    /// Nobody holds it, or this node is named and does not.
    Acquire,
    /// Only if that session is void, as read after the record was.
    TakeIfVoid { node: NodeId, session: Session },
    /// It was handed to that node, which is left to take it if it is live.
    HandedTo(NodeId),
}

/// `age` is how long ago the record was written, by the bucket's clock. The caller has no hold: then
/// a record of its own session is nobody's. It may be a hold that was given up, or an acquisition that
/// landed after its sender had stopped waiting. Another session of its node is asked about like any
/// other's: it may be a later one, which began while this node's clock stood still.
pub fn next(
    seen: Option<&OwnerRecord>,
    (me, own): (&NodeId, Session),
    age: Option<Duration>,
) -> Next {
    let Some(record) = seen else { return Next::Create };
    match &record.holder {
        Holder::Held { node, session } if node == me && *session == own => Next::Acquire,
        Holder::Held { node, session } => {
            Next::TakeIfVoid { node: node.clone(), session: *session }
        }
        Holder::Free { next: Some(node) } if node != me && is_fresh(age) => {
            Next::HandedTo(node.clone())
        }
        Holder::Free { .. } => Next::Acquire,
    }
}

/// A hand-over is a preference: without a clock it does not hold anybody up.
fn is_fresh(age: Option<Duration>) -> bool {
    age.is_some_and(|age| age < HANDOVER_WAIT)
}

/// The generation of the next hold: above the record's, and above all in the history, where a late
/// upload may have any that was ever held. None after 2^64 of them.
pub fn generation_above(
    record: Option<Generation>,
    history: Option<Generation>,
) -> Option<Generation> {
    match record.max(history) {
        None => Some(Generation::FIRST),
        Some(highest) => highest.next(),
    }
}
