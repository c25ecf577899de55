//! HTTP requests, to one actor or many.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;

use super::{Measured, Stage, sqlite};
use crate::client::closed::{self, Requests, Until};
use crate::client::exchange::request;
use crate::client::open::{self, Pace};
use crate::target::Kind;

const WARMING: Duration = Duration::from_secs(1);
const ACTORS: u64 = 1000;
const CONNECTIONS: usize = 64;
const PACE_PER_SECOND: u64 = 500;
/// Fewer than a node's places: what is measured is how they come, not how they go.
const CREATED_MAX: u64 = 7_500;

pub fn path(actor: &str, operation: &str) -> String {
    format!("/actor/bench/{actor}/{operation}")
}

/// All to one actor.
pub fn hot(stage: &Stage, method: &str, operation: &str, connections: usize) -> Result<Measured> {
    if let Some(measured) = sqlite::instead(stage, 1)? {
        return Ok(measured);
    }
    closed_loop(stage, connections, same(request(method, &path("a", operation))))
}

/// To a thousand actors in turns.
pub fn spread(stage: &Stage, method: &str, operation: &str) -> Result<Measured> {
    if let Some(measured) = sqlite::instead(stage, ACTORS)? {
        return Ok(measured);
    }
    let all: Vec<_> = (0..ACTORS)
        .map(|number| request(method, &path(&format!("a{number}"), operation)))
        .collect();
    let requests: Requests = Rc::new(move |number| all[(number % ACTORS) as usize].clone());
    // Everybody is there before anything is measured.
    let made = Until::requests(ACTORS);
    closed::run(stage.running.address, CONNECTIONS, made, Rc::clone(&requests))?;
    closed_loop(stage, CONNECTIONS, requests)
}

/// To nobody twice.
pub fn create(
    stage: &Stage,
    method: &'static str,
    operation: &'static str,
    connections: usize,
) -> Result<Measured> {
    if stage.kind == Kind::RawSqlite {
        return sqlite::create(stage);
    }
    let requests: Requests =
        Rc::new(move |number| request(method, &path(&format!("c{number}"), operation)));
    let until = Until { time: stage.time, requests: CREATED_MAX };
    stage.measure(|| closed::run(stage.running.address, connections, until, requests))
}

pub fn front(stage: &Stage, connections: usize) -> Result<Measured> {
    closed_loop(stage, connections, same(request("GET", "/")))
}

pub fn paced(stage: &Stage, method: &str, operation: &str) -> Result<Measured> {
    let bytes = request(method, &path("a", operation));
    let pace = |time| Pace { per_second: PACE_PER_SECOND, time };
    open::run(stage.running.address, &pace(WARMING), |_| bytes.clone())?;
    let seen = || open::run(stage.running.address, &pace(stage.time), |_| bytes.clone());
    Ok(Measured { rate: None, ..stage.measure(seen)? })
}

fn closed_loop(stage: &Stage, connections: usize, requests: Requests) -> Result<Measured> {
    let address = stage.running.address;
    closed::run(address, connections, Until::after(WARMING), Rc::clone(&requests))?;
    stage.measure(|| closed::run(address, connections, Until::after(stage.time), requests))
}

fn same(bytes: Vec<u8>) -> Requests {
    Rc::new(move |_| bytes.clone())
}
