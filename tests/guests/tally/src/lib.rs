//! A counter for each name. The server carries it: `wasmkeep demo` serves it as class `counter`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wasmkeep_sdk::{
    Actor, Error, Method, Request, Response, Result, actors, alarms, json, storage,
};

const HISTORY_ROWS_DEFAULT: u32 = 20;
const HISTORY_ROWS_MAX: u32 = 1000;

/// The memory of one instance: it starts anew each time the actor wakes.
#[derive(Default)]
struct Counter {
    visits_since_waking: u64,
}

#[derive(Deserialize, Serialize)]
struct Change {
    at: String,
    amount: i64,
    total: i64,
}

impl Actor for Counter {
    fn init(&mut self) -> Result<()> {
        storage::exec(
            "CREATE TABLE IF NOT EXISTS changes (
                id INTEGER PRIMARY KEY,
                at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
                amount INTEGER NOT NULL,
                total INTEGER NOT NULL
            ) STRICT",
            (),
        )?;
        Ok(())
    }

    fn request(&mut self, request: Request) -> Result<Response> {
        match request.route() {
            (Method::Get, []) => self.visit(),
            (Method::Post, ["add"]) => add(&request),
            (Method::Get, ["history"]) => history(&request),
            (Method::Post, ["forget"]) => forget(&request),
            _ => Err(Error::not_found("try GET /, POST /add?n=5 or GET /history?limit=20")),
        }
    }

    fn alarm(&mut self) -> Result<()> {
        storage::delete_self();
        Ok(())
    }
}

impl Counter {
    fn visit(&mut self) -> Result<Response> {
        let change = record(1)?;
        self.visits_since_waking += 1;
        let actors::Address { class, name, .. } = actors::self_address();
        Ok(Response::text(format!(
            "Welcome to {class}/{name}: visit {}\nSince I woke: {}\n",
            change.total, self.visits_since_waking
        )))
    }
}

fn add(request: &Request) -> Result<Response> {
    let n: i64 = request.parse_query("n")?.unwrap_or(1);
    let Change { amount, total, .. } = record(n)?;
    Ok(Response::json(&json!({ "added": amount, "total": total })))
}

fn history(request: &Request) -> Result<Response> {
    let limit = request.parse_query("limit")?.unwrap_or(HISTORY_ROWS_DEFAULT);
    let changes: Vec<Change> = storage::query_as(
        "SELECT at, amount, total FROM changes ORDER BY id DESC LIMIT ?",
        (limit.min(HISTORY_ROWS_MAX),),
    )?;
    Ok(Response::json(&changes))
}

/// Adds a row that knows the total so far: nothing has to add up the table.
fn record(amount: i64) -> Result<Change> {
    let change = storage::query_one(
        "INSERT INTO changes (amount, total)
         VALUES (?1, ?1 + coalesce((SELECT total FROM changes ORDER BY id DESC LIMIT 1), 0))
         RETURNING at, amount, total",
        (amount,),
    )?;
    Ok(change)
}

fn forget(request: &Request) -> Result<Response> {
    let seconds: u64 = request.parse_query("in")?.unwrap_or(3600);
    alarms::set_after(Duration::from_secs(seconds))?;
    Ok(Response::empty())
}

wasmkeep_sdk::actor!(Counter);
