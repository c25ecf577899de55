//! A node dies, or is paused: what was acknowledged durably is there on another.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::support::{Actor, Cluster, Node, SetAtTheEnd, TAKEOVER_PATIENCE, eventually_within};

const ACTORS: usize = 4;
/// For each actor: while one event runs others wait, and their durable writes share uploads.
const WRITERS: usize = 3;

#[test]
fn what_a_killed_node_acknowledged_durably_is_on_another() {
    let cluster = Cluster::new();
    let mut first = cluster.node("n1").start();
    let second = cluster.node("n2").start();
    let acknowledged = load(&first, Duration::from_secs(3), || {});
    first.kill();
    let died = Instant::now();
    for (actor, rows) in acknowledged.iter().enumerate() {
        assert!(!rows.is_empty(), "the load acknowledged nothing for {actor}");
        let held = second.actor(&name_of(actor));
        eventually_within(TAKEOVER_PATIENCE, "the actor moves", || {
            let answer = held.get("/hello");
            assert!(matches!(answer.status, 200 | 503), "{answer:?}");
            answer.status == 200
        });
        let there = rows_of(&held);
        for row in rows {
            assert!(there.contains(row), "{row} was acknowledged and is gone from {actor}");
        }
        assert_whole_events(&held);
    }
    println!("actors were on the second node {:?} after the first died", died.elapsed());
}

#[test]
fn a_paused_node_acknowledges_nothing_once_its_actors_have_moved() {
    let cluster = Cluster::new();
    let first = cluster.node("n1").errors_are_fine().start();
    let second = cluster.node("n2").start();
    let paused_for = Duration::from_secs(60);
    let moved: Mutex<Vec<Vec<i64>>> = Mutex::default();
    let acknowledged = load(&first, Duration::from_secs(2), || {
        first.pause();
        let since = Instant::now();
        for actor in 0..ACTORS {
            let held = second.actor(&name_of(actor));
            eventually_within(TAKEOVER_PATIENCE, "the actor moves", || {
                held.get("/hello").status == 200
            });
            moved.lock().expect("no panic").push(rows_of(&held));
        }
        sleep(paused_for.saturating_sub(since.elapsed()));
        first.go_on();
    });
    for (actor, rows) in acknowledged.iter().enumerate() {
        let there = rows_of(&second.actor(&name_of(actor)));
        for row in rows {
            assert!(there.contains(row), "{row} was acknowledged and is gone from {actor}");
        }
        for row in &moved.lock().expect("no panic")[actor] {
            assert!(there.contains(row), "{row} was on the second node and is gone");
        }
    }
    // It is a node of the cluster again, and asks the second for what moved.
    eventually_within(TAKEOVER_PATIENCE, "the first node serves again", || {
        first.actor(&name_of(0)).get("/hello").status == 200
    });
    assert_eq!(rows_of(&first.actor(&name_of(0))), rows_of(&second.actor(&name_of(0))));
}

#[test]
fn a_node_that_crashed_has_its_actors_back_at_once() {
    let cluster = Cluster::new();
    let mut node = cluster.node("n1").start();
    let actor = node.actor("probe/one");
    actor.exec("CREATE TABLE t (x)");
    assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (1)"), json!({ "changed": 1 }));
    node.kill();
    let began = Instant::now();
    node.start_again();
    assert_eq!(node.actor("probe/one").query("SELECT x FROM t"), json!([[1]]));
    println!("back after {:?}", began.elapsed());
}

#[test]
fn a_get_waits_until_a_dead_nodes_actor_has_moved() {
    let cluster = Cluster::new();
    let first = cluster.node("n1").start();
    let mut second = cluster.node("n2").start();
    let there = second.actor("probe/there");
    there.exec("CREATE TABLE t (x)");
    assert_eq!(there.one("exec-durable", "INSERT INTO t VALUES (1)"), json!({ "changed": 1 }));
    second.kill();
    let moved = first.actor("probe/there");
    assert_eq!(moved.get("/hello").status, 200, "it was not held");
    assert_eq!(moved.query("SELECT x FROM t"), json!([[1]]));
}

/// Writes to each actor, from several clients, plain and durable rows in turn, until `until` has
/// passed and `then` has returned; the durable rows that were acknowledged.
fn load(node: &Node, until: Duration, then: impl FnOnce()) -> Vec<Vec<i64>> {
    for actor in 0..ACTORS {
        node.actor(&name_of(actor)).exec("CREATE TABLE t (x, event)");
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let writers: Vec<Vec<_>> = (0..ACTORS)
            .map(|actor| {
                let writer = |writer| {
                    let held = node.actor(&name_of(actor));
                    scope.spawn(move || write(&held, writer, over))
                };
                (0..WRITERS).map(writer).collect()
            })
            .collect();
        let ended = SetAtTheEnd(over);
        sleep(until);
        then();
        drop(ended);
        let of_actor = |writers: Vec<ScopedJoinHandle<'_, Vec<i64>>>| {
            writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
        };
        writers.into_iter().map(of_actor).collect()
    })
}

fn write(actor: &Actor, writer: usize, over: &AtomicBool) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    for turn in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let row = turn * WRITERS as i64 + writer as i64;
        // Two rows of one event: a crash leaves both or neither.
        let plain = format!("INSERT INTO t VALUES ({row}, {row}), (-{row}, {row})");
        let op = if turn % 2 == 0 { "exec-durable" } else { "exec" };
        let body = json!({ "steps": [{ "op": op, "sql": plain }] }).to_string();
        let Ok(answer) = actor.try_send("POST", "/sql", &[], body.as_bytes()) else { continue };
        let done = serde_json::from_slice::<Json>(&answer.body).unwrap_or_default();
        if answer.status == 200 && op == "exec-durable" && done[0]["changed"] == 2 {
            acknowledged.push(row);
        }
        if answer.status != 200 {
            sleep(Duration::from_millis(20));
        }
    }
    acknowledged
}

fn name_of(actor: usize) -> String {
    format!("probe/held-{actor}")
}

fn rows_of(actor: &Actor) -> Vec<i64> {
    let rows = actor.query("SELECT x FROM t WHERE x >= 0 ORDER BY x");
    rows.as_array().expect("rows").iter().filter_map(|row| row[0].as_i64()).collect()
}

#[track_caller]
fn assert_whole_events(actor: &Actor) {
    let torn =
        actor.query("SELECT event FROM t WHERE event > 0 GROUP BY event HAVING count(*) <> 2");
    assert_eq!(torn, json!([]), "half an event is there");
}
