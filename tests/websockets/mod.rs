//! WebSockets: opening, messages, sleep, and how they end.

mod closing;
mod frames;
mod opening;
mod sleep;

use serde_json::Value as Json;

use crate::support::Actor;

/// An actor's open sockets, the oldest first: id and attachment.
fn connections(actor: &Actor) -> Vec<(u64, String)> {
    let listed = actor.get("/sockets").json();
    let listed = listed.as_array().expect("a list").iter().map(|socket| {
        let id = socket[0].as_u64().expect("an id");
        (id, socket[1].as_str().unwrap_or("none").to_owned())
    });
    listed.collect()
}

fn names(actor: &Actor) -> Vec<String> {
    connections(actor).into_iter().map(|(_, name)| name).collect()
}

#[track_caller]
fn post(actor: &Actor, path: &str, body: &str) -> Json {
    actor.post(path, body).json()
}
