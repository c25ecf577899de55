//! Actors begin, sleep, wake, and outlive their server.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{DONE, Node, Raw, SetAtTheEnd, eventually, in_parallel};

fn resident(node: &Node) -> f64 {
    node.metric("wasmkeep_resident_actors", &[])
}

#[test]
fn on_init_runs_once_and_not_again_after_sleep_or_restart() {
    let mut node = Node::probe().flag("--idle-timeout-secs", "1").start();
    assert_eq!(node.actor("probe/a").get("/init").text(), "1");
    assert_eq!(node.actor("probe/a").get("/init").text(), "1");
    eventually("it sleeps", || resident(&node) == 0.0);
    assert_eq!(node.actor("probe/a").get("/init").text(), "1");
    node.actor("probe/a").get("/trap").refused(500, "trapped", "ran");
    assert_eq!(node.actor("probe/a").get("/init").text(), "1", "a trap begins no new actor");
    node.restart();
    assert_eq!(node.actor("probe/a").get("/init").text(), "1");
}

#[test]
fn an_actor_that_stores_nothing_has_no_database() {
    let mut node = Node::probe().flag("--idle-timeout-secs", "1").start();
    assert_eq!(node.actor("probe/nostore-1").get("/memory").text(), "1");
    eventually("it sleeps", || resident(&node) == 0.0);
    assert_eq!(node.actor("probe/nostore-1").get("/memory").text(), "1");
    node.restart();
    assert_eq!(node.actor("probe/nostore-1").get("/memory").text(), "1");
    assert!(node.databases().is_empty());
    node.actor("probe/stores").get("/hello").text();
    assert_eq!(node.databases().len(), 1);
}

#[test]
fn no_handler_runs_before_on_init_succeeded() {
    let node = Node::probe().start();
    for name in ["badinit-1", "trapinit-1"] {
        let actor = node.actor(&format!("probe/{name}"));
        for _ in 0..3 {
            actor.get("/log?text=the-handler-ran").refused(500, "init-failed", "ran");
        }
    }
    assert!(!node.log().contains("the-handler-ran"), "a handler ran");
}

#[test]
fn a_failed_on_init_is_tried_again_with_the_next_event() {
    let node = Node::probe().start();
    let actor = node.actor("probe/flakyinit-1");
    let first = actor.get("/hello").refused(500, "init-failed", "ran").body.clone();
    assert!(String::from_utf8_lossy(&first).contains("told to fail"), "the actor's words are lost");
    assert_eq!(actor.get("/hello").text(), "hello");
    assert_eq!(actor.get("/init").text(), "2", "what the first on-init had committed stays");
}

#[test]
fn an_idle_actor_sleeps_and_wakes_with_its_data() {
    let node = Node::probe().flag("--idle-timeout-secs", "1").start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    actor.exec("INSERT INTO t VALUES ('kept')");
    assert_eq!(resident(&node), 1.0);
    eventually("it sleeps", || resident(&node) == 0.0);
    assert_eq!(node.metric("wasmkeep_hibernations_total", &[r#"cause="idle""#]), 1.0);
    assert_eq!(actor.query("SELECT x FROM t"), json!([["kept"]]));
    assert_eq!(node.metric("wasmkeep_wakes_total", &[]), 2.0);
}

#[test]
fn an_actor_with_events_does_not_sleep() {
    let node = Node::probe().flag("--idle-timeout-secs", "1").start();
    let actor = node.actor("probe/a");
    let began = Instant::now();
    let mut asked = 0;
    while began.elapsed() < Duration::from_secs(3) {
        asked += 1;
        assert_eq!(actor.get("/memory").text(), asked.to_string());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(actor.get("/wait?ms=1500").text(), "1500");
    assert_eq!(actor.get("/memory").text(), (asked + 1).to_string());
}

#[test]
fn a_restart_finds_all_data() {
    let mut node = Node::probe().class("notes", "wasmkeep-example-notes.wasm").start();
    in_parallel(8, |worker| {
        for i in 0..10 {
            let actor = node.actor(&format!("probe/w{worker}-{i}"));
            actor.exec("CREATE TABLE t (x)");
            actor.exec(&format!("INSERT INTO t VALUES ({i})"));
        }
    });
    let note = r#"{"title": "Shopping", "text": "milk and bread"}"#;
    assert_eq!(node.actor("notes/alice").post("/notes", note).status, 201);
    node.restart();
    for worker in 0..8 {
        for i in 0..10 {
            let actor = node.actor(&format!("probe/w{worker}-{i}"));
            assert_eq!(actor.query("SELECT x FROM t"), json!([[i]]));
        }
    }
    let found = node.actor("notes/alice").get("/search?q=brea").json();
    assert_eq!(found[0]["title"], "Shopping");
}

#[test]
fn no_answered_write_is_lost_when_the_server_is_killed() {
    const ACTORS: usize = 200;
    let mut node = Node::probe().flag("--max-instances", "100").start();
    for actor in 0..ACTORS {
        node.actor(&format!("probe/a{actor}")).exec("CREATE TABLE t (x INTEGER PRIMARY KEY)");
    }
    let answered = Mutex::new(HashSet::new());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (node, answered, over) = (&node, &answered, &over);
            scope.spawn(move || {
                for row in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                    let actor = (worker + row * 8) % ACTORS;
                    let sql = format!("INSERT INTO t VALUES ({row})");
                    let script = json!({ "steps": [{ "op": "exec", "sql": sql }] }).to_string();
                    let answer = node.actor(&format!("probe/a{actor}")).try_send(
                        "POST",
                        "/sql",
                        &[],
                        script.as_bytes(),
                    );
                    if answer.is_ok_and(|answer| answer.body == br#"[{"changed":1}]"#) {
                        answered.lock().expect("no panic").insert((actor, row));
                    }
                }
            });
        }
        let _end_of_writing = SetAtTheEnd(&over);
        eventually("many writes are answered", || answered.lock().expect("no panic").len() > 800);
        // SAFETY: the node was not waited for, so this is its process.
        unsafe { libc::kill(node.pid() as i32, libc::SIGKILL) };
    });
    node.kill();
    node.start_again();
    let mut stored = HashSet::new();
    for actor in 0..ACTORS {
        let rows = node.actor(&format!("probe/a{actor}")).query("SELECT x FROM t");
        let rows: Vec<[usize; 1]> = serde_json::from_value(rows).expect("rows of one number");
        stored.extend(rows.into_iter().map(|[row]| (actor, row)));
    }
    let answered = answered.into_inner().expect("no panic");
    let lost: Vec<_> = answered.difference(&stored).collect();
    assert!(lost.is_empty(), "{} of {} lost: {lost:?}", lost.len(), answered.len());
}

/// `WASMKEEP_TEST_ACTORS` says how many, if not 10,000 in 500 places.
#[test]
fn many_actors_take_turns_in_few_places() {
    const WORKERS: usize = 8;
    let actors = std::env::var("WASMKEEP_TEST_ACTORS").ok();
    let actors: usize = actors.map_or(10_000, |text| text.parse().expect("a number of actors"));
    let places = actors / 20;
    let setup = Node::probe().flag("--max-instances", places.to_string());
    let node = setup.descriptors_max(4096).start();
    // Where a machine is busy with other tests, a place may take longer than 250 ms to come free.
    let refused = AtomicUsize::new(0);
    let visit = |client: &mut Raw, i: usize| loop {
        let script = json!({ "steps": [
            { "op": "exec", "sql": "CREATE TABLE IF NOT EXISTS t (x)" },
            { "op": "exec", "sql": "INSERT INTO t VALUES (?)", "params": [i] },
            { "op": "query", "sql": "SELECT count(*), min(x), max(x) FROM t" },
        ] });
        let target = format!("/actor/probe/a{i}/sql");
        let answer = client.post(&target, script.to_string().as_bytes());
        if answer.status != 503 {
            break answer.json()[2]["rows"].clone();
        }
        answer.refused(503, "no-capacity", "not-run");
        refused.fetch_add(1, Ordering::Relaxed);
    };
    for round in 1..=2 {
        in_parallel(WORKERS, |worker| {
            let mut client = node.raw();
            for i in (worker..actors).step_by(WORKERS) {
                assert_eq!(visit(&mut client, i), json!([[round, i, i]]), "a{i}");
            }
        });
        assert!(resident(&node) <= places as f64, "more are in memory than may be");
    }
    let refused = refused.into_inner();
    assert!(refused <= actors / 200, "{refused} visits found no place");
    let evicted = node.metric("wasmkeep_hibernations_total", &[r#"cause="evicted""#]);
    assert!(evicted >= (2 * actors - 2 * places) as f64, "{evicted} were evicted");
}

#[test]
fn with_every_place_busy_an_event_is_refused_after_a_quarter_of_a_second() {
    let node = Node::probe().flag("--max-instances", "1").start();
    let mut busy = node.busy("probe/busy", 1500);
    let began = Instant::now();
    node.actor("probe/other").get("/hello").refused(503, "no-capacity", "not-run");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(240), "refused after {took:?}");
    assert!(took < Duration::from_millis(900), "refused after {took:?}");
    assert_eq!(busy.chunks().expect("a regular end"), DONE);
    assert_eq!(node.actor("probe/other").get("/hello").text(), "hello");
}

#[test]
fn an_idle_actor_makes_room_for_another() {
    let node = Node::probe().flag("--max-instances", "1").start();
    for round in 1..=20 {
        for name in ["a", "b"] {
            let actor = node.actor(&format!("probe/{name}"));
            actor.exec("CREATE TABLE IF NOT EXISTS t (x)");
            actor.exec("INSERT INTO t VALUES (1)");
            assert_eq!(actor.query("SELECT count(*) FROM t"), json!([[round]]));
        }
    }
    let evicted = node.metric("wasmkeep_hibernations_total", &[r#"cause="evicted""#]);
    assert_eq!(evicted, 39.0, "each of the 40 turns but the first evicts the other");
}

#[test]
fn an_event_waits_for_a_place_that_comes_free() {
    let node = Node::probe().flag("--max-instances", "1").start();
    let mut busy = node.busy("probe/busy", 100);
    assert_eq!(node.actor("probe/other").get("/hello").text(), "hello");
    assert_eq!(busy.chunks().expect("a regular end"), DONE);
}
