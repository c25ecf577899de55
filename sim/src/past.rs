//! Everything that ever landed under one actor's history, and what the bucket holds of it at the moment.
//! Written without the code that restores: who checks by the rule he checks sees nothing.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wasmkeep_supervisors::history::{
    Base, Generation, Kind, Object, ObjectHash, ObjectKey, Position,
};

use crate::image::Image;

/// A segment that landed, and the database after it.
#[derive(Debug, Clone)]
pub struct Landed {
    pub hash: ObjectHash,
    base: Option<Base>,
    kind: Kind,
    pub image: Image,
    /// The newest reset at or below it.
    pub reset: Option<Position>,
}

#[derive(Default)]
pub struct Past {
    segments: BTreeMap<Position, Landed>,
    sessions: BTreeMap<Generation, [u8; 16]>,
    /// What is there now: with what each merged object applies on.
    present: BTreeMap<ObjectKey, Option<Base>>,
}

impl Past {
    pub fn landed(&mut self, key: ObjectKey, body: &[u8]) -> Result<(), String> {
        let object = Object::check_bytes(body).map_err(|error| format!("{key}: {error}"))?;
        if object.description.key() != key {
            return Err(format!("{key} says that it is {}", object.description.key()));
        }
        let pages = pages_of(&object, body).map_err(|error| format!("{key}: {error}"))?;
        match key {
            ObjectKey::Segment(at) => self.segment(at, &object, pages)?,
            ObjectKey::Merged { at, .. } | ObjectKey::Snapshot(at) => {
                self.stand_in(at, &object, &pages).map_err(|why| format!("{key} {why}"))?;
            }
        }
        self.present.insert(key, object.description.base);
        Ok(())
    }

    pub fn removed(&mut self, key: ObjectKey) {
        self.present.remove(&key);
    }

    fn segment(
        &mut self,
        at: Position,
        object: &Object,
        pages: BTreeMap<u32, Bytes>,
    ) -> Result<(), String> {
        let description = &object.description;
        let session = description.session;
        if *self.sessions.entry(at.generation()).or_insert(session) != session {
            return Err(format!("two sessions write generation {}", at.generation()));
        }
        let below = match description.base {
            Some(base) => Some(self.find(base).ok_or_else(|| {
                format!("segment {at} applies on {}, which never landed", base.at)
            })?),
            None => None,
        };
        let mut image = match below {
            Some(below) if !description.kind.is_whole() => below.image.clone(),
            _ => Image::default(),
        };
        let below = below.and_then(|below| below.reset);
        for (number, bytes) in pages {
            image.set(number, bytes);
        }
        image.cut(description.db_pages);
        image.tokens().map_err(|why| format!("the database after segment {at} is torn: {why}"))?;
        let reset = if description.kind == Kind::Reset { Some(at) } else { below };
        let (hash, base, kind) = (object.hash, description.base, description.kind);
        self.segments.insert(at, Landed { hash, base, kind, image, reset });
        Ok(())
    }

    fn stand_in(
        &self,
        at: Position,
        object: &Object,
        pages: &BTreeMap<u32, Bytes>,
    ) -> Result<(), String> {
        let segment = self.segments.get(&at).ok_or("stands for what never landed")?;
        if object.description.stands_for != Some(segment.hash) {
            return Err("stands for another segment".into());
        }
        let differs = pages.iter().any(|(page, bytes)| segment.image.page(*page) != Some(bytes));
        if differs || object.description.db_pages != segment.image.db_pages() {
            return Err("has other pages than the chain".into());
        }
        Ok(())
    }

    /// That very segment, if it ever landed.
    pub fn find(&self, base: Base) -> Option<&Landed> {
        self.segments.get(&base.at).filter(|segment| segment.hash == base.hash)
    }

    /// The newest segment that is there.
    pub fn head(&self) -> Option<(Position, &Landed)> {
        let newest = self.present.keys().find_map(|key| match key {
            ObjectKey::Segment(at) => Some(*at),
            _ => None,
        })?;
        Some((newest, self.segments.get(&newest)?))
    }

    /// The newest segment that ever landed.
    pub fn newest(&self) -> Option<Position> {
        self.segments.keys().next_back().copied()
    }

    /// The newest segment of a generation that ever landed.
    pub fn newest_of(&self, generation: Generation) -> Option<Position> {
        let first = Position::first_of(generation);
        let of = self.segments.range(first..).map(|(at, _)| *at);
        of.take_while(|at| at.generation() == generation).last()
    }

    /// Whether something restores the head: any way down that what is there allows.
    pub fn is_restorable(&self) -> bool {
        let Some((head, _)) = self.head() else { return true };
        let mut ways = vec![head];
        let mut seen = BTreeSet::new();
        while let Some(at) = ways.pop() {
            if !seen.insert(at) {
                continue;
            }
            if self.present.contains_key(&ObjectKey::Snapshot(at)) {
                return true;
            }
            if self.present.contains_key(&ObjectKey::Segment(at)) {
                match self.segments.get(&at) {
                    Some(Landed { kind, .. }) if kind.is_whole() => return true,
                    Some(Landed { base: Some(base), .. }) => ways.push(base.at),
                    _ => return true,
                }
            }
            for (key, base) in &self.present {
                match (key, base) {
                    (ObjectKey::Merged { at: of, .. }, base) if *of == at => match base {
                        Some(base) => ways.push(base.at),
                        None => return true,
                    },
                    _ => {}
                }
            }
        }
        false
    }
}

fn pages_of(object: &Object, body: &[u8]) -> Result<BTreeMap<u32, Bytes>, String> {
    let mut pages = BTreeMap::new();
    let take = |number: u32, bytes: &[u8]| {
        pages.insert(number, Bytes::copy_from_slice(bytes));
        Ok::<_, std::convert::Infallible>(())
    };
    object.pages_of(body, take).map_err(|error| error.to_string())?;
    Ok(pages)
}
