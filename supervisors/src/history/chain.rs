//! Which head is current, and the way back from it to an object that needs nothing older.
//!
//! The head is the newest segment, by position, of one listing. From there each object names what it
//! applies on, by position and hash. At each position the hash decides what may be used: the segment
//! that has it, or a stand-in that names it. What is not on that way is ignored, however new it is.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::header::{Base, ObjectError};
use super::key::{HistoryPrefix, ObjectKey};
use super::object::Object;
use super::position::{Generation, Position};

/// What is under one actor's history, newest first, as far as it has been listed.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    objects: BTreeSet<ObjectKey>,
    ignored: u64,
    is_complete: bool,
}

impl Listing {
    /// Takes one listed key. What is no key of this history is ignored and counted.
    pub fn add(&mut self, prefix: &HistoryPrefix, key: &str) {
        match prefix.object(key) {
            Some(object) => _ = self.objects.insert(object),
            None => self.ignored += 1,
        }
    }

    /// There is nothing more to list.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    pub fn contains(&self, object: ObjectKey) -> bool {
        self.objects.contains(&object)
    }

    /// Newest first.
    pub fn objects(&self) -> impl Iterator<Item = ObjectKey> + '_ {
        self.objects.iter().copied()
    }

    /// The newest segment. Whatever else is newer is nobody's head: it may be a late upload whose
    /// segment is gone.
    pub fn head(&self) -> Option<Position> {
        self.segments().next()
    }

    fn segments(&self) -> impl Iterator<Item = Position> + '_ {
        self.objects.iter().filter_map(|object| match object {
            ObjectKey::Segment(at) => Some(*at),
            _ => None,
        })
    }

    /// Everything at that position has been listed.
    fn covers(&self, at: Position) -> bool {
        self.is_complete || self.objects.last().is_some_and(|oldest| oldest.at() < at)
    }

    /// What may give the state at a position, best first: a snapshot ends the way, and a merged
    /// object that reaches further back saves more.
    fn candidates(&self, at: Position) -> Vec<ObjectKey> {
        let first = ObjectKey::Merged { at, from: u64::MAX };
        let here = self.objects.range(first..=ObjectKey::Snapshot(at));
        let (segment, mut stand_ins): (Vec<_>, Vec<_>) =
            here.partition(|object| matches!(object, ObjectKey::Segment(_)));
        stand_ins.reverse();
        stand_ins.extend(segment);
        stand_ins
    }
}

/// The highest generation that any object has, on the chain or not. A first ownership record is
/// written above it, so that no late upload of an earlier holder is ever the newest.
pub fn highest_generation_in_bucket(listing: &Listing) -> Option<Generation> {
    listing.objects.first().map(|newest| newest.generation())
}

/// No object that is there continues the chain. Trying again will not help, unless a newer node
/// wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the history cannot be restored: nothing usable at {at} ({})", each_of(.tried))]
pub struct BrokenChain {
    pub at: Position,
    /// What was there, and why it was not used.
    pub tried: Vec<(ObjectKey, String)>,
    /// One of them is of a newer format: this node must be upgraded.
    pub is_newer: bool,
}

fn each_of(tried: &[(ObjectKey, String)]) -> String {
    if tried.is_empty() {
        return "no object is there".into();
    }
    let each: Vec<String> = tried.iter().map(|(key, why)| format!("{key}: {why}")).collect();
    each.join("; ")
}

/// What became of an object that the walk was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It is on the chain: its pages are the next older ones of the image.
    Apply,
    /// It is the head, and a stand-in may save the rest of the way: ask again what is wanted. Keep
    /// it meanwhile.
    Learned,
    /// It is not used.
    Refused,
}

#[derive(Debug, Clone, Copy)]
enum Expected {
    /// Whatever segment is there.
    Head(Position),
    /// The segment with this hash, or what stands for it.
    This(Base),
    Nothing,
}

/// The way back from a head. `wanted` says what to fetch, `offer` takes it, until nothing is wanted.
#[derive(Debug, Clone)]
pub struct Walk {
    expected: Expected,
    refused: BTreeMap<ObjectKey, String>,
    is_newer: bool,
    head: Option<Base>,
    reset: Option<Position>,
    shortcuts: Vec<Shortcut>,
}

/// A merged object on the way, and the segment it stood for.
#[derive(Debug, Clone, Copy)]
struct Shortcut {
    taken: ObjectKey,
    from: Base,
    reset: Option<Position>,
}

impl Walk {
    /// From the head, or from an earlier segment to see that state.
    pub fn from(head: Position) -> Self {
        Self {
            expected: Expected::Head(head),
            refused: BTreeMap::new(),
            is_newer: false,
            head: None,
            reset: None,
            shortcuts: Vec::new(),
        }
    }

    /// What may be next, best first; the first that `offer` takes is enough. None when the listing
    /// must be read on first; empty when the chain is whole.
    ///
    /// Where a merged object led past what has been collected, the walk goes back and takes its
    /// segments: their pages are the same, or superseded by those already taken.
    pub fn wanted(&mut self, listing: &Listing) -> Result<Option<Vec<ObjectKey>>, BrokenChain> {
        loop {
            let at = match self.expected {
                Expected::Nothing => return Ok(Some(Vec::new())),
                Expected::Head(at) | Expected::This(Base { at, .. }) => at,
            };
            if !listing.covers(at) {
                return Ok(None);
            }
            let wanted = self.candidates(listing, at);
            if !wanted.is_empty() {
                return Ok(Some(wanted));
            }
            let Some(Shortcut { taken, from, reset }) = self.shortcuts.pop() else {
                let here = self.refused.iter().filter(|(key, _)| key.at() == at);
                let tried = here.map(|(key, why)| (*key, why.clone())).collect();
                return Err(BrokenChain { at, tried, is_newer: self.is_newer });
            };
            self.refuse(taken, format!("it leads to {at}, where nothing is usable"));
            self.expected = Expected::This(from);
            self.reset = reset;
        }
    }

    fn candidates(&self, listing: &Listing, at: Position) -> Vec<ObjectKey> {
        let mut candidates = listing.candidates(at);
        let only_segment = matches!(self.expected, Expected::Head(_));
        candidates.retain(|key| {
            let fits = !only_segment || matches!(key, ObjectKey::Segment(_));
            fits && !self.refused.contains_key(key)
        });
        candidates
    }

    /// What will probably be wanted, newest first, so that several can be fetched at once. A guess:
    /// a chain may leave out generations that are listed.
    pub fn ahead(&self, listing: &Listing, most: usize) -> Vec<ObjectKey> {
        let mut next = match self.expected {
            Expected::Nothing => None,
            Expected::Head(at) | Expected::This(Base { at, .. }) => Some(at),
        };
        let mut keys = Vec::new();
        if let Expected::Head(at) = self.expected {
            keys.push(ObjectKey::Segment(at));
        }
        while let Some(at) = next.filter(|_| keys.len() < most) {
            let mut candidates = listing.candidates(at);
            candidates.retain(|key| !self.refused.contains_key(key));
            let Some(best) = candidates.first().copied() else { break };
            if !keys.contains(&best) {
                keys.push(best);
            }
            let first = match best {
                ObjectKey::Snapshot(_) => break,
                ObjectKey::Merged { from, .. } => Position::new(at.generation().get(), from),
                ObjectKey::Segment(at) => Some(at),
            };
            next = first
                .and_then(Position::previous)
                .or_else(|| listing.segments().find(|older| older.generation() < at.generation()));
        }
        keys
    }

    /// Takes what is under a key that was wanted.
    pub fn offer(&mut self, listing: &Listing, key: ObjectKey, object: &Object) -> Offered {
        let said = object.description.key();
        if said != key {
            return self.refuse(key, format!("it says that it is {said}"));
        }
        let expected = match (self.expected, key) {
            (Expected::Head(at), ObjectKey::Segment(is_at)) if is_at == at => {
                let head = Base { at, hash: object.hash };
                self.head = Some(head);
                self.expected = Expected::This(head);
                let is_best = self.candidates(listing, at).first() == Some(&key);
                if !is_best && !object.description.kind.is_whole() {
                    return Offered::Learned;
                }
                head
            }
            (Expected::This(base), _) if key.at() == base.at => base,
            _ => return Offered::Refused,
        };
        let of = object.description.stands_for.unwrap_or(object.hash);
        if of != expected.hash {
            return self.refuse(key, format!("of {of}, and the chain has {}", expected.hash));
        }
        if let ObjectKey::Merged { .. } = key {
            self.shortcuts.push(Shortcut { taken: key, from: expected, reset: self.reset });
        }
        self.reset = self.reset.or(object.description.reset());
        self.expected = match object.description.base {
            Some(base) if !object.description.kind.is_whole() => Expected::This(base),
            _ => Expected::Nothing,
        };
        Offered::Apply
    }

    /// There is no object under a key that was wanted, or none that can be read.
    pub fn unusable(&mut self, key: ObjectKey, why: Option<&ObjectError>) {
        self.is_newer |= matches!(why, Some(ObjectError::Newer { .. }));
        self.refuse(key, why.map_or_else(|| "it is gone".into(), ToString::to_string));
    }

    fn refuse(&mut self, key: ObjectKey, why: String) -> Offered {
        self.refused.insert(key, why);
        Offered::Refused
    }

    pub fn is_over(&self) -> bool {
        matches!(self.expected, Expected::Nothing)
    }

    /// The segment the walk began at, once it was offered.
    pub fn head(&self) -> Option<Base> {
        self.head
    }

    /// The newest reset on the chain, once the walk is over.
    pub fn reset(&self) -> Option<Position> {
        self.reset
    }

    /// Objects that stood where the chain looked and were not of it.
    pub fn refused(&self) -> impl Iterator<Item = (ObjectKey, &str)> {
        self.refused.iter().map(|(key, why)| (*key, why.as_str()))
    }
}
