//! A node's right to write one actor's history, for one generation.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::found::FoundHistory;
use crate::address::Address;
use crate::history::{Base, Generation};
use crate::lease::Term;
use crate::ports::ETag;
use crate::twin::{Twin, is_broken};

/// What a hold allows, as all that act under it share it. Once it has ended it never holds again,
/// also not for the same actor in the same session: each hold has a right of its own.
#[derive(Clone)]
pub struct Right {
    term: Term,
    ended: Arc<AtomicBool>,
}

impl Right {
    pub(super) fn new(term: Term) -> Self {
        Self { term, ended: Arc::new(AtomicBool::new(false)) }
    }

    pub fn term(&self) -> &Term {
        &self.term
    }

    /// The hold was released, given up, or taken over by another of this node.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Whether it is this very one.
    pub fn is(&self, other: &Right) -> bool {
        Arc::ptr_eq(&self.ended, &other.ended)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// What was asked for under this hold may be acknowledged now.
    pub fn is_valid(&self) -> bool {
        !self.has_ended() && self.term.is_valid()
    }

    /// An event may start.
    pub fn may_start(&self) -> bool {
        !self.has_ended() && self.term.may_start()
    }

    /// A write may be sent. One sent at the horizon or after it could land so late that whoever waits
    /// for the last of them no longer does.
    pub fn may_send(&self) -> bool {
        self.is_valid() || is_broken(Twin::SendsPastHorizon)
    }
}

impl fmt::Debug for Right {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "right({:?}, ended: {})", self.term, self.has_ended())
    }
}

/// How a hold came to be, and so what its holder knows of the history.
#[derive(Debug)]
pub enum Begun {
    /// There was no record.
    New(FoundHistory),
    /// It was free.
    Free(FoundHistory),
    /// The record named this node, which had no hold.
    Own(FoundHistory),
    /// Its holder's session is void.
    Taken(FoundHistory),
    /// Nobody held it since this node released it: the head is what it was then.
    Unchanged(Base),
}

impl Begun {
    /// As metrics name it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Begun::New(_) => "new",
            Begun::Free(_) => "free",
            Begun::Own(_) => "own",
            Begun::Taken(_) => "taken",
            Begun::Unchanged(_) => "unchanged",
        }
    }
}

/// One actor, held by this node. It is not cloned: there is one of each generation.
#[derive(Debug)]
pub struct Hold {
    pub address: Address,
    pub generation: Generation,
    pub begun: Begun,
    pub(super) right: Right,
    pub(super) etag: ETag,
    /// Of the record, which a release keeps.
    pub(super) deploy_seq: u64,
}

impl Hold {
    pub fn right(&self) -> &Right {
        &self.right
    }

    /// The version of the record that this hold wrote.
    pub fn etag(&self) -> &ETag {
        &self.etag
    }
}
