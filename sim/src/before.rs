//! What the bucket holds before a run begins: some actors have a history, of which no ownership record
//! tells, as after a restore of the records from an older backup.

use std::convert::Infallible;

use bytes::Bytes;
use wasmkeep_supervisors::address::App;
use wasmkeep_supervisors::history::{Base, HistoryPrefix, Position, delta, encode};
use wasmkeep_supervisors::ports::Cond;

use crate::image::Image;
use crate::shared::Shared;

/// So many generations it may have had.
const GENERATIONS_MAX: f64 = 5.0;
/// With so many segments a snapshot is due soon.
const SEGMENTS_MAX: f64 = 20.0;

pub fn fill(shared: &Shared) {
    for actor in 0..shared.actors.len() {
        if shared.dice.chance(0.5) {
            let generation = shared.dice.between(1.0, GENERATIONS_MAX) as u64;
            let segments = shared.dice.between(1.0, SEGMENTS_MAX) as u64;
            history(shared, actor, (generation, segments));
        }
    }
}

/// So many segments of one generation, each of one write that was acknowledged.
pub fn history(shared: &Shared, actor: usize, (generation, segments): (u64, u64)) {
    let prefix = HistoryPrefix::new(&shared.actors[actor], &App::default_app());
    let mut image = Image::default();
    let mut base: Option<Base> = None;
    for seq in 1..=segments {
        let token = shared.checker.new_token();
        let changed = image.add(token);
        let at = Position::new(generation, seq).expect("numbers from 1");
        let description = delta(at, base, image.db_pages(), changed.len() as u32);
        let mut body = Vec::new();
        let read = |page: u32, to: &mut [u8]| {
            to.copy_from_slice(image.page(page).expect("it was changed"));
            Ok::<_, Infallible>(())
        };
        let hash = encode(&description, changed.iter().copied(), read, &mut body);
        base = Some(Base { at, hash: hash.expect("a segment of pages that are there") });
        let key = prefix.key(description.key());
        let written = shared.store.write(&key, Bytes::from(body), &Cond::Absent);
        written.expect("the bucket was empty");
        shared.checker.begins_with(actor, token, at);
    }
}
