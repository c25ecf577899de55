//! Does one step so many times, for a tool that counts instructions: `cargo xtask bench count`.
//!
//! What runs as WebAssembly is not among the steps: the pool of instances reserves more addresses than
//! such tools have.

use std::sync::Arc;

use wasmkeep_micro::{Node, READ, TABLE, WRITE, address, databases, far, open};
use wasmkeep_supervisors::ports::{Database, SqlValue};
use wasmkeep_supervisors::testing::ScriptedGuest;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let step = arguments.next().unwrap_or_default();
    let times: u64 = arguments.next().and_then(|times| times.parse().ok()).unwrap_or(1);
    match step.as_str() {
        "event" => events(times),
        "read" => statements(times, |database| {
            database.query(READ, vec![SqlValue::Integer(7)]).expect("a row");
        }),
        "write" => statements(times, |database| {
            database.exec(WRITE, vec![SqlValue::Integer(7)]).expect("a row");
            database.query(READ, vec![SqlValue::Integer(7)]).expect("a row");
        }),
        "durable" => statements(times, |database| {
            database.exec_before_sync(WRITE, vec![SqlValue::Integer(7)]).expect("a row");
            database.sync().expect("a disk");
            database.query(READ, vec![SqlValue::Integer(7)]).expect("a row");
        }),
        other => panic!("there is no step `{other}`: event, read, write, durable"),
    }
}

/// Queue, process and answer, without a guest's code.
fn events(times: u64) {
    let node = Node::of_guest(Arc::new(ScriptedGuest::new("v1")));
    let actor = address("a");
    node.runtime.block_on(async {
        for _ in 0..times {
            node.ask(&actor, "GET", "/answer").await;
        }
    });
}

/// An event's statements, through the sandbox.
fn statements(times: u64, run: impl Fn(&mut dyn Database)) {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, databases) = databases(&folder.path().join("data"));
    let mut database = open(&databases, "a");
    database.exec(TABLE, vec![]).expect("a table");
    database.exec(WRITE, vec![SqlValue::Integer(7)]).expect("a row");
    for _ in 0..times {
        database.begin_event(far());
        run(&mut *database);
        database.end_event().expect("an end");
    }
}
