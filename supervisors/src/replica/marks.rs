//! Which of an actor's durable writes are in the bucket, while it goes on writing.
//!
//! Invariant: a write counts as durable only once a segment that was captured after it was committed is
//! acknowledged. What is committed while a segment is under way is in a later one.

use crate::event::Mark;
use crate::history::Position;
use crate::twin::{Twin, is_broken};

/// Of one hold.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    /// The newest write that was committed.
    written: Mark,
    /// The segment under way, and the newest write it has.
    under_way: Option<(Position, Mark)>,
    durable: Mark,
}

impl Marks {
    pub fn wrote(&mut self, mark: Mark) {
        self.written = mark;
    }

    /// A segment with everything committed is sent. The one before it has landed.
    pub fn sent(&mut self, at: Position) {
        self.under_way = Some((at, self.written));
    }

    /// Everything up to that segment is in the bucket, and was there while the hold was valid.
    pub fn landed(&mut self, acknowledged: Option<Position>) {
        let Some((at, captured)) = self.under_way else { return };
        if acknowledged >= Some(at) {
            self.under_way = None;
            self.durable = match is_broken(Twin::AcknowledgesUncaptured) {
                true => self.written,
                false => captured,
            };
        }
    }

    /// Nothing that was committed is left out of the bucket.
    pub fn all_landed(&mut self) {
        self.under_way = None;
        self.durable = self.written;
    }

    /// The newest write that is durable, with all before it.
    pub fn durable(self) -> Mark {
        self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::leave_out;

    fn at(seq: u64) -> Position {
        Position::new(3, seq).expect("a legal position")
    }

    #[test]
    fn a_write_is_durable_with_the_first_segment_captured_after_it() {
        let mut marks = Marks::default();
        marks.wrote(1);
        marks.sent(at(4));
        marks.wrote(2);
        marks.landed(Some(at(3)));
        assert_eq!(marks.durable(), 0);
        marks.landed(Some(at(4)));
        assert_eq!(marks.durable(), 1);
        marks.sent(at(5));
        marks.wrote(3);
        marks.landed(Some(at(4)));
        assert_eq!(marks.durable(), 1);
        marks.landed(Some(at(5)));
        assert_eq!(marks.durable(), 2);
        marks.sent(at(6));
        marks.wrote(4);
        marks.all_landed();
        marks.landed(Some(at(6)));
        assert_eq!(marks.durable(), 4);
    }

    #[test]
    fn without_that_rule_a_write_is_acknowledged_that_no_segment_has() {
        let _broken = leave_out(Twin::AcknowledgesUncaptured);
        let mut marks = Marks::default();
        marks.sent(at(4));
        marks.wrote(1);
        marks.landed(Some(at(4)));
        assert_eq!(marks.durable(), 1);
    }
}
