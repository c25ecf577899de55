//! Real nodes that share a real bucket: a store in a process of its own.

mod adoption;
mod chaos;
mod clocks;
mod cost;
mod deletes;
mod outages;
mod ownership;
mod relays;
mod settings;
mod takeover;

use crate::support::{Actor, TAKEOVER_PATIENCE, eventually_within};

/// Waits until the actor answers, wherever it is.
#[track_caller]
fn serves(actor: &Actor) {
    eventually_within(TAKEOVER_PATIENCE, "the actor answers", || actor.get("/hello").status == 200);
}
