//! Actors that delete themselves: what is left, and when.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::support::{HOUR_MS, Node, eventually, now_ms};

const KINDS: [&str; 2] = ["delete-self", "delete-self-durable"];

/// Every file of an actor that is left.
fn files(node: &Node) -> Vec<PathBuf> {
    let mut folders = vec![node.data_dir().join("state")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("read a folder of the node") {
            let path = entry.expect("read a folder of the node").path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

fn error(case: &str, answer: &Json) -> bool {
    answer["error"]["case"] == case
}

#[test]
fn a_delete_takes_files_alarm_and_memory_and_the_next_event_begins_anew() {
    for kind in KINDS {
        let mut node = Node::probe().start();
        for name in ["a", "nostore-a"] {
            let actor = node.actor(&format!("probe/{name}"));
            if name == "a" {
                actor.exec("CREATE TABLE t (x)");
                actor.set_alarm_in(HOUR_MS);
                assert!(!files(&node).is_empty());
            }
            assert_eq!(actor.get("/memory").text(), "1");
            assert_eq!(actor.steps(json!([{ "op": kind }])), [json!({ "deleted": true })]);
            assert_eq!(actor.get("/memory").text(), "1", "{kind}: the instance stayed");
            if name == "a" {
                assert_eq!(actor.get("/init").text(), "1", "{kind}");
                assert_eq!(actor.pending(), None);
                assert!(error("invalid", &actor.one("query", "SELECT x FROM t")));
            }
            actor.steps(json!([{ "op": kind }]));
        }
        eventually("nothing is left", || files(&node).is_empty());
        node.stop_cleanly();
        assert_eq!(node.indexed_alarms(), []);
        assert_eq!(node.indexed_fileless(), [] as [&str; 0], "{kind}");
    }
}

#[test]
fn a_durable_delete_is_on_disk_when_it_answers() {
    for name in ["a", "nostore-a"] {
        let mut node = Node::probe().start();
        let actor = node.actor(&format!("probe/{name}"));
        if name == "a" {
            actor.set_alarm_in(HOUR_MS);
        }
        actor.get("/hello").text();
        actor.steps(json!([{ "op": "delete-self-durable" }]));
        node.kill();
        assert_eq!(files(&node), [] as [PathBuf; 0], "{name}");
        assert_eq!(node.indexed_fileless(), [] as [&str; 0], "{name}");
        node.start_again();
        assert_eq!(node.actor(&format!("probe/{name}")).get("/memory").text(), "1");
        let fired = node.metric("wasmkeep_events_total", &[r#"kind="alarm""#, "answered"]);
        assert_eq!(fired, 0.0);
    }
}

#[test]
fn a_durable_delete_takes_effect_before_the_event_ends() {
    let node = Node::probe().start();
    let mut client = node.raw();
    node.actor("probe/a").exec("CREATE TABLE t (x)");
    let script = json!({ "steps": [
        { "op": "delete-self-durable" },
        { "op": "log", "text": "it is deleted" },
        { "op": "wait", "ms": 1000 },
    ] });
    let script = script.to_string();
    let length = script.len();
    client.send(format!(
        "POST /actor/probe/a/sql HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n{script}"
    ));
    node.logged("it is deleted");
    assert_eq!(files(&node), [] as [PathBuf; 0]);
    assert!(!client.has_bytes_within(std::time::Duration::from_millis(1)), "it is over already");
    assert_eq!(client.answer().expect("an answer").status, 200);
}

#[test]
fn after_a_durable_delete_the_event_has_no_storage_and_no_alarm() {
    let mut node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    actor.set_alarm_in(HOUR_MS);
    let said = actor.steps(json!([
        { "op": "delete-self-durable" },
        { "op": "exec", "sql": "CREATE TABLE u (x)" },
        { "op": "query", "sql": "SELECT 1" },
        { "op": "exec-durable", "sql": "CREATE TABLE u (x)" },
        { "op": "exec", "sql": "BEGIN" },
        { "op": "get-alarm" },
        { "op": "set-alarm", "in": 0 },
        { "op": "clear-alarm" },
        { "op": "delete-self" },
        { "op": "delete-self-durable" },
        { "op": "exec", "sql": "CREATE TABLE u (x)" },
        { "op": "set-alarm", "in": 0 },
    ]));
    let deleted = json!({ "deleted": true });
    let none = json!({ "at": null, "attempt": 0 });
    for at in [1, 2, 3, 4, 10] {
        assert!(error("not-allowed", &said[at]), "step {at}: {}", said[at]);
    }
    for at in [0, 8, 9] {
        assert_eq!(said[at], deleted, "step {at}");
    }
    for at in [5, 6, 7, 11] {
        assert_eq!(said[at], none, "step {at}");
    }
    assert_eq!(files(&node), [] as [PathBuf; 0]);
    node.stop_cleanly();
    assert_eq!(node.indexed_alarms(), []);
    assert_eq!(node.indexed_fileless(), [] as [&str; 0]);
}

#[test]
fn after_delete_self_the_event_goes_on_as_before() {
    let mut node = Node::probe().start();
    let actor = node.actor("probe/a");
    let said = actor.steps(json!([
        { "op": "delete-self" },
        { "op": "exec", "sql": "CREATE TABLE t (x)" },
        { "op": "exec", "sql": "INSERT INTO t VALUES (1)" },
        { "op": "query", "sql": "SELECT x FROM t" },
        { "op": "set-alarm", "in": 0 },
    ]));
    assert_eq!(said[3]["rows"], json!([[1]]));
    assert!(said[4]["at"].is_u64());
    eventually("nothing is left", || files(&node).is_empty());
    assert_eq!(actor.get("/init").text(), "1");
    assert_eq!(actor.alarms(), []);
    node.stop_cleanly();
    assert_eq!(node.indexed_alarms(), []);
}

#[test]
fn inside_a_transaction_a_durable_delete_is_not_allowed_and_changes_nothing() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    let due = now_ms() + HOUR_MS;
    actor.set_alarm_at(due);
    assert_eq!(actor.get("/memory").text(), "1");
    let said = actor.steps(json!([
        { "op": "exec", "sql": "BEGIN" },
        { "op": "exec", "sql": "INSERT INTO t VALUES (1)" },
        { "op": "delete-self-durable" },
        { "op": "exec", "sql": "INSERT INTO t VALUES (2)" },
        { "op": "exec", "sql": "COMMIT" },
    ]));
    assert!(error("not-allowed", &said[2]), "{}", said[2]);
    assert_eq!(actor.query("SELECT x FROM t"), json!([[1], [2]]));
    assert_eq!(actor.pending(), Some(due));
    assert_eq!(actor.get("/memory").text(), "2");
    let said = actor.steps(json!([
        { "op": "exec", "sql": "BEGIN" },
        { "op": "delete-self-durable" },
        { "op": "exec", "sql": "ROLLBACK" },
        { "op": "delete-self-durable" },
    ]));
    assert!(error("not-allowed", &said[1]), "{}", said[1]);
    assert_eq!(said[3], json!({ "deleted": true }));
    assert_eq!(files(&node), [] as [PathBuf; 0]);
}

#[test]
fn a_delete_holds_however_its_event_ends() {
    let node = Node::probe().start();
    for kind in KINDS {
        for end in ["trap", "fail"] {
            let actor = node.actor(&format!("probe/{kind}-{end}"));
            actor.exec("CREATE TABLE t (x)");
            actor.exec("INSERT INTO t VALUES (1)");
            let script = json!({ "steps": [{ "op": kind }, { "op": end }] }).to_string();
            assert_eq!(actor.post("/sql", script).status, 500);
            let gone = actor.one("query", "SELECT x FROM t");
            assert!(error("invalid", &gone), "{kind} {end}: {gone}");
            assert_eq!(actor.get("/init").text(), "1", "{kind} {end}");
        }
    }
}

#[test]
fn a_deleted_actors_alarm_does_not_fire() {
    let mut node = Node::probe().start();
    let due = now_ms() + 800;
    for kind in KINDS {
        let actor = node.actor(&format!("probe/{kind}"));
        actor.set_alarm_at(due);
        actor.steps(json!([{ "op": kind }]));
    }
    eventually("it would be due", || now_ms() > due);
    node.actor("probe/after").set_alarm_in(0);
    node.actor("probe/after").ran(1);
    let ran = |outcome| node.metric("wasmkeep_events_total", &[r#"kind="alarm""#, outcome]);
    assert_eq!((ran("answered"), ran("failed")), (1.0, 0.0));
    assert_eq!(node.databases().len(), 1, "one was made again");
    node.stop_cleanly();
    assert_eq!(node.indexed_alarms(), []);
}

#[test]
fn an_alarm_may_delete_its_actor() {
    let mut node = Node::probe().start();
    let next = json!({ "op": "set-alarm", "in": 0 });
    let rows = [
        ("self", json!([{ "op": "delete-self" }])),
        (
            "durable",
            json!([{ "op": "exec", "sql": "CREATE TABLE t (x)" },
                           { "op": "delete-self-durable" }]),
        ),
        ("self-then-trap", json!([{ "op": "delete-self" }, { "op": "trap" }])),
        ("durable-then-trap", json!([{ "op": "delete-self-durable" }, { "op": "trap" }])),
        ("sets-then-self", json!([next, { "op": "delete-self" }, next])),
        ("sets-then-durable", json!([next, { "op": "delete-self-durable" }, next])),
    ];
    for (name, steps) in &rows {
        let actor = node.actor(&format!("probe/{name}"));
        actor.on_alarm(steps.clone());
        actor.set_alarm_in(0);
    }
    eventually("all are gone", || files(&node).is_empty());
    for (name, _) in rows {
        let actor = node.actor(&format!("probe/{name}"));
        assert_eq!(actor.get("/init").text(), "1", "{name}");
        assert_eq!(actor.pending(), None, "{name}");
        assert_eq!(actor.alarms(), [], "{name}");
    }
    node.stop_cleanly();
    assert_eq!(node.indexed_alarms(), []);
}

#[test]
fn a_kill_in_the_middle_of_deletes_leaves_each_actor_whole_or_gone() {
    let mut node = Node::probe().start();
    for round in 0..4 {
        let actors: Vec<_> = (0..40).map(|i| node.actor(&format!("probe/a{round}-{i}"))).collect();
        for actor in &actors {
            actor.exec("CREATE TABLE t (x)");
            actor.exec("INSERT INTO t VALUES (1)");
            actor.set_alarm_in(HOUR_MS);
        }
        std::thread::scope(|scope| {
            for actor in &actors {
                let kind = KINDS[round % 2];
                let script = json!({ "steps": [{ "op": kind }] }).to_string();
                scope.spawn(move || actor.try_send("POST", "/sql", &[], script.as_bytes()));
            }
            eventually("some are gone", || node.databases().len() < 35 + node_kept(round));
            // SAFETY: the node was not waited for, so this is its process.
            unsafe { libc::kill(node.pid() as i32, libc::SIGKILL) };
        });
        node.kill();
        node.start_again();
        for i in 0..40 {
            let actor = node.actor(&format!("probe/a{round}-{i}"));
            let rows = actor.one("query", "SELECT x FROM t");
            if error("invalid", &rows) {
                assert_eq!(actor.pending(), None, "an alarm is left of a deleted actor");
                assert_eq!(actor.get("/init").text(), "1");
            } else {
                assert_eq!(rows["rows"], json!([[1]]), "half of an actor is left");
            }
        }
    }
}

/// Every actor of the rounds before has a file again.
fn node_kept(round: usize) -> usize {
    40 * round
}

/// The name of a WAL is taken by a folder: no file system removes that as a file.
#[test]
fn a_delete_that_fails_says_so_and_can_be_tried_again() {
    let node = Node::probe().errors_are_fine().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    actor.exec("INSERT INTO t VALUES (1)");
    let database = node.databases().remove(0);
    let wal = database.with_extension("db-wal");
    let block = || {
        fs::remove_file(&wal).expect("an open database has a WAL");
        fs::create_dir(&wal).expect("make a folder");
    };
    block();
    let script = json!({ "steps": [
        { "op": "delete-self-durable" },
        { "op": "exec", "sql": "INSERT INTO t VALUES (2)" },
        { "op": "query", "sql": "SELECT x FROM t" },
        { "op": "get-alarm" },
        { "op": "set-alarm", "in": 0 },
        { "op": "delete-self-durable" },
        { "op": "log", "text": "it failed twice" },
        { "op": "wait", "ms": 1500 },
        { "op": "exec", "sql": "INSERT INTO t VALUES (3)" },
        { "op": "delete-self-durable" },
        { "op": "exec", "sql": "INSERT INTO t VALUES (4)" },
    ] });
    let said = std::thread::scope(|scope| {
        let asked = scope.spawn(|| actor.post("/sql", script.to_string()).json());
        node.logged("it failed twice");
        fs::remove_dir(&wal).expect("remove the folder");
        asked.join().expect("an answer")
    });
    for at in [0, 5] {
        assert!(error("internal", &said[at]), "step {at}: {}", said[at]);
    }
    for at in [1, 2, 8, 10] {
        assert!(error("not-allowed", &said[at]), "step {at}: {}", said[at]);
    }
    for at in [3, 4] {
        assert_eq!(said[at], json!({ "at": null, "attempt": 0 }), "step {at}");
    }
    assert_eq!(said[9], json!({ "deleted": true }));
    assert_eq!(files(&node), [] as [PathBuf; 0]);
    assert_eq!(actor.get("/init").text(), "1");
}

#[test]
fn a_delete_that_never_succeeds_leaves_the_actor_as_it_was() {
    for kind in KINDS {
        let node = Node::probe().errors_are_fine().start();
        let actor = node.actor("probe/a");
        actor.exec("CREATE TABLE t (x)");
        actor.exec("INSERT INTO t VALUES (1)");
        let wal = node.databases().remove(0).with_extension("db-wal");
        let aside = wal.with_extension("aside");
        fs::rename(&wal, &aside).expect("an open database has a WAL");
        fs::create_dir(&wal).expect("make a folder");
        let said = actor.steps(json!([{ "op": kind }]));
        assert_eq!(error("internal", &said[0]), kind == "delete-self-durable", "{}", said[0]);
        // The database cannot be opened beside the folder either.
        assert!([500, 503].contains(&actor.get("/init").status));
        fs::remove_dir(&wal).expect("remove the folder");
        fs::rename(&aside, &wal).expect("put the WAL back");
        assert_eq!(actor.query("SELECT x FROM t"), json!([[1]]), "{kind}");
    }
}
