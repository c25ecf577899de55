//! Broken twins: the rules without which data is lost, and a way to leave one out.
//!
//! A checker that nobody has seen fail is no checker, so `sim` runs every twin and fails if one is not
//! caught. Outside of tests `is_broken` is constant.

/// A rule that can be left out. Named for what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Twin {
    /// A write is acknowledged though the horizon had passed when its answer came.
    AcknowledgesPastHorizon,
    /// The horizon counts from a renewal's answer, not from before it was sent.
    HorizonFromAnswer,
    /// A node whose lease lapsed goes on with its session and holds.
    KeepsSessionOverLapse,
    /// An observer's verdict counts from when the lease was received, not from when it was asked for;
    /// and it takes without a fence.
    VerdictFromReceiptWithoutFence,
    /// A session is taken for ended because the last poll showed another one.
    VoidByCachedSession,
    /// A node with the id of a live one starts without waiting.
    StartsBesideItself,
    /// The history is listed before the record is written.
    ListsBeforeAcquire,
    /// A first record is of generation 1, whatever is in the history.
    GenerationNotAboveHistory,
    /// A release arms the fast path though an upload's outcome was unknown.
    FastPathAfterUnknown,
    /// A hold goes on when its release is not known to have landed.
    ResumesAfterUnknownRelease,
    /// What lies below a restored head is collected before a segment of this hold is acknowledged.
    CollectsAtRestoredHead,
    /// A durable write that changed nothing is acknowledged on a head that was only read.
    AcknowledgesNothingWithoutFence,
    /// A conditional write that is not known to have landed is sent again, and a mismatch taken for a
    /// loss.
    RetriesBlindly,
    /// Records carry no nonce.
    RecordsWithoutNonce,
    /// A file left by a crash is trusted.
    TrustsFileAfterCrash,
    /// Collection does not look at the record's generation.
    CollectsWithoutRecord,
    /// A segment is sent after the horizon.
    SendsPastHorizon,
    /// A segment's acknowledgement is taken for one of what was committed after it was captured.
    AcknowledgesUncaptured,
}

impl Twin {
    pub const ALL: &[Twin] = &[
        Twin::AcknowledgesPastHorizon,
        Twin::HorizonFromAnswer,
        Twin::KeepsSessionOverLapse,
        Twin::VerdictFromReceiptWithoutFence,
        Twin::VoidByCachedSession,
        Twin::StartsBesideItself,
        Twin::ListsBeforeAcquire,
        Twin::GenerationNotAboveHistory,
        Twin::FastPathAfterUnknown,
        Twin::ResumesAfterUnknownRelease,
        Twin::CollectsAtRestoredHead,
        Twin::AcknowledgesNothingWithoutFence,
        Twin::RetriesBlindly,
        Twin::RecordsWithoutNonce,
        Twin::TrustsFileAfterCrash,
        Twin::CollectsWithoutRecord,
        Twin::SendsPastHorizon,
        Twin::AcknowledgesUncaptured,
    ];
}

#[cfg(any(test, feature = "testing"))]
mod switch {
    use std::cell::Cell;

    use super::Twin;

    thread_local! {
        static BROKEN: Cell<Option<Twin>> = const { Cell::new(None) };
    }

    /// Leaves out a rule in whatever this thread runs, until the guard is dropped.
    #[must_use]
    pub fn leave_out(twin: Twin) -> LeftOut {
        BROKEN.set(Some(twin));
        LeftOut(())
    }

    pub struct LeftOut(());

    impl Drop for LeftOut {
        fn drop(&mut self) {
            BROKEN.set(None);
        }
    }

    pub fn is_broken(twin: Twin) -> bool {
        BROKEN.get() == Some(twin)
    }
}

#[cfg(not(any(test, feature = "testing")))]
mod switch {
    pub const fn is_broken(_: super::Twin) -> bool {
        false
    }
}

pub use switch::*;
