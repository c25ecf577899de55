//! What one hold has sent of its own generation, and what that allows it to say.

use super::header::{Base, ObjectHash};
use super::position::{Generation, Position};

/// What a hold must do before it may say that all it did is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// Nothing: it is.
    Already,
    /// Wait until the segments under way, and those that wait, are acknowledged.
    Wait,
    /// Send a fence and wait for it. What was restored was read and not acknowledged to this
    /// hold: an upload of an earlier holder that lands late could still become the history
    /// without it.
    Fence,
}

/// The segments of one hold. It sends one at a time, because each names the hash of the one before.
#[derive(Debug, Clone)]
pub struct Progress {
    generation: Generation,
    restored: Option<Base>,
    acknowledged: Option<Base>,
    sent: Option<Sent>,
    reset: Option<Position>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    base: Base,
    is_reset: bool,
}

impl Progress {
    /// A hold that restored `head`, or found no history. `reset` is the newest reset on that chain.
    pub fn new(generation: Generation, head: Option<Base>, reset: Option<Position>) -> Self {
        Self { generation, restored: head, acknowledged: None, sent: None, reset }
    }

    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The newest segment of the chain that this hold knows to be in the bucket.
    pub fn head(&self) -> Option<Base> {
        self.acknowledged.or(self.restored)
    }

    pub(super) fn restored(&self) -> Option<Base> {
        self.restored
    }

    /// The newest of this hold's own segments that is acknowledged.
    pub fn acknowledged(&self) -> Option<Position> {
        self.acknowledged.map(|base| base.at)
    }

    pub fn reset(&self) -> Option<Position> {
        self.reset
    }

    /// The chain below what was restored has been read back: this is the newest reset there.
    pub fn learned_reset(&mut self, reset: Option<Position>) {
        self.reset = self.reset.or(reset);
    }

    /// Where the next segment goes, and what it applies on. None while one is under way: its hash
    /// is the next one's base, and it may still fail.
    pub fn next(&self) -> Option<(Position, Option<Base>)> {
        if self.sent.is_some() {
            return None;
        }
        let at = match self.acknowledged {
            Some(last) => last.at.next()?,
            None => Position::first_of(self.generation),
        };
        Some((at, self.head()))
    }

    /// The segment at `next` is about to be sent.
    pub fn sent(&mut self, hash: ObjectHash, is_reset: bool) {
        if let Some((at, _)) = self.next() {
            self.sent = Some(Sent { base: Base { at, hash }, is_reset });
        }
    }

    /// It landed while the hold was valid. Returns where.
    pub fn landed(&mut self) -> Option<Position> {
        let Sent { base, is_reset } = self.sent.take()?;
        self.acknowledged = Some(base);
        if is_reset {
            self.reset = Some(base.at);
        }
        Some(base.at)
    }

    /// `all_sent`: nothing committed waits to be captured or sent.
    pub fn durable(&self, all_sent: bool) -> Durable {
        if !all_sent || self.sent.is_some() {
            Durable::Wait
        } else if self.acknowledged.is_some() {
            Durable::Already
        } else {
            Durable::Fence
        }
    }
}
