//! Formats, rules, and whole histories with everything that can happen to uploads. The model of
//! holders is in `model`, random bytes in `fuzz`, files of every format ever written in `golden`.

use std::collections::BTreeMap;

use super::*;
use crate::address::{ActorName, Address, App, Class, Tenant};

mod chains;
mod formats;
mod fuzz;
mod golden;
mod keys;
mod model;
mod retention;
mod sidecar;

/// An actor's objects by their keys, as a bucket has them.
type Objects = BTreeMap<String, Vec<u8>>;

/// A database's pages: number to the byte that fills it.
type Image = BTreeMap<u32, u8>;

fn prefix() -> HistoryPrefix {
    let address = Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("cart").expect("a legal class"),
        name: ActorName::parse("u-1").expect("a legal name"),
    };
    HistoryPrefix::new(&address, &App::default_app())
}

fn at(generation: u64, seq: u64) -> Position {
    Position::new(generation, seq).expect("numbers from 1")
}

fn this(at: Position, hash: ObjectHash) -> Base {
    Base { at, hash }
}

fn generation(number: u64) -> Generation {
    Generation::new(number).expect("a number from 1")
}

/// An object with pages that are filled with one byte each.
fn object(description: &Description, pages: &Image) -> (Vec<u8>, ObjectHash) {
    let mut bytes = Vec::new();
    let fill = |page: u32, to: &mut [u8]| {
        to.fill(pages[&page]);
        Ok::<_, std::convert::Infallible>(())
    };
    let hash = encode(description, pages.keys().copied(), fill, &mut bytes).expect("it encodes");
    (bytes, hash)
}

fn listing(objects: &Objects) -> Listing {
    let prefix = prefix();
    let mut listing = Listing::default();
    objects.keys().for_each(|key| listing.add(&prefix, key));
    listing.complete();
    listing
}

/// What a restore gave.
#[derive(Debug, Clone, PartialEq)]
struct Restored {
    head: Base,
    reset: Option<Position>,
    image: Image,
    /// The objects it was put together from, newest first.
    used: Vec<ObjectKey>,
}

/// Restores the state after a segment, one object after the other.
fn restore(objects: &Objects, from: Position) -> Result<Restored, String> {
    let (prefix, listing) = (prefix(), listing(objects));
    let mut walk = Walk::from(from);
    let mut assembly = Assembly::default();
    let (mut image, mut used) = (Image::new(), Vec::new());
    loop {
        let wanted = walk.wanted(&listing).map_err(|broken| broken.to_string())?;
        let wanted = wanted.expect("the listing is complete");
        let Some(key) = wanted.first().copied() else { break };
        let bytes = objects.get(&prefix.key(key));
        let found = bytes.map(|bytes| (bytes, Object::check_bytes(bytes)));
        let (bytes, object) = match found {
            Some((bytes, Ok(object))) => (bytes, object),
            Some((_, Err(error))) => {
                walk.unusable(key, Some(&error));
                continue;
            }
            None => {
                walk.unusable(key, None);
                continue;
            }
        };
        if walk.offer(&listing, key, &object) == Offered::Apply {
            used.push(key);
            let body = object.body();
            let body = &bytes[body.start as usize..body.end as usize];
            let take = |page, bytes: &[u8]| {
                let twice = image.insert(page, bytes[0]).is_some();
                if twice { Err(format!("page {page} twice")) } else { Ok(()) }
            };
            assembly.apply(&object, body, take).map_err(|error| error.to_string())?;
        }
    }
    assembly.finish().map_err(|incomplete| incomplete.to_string())?;
    let head = walk.head().expect("the walk is over");
    Ok(Restored { head, reset: walk.reset(), image, used })
}
