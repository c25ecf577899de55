//! What is on the disk when an answer says so, as the node's own system calls tell, and what it
//! says when the disk fails.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::support::{Actor, Answer, Disk, Node};

/// The probe's actor `a` has these files.
const DATABASE: &str = "/61.db";
const WAL: &str = "/61.db-wal";

fn durable(sql: &str) -> Json {
    json!({ "op": "exec-durable", "sql": sql })
}

fn delete() -> Json {
    json!({ "op": "delete-self-durable" })
}

#[track_caller]
fn case(result: &Json) -> &str {
    result["error"]["case"].as_str().unwrap_or_else(|| panic!("an error was due: {result}"))
}

/// Where an operation on a path with this end was done, of all that is before the answer.
#[track_caller]
fn at(done: &[String], operation: &str, end: &str) -> usize {
    let found = done.iter().position(|line| {
        line.strip_prefix(operation)
            .is_some_and(|rest| rest.starts_with(' ') && rest.ends_with(end))
    });
    let answer = done.iter().position(|line| line.starts_with("send HTTP/1.1 200"));
    let answer = answer.unwrap_or_else(|| panic!("no answer in {done:#?}"));
    let found = found.unwrap_or_else(|| panic!("no {operation} of …{end} in {done:#?}"));
    assert!(found < answer, "{operation} of …{end} after the answer: {done:#?}");
    found
}

fn count(done: &[String], operation: &str, end: &str) -> usize {
    let line = |line: &&String| {
        line.split_once(' ').is_some_and(|(did, path)| did == operation && path.ends_with(end))
    };
    done.iter().filter(line).count()
}

fn rows(actor: &Actor) -> Json {
    actor.query("SELECT x FROM t ORDER BY x")
}

#[test]
fn a_durable_write_is_on_disk_before_its_answer() {
    let disk = Disk::new();
    let node = disk.under(Node::probe()).start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    disk.done();
    actor.exec("INSERT INTO t VALUES (1)");
    let done = disk.done();
    assert_eq!(count(&done, "fsync", WAL), 0, "exec promises no disk: {done:#?}");

    assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (2)")["changed"], 1);
    let done = disk.done();
    let file = at(&done, "fsync", DATABASE);
    let wal = at(&done, "fsync", WAL);
    let folder = done[file].trim_start_matches("fsync ").trim_end_matches(DATABASE).to_owned();
    let entry = at(&done, "fsync", &folder);
    assert!(entry > wal.max(file), "the folder's entry comes last: {done:#?}");

    assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (3)")["changed"], 1);
    at(&disk.done(), "fsync", WAL);
    let transaction = json!([
        { "op": "exec", "sql": "BEGIN" },
        { "op": "exec", "sql": "INSERT INTO t VALUES (4)" },
        durable("COMMIT"),
    ]);
    assert_eq!(actor.steps(transaction)[2]["error"], Json::Null);
    at(&disk.done(), "fsync", WAL);
}

#[test]
fn a_durable_write_with_an_alarm_has_the_index_of_alarms_on_disk_too() {
    let disk = Disk::new();
    let node = disk.under(Node::probe()).start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    assert!(actor.post("/alarm?in=3600000", "").json()["at"].is_number());
    disk.done();
    assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (1)")["changed"], 1);
    let done = disk.done();
    at(&done, "fsync", "/index.db-wal");
    at(&done, "fsync", WAL);
}

#[test]
fn a_failure_of_the_index_is_told_to_one_event_and_the_node_goes_on() {
    let disk = Disk::new();
    let mut node = disk.under(Node::probe()).errors_are_fine().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    assert!(actor.post("/alarm?in=3600000", "").json()["at"].is_number());
    assert_eq!(node.actor("probe/nostore-early").get("/hello").text(), "hello");
    disk.fail_once("fsync", "/index.db-wal");
    disk.done();
    assert_eq!(case(&actor.one("exec-durable", "INSERT INTO t VALUES (1)")), "internal");
    let done = disk.done();
    assert_eq!(count(&done, "fsync!", "/index.db-wal"), 1, "{done:#?}");
    assert_eq!(count(&done, "fsync", "/index.db-wal"), 0, "not tried again: {done:#?}");

    assert_eq!(node.actor("probe/nostore-late").get("/hello").text(), "hello");
    at(&disk.done(), "fsync", "/index.db");
    assert_eq!(node.actor("probe/new").get("/init").text(), "1");
    disk.done();
    assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (2)")["changed"], 1);
    at(&disk.done(), "fsync", "/index.db-wal");
    node.restart();
    let pending = node.actor("probe/a").get("/alarm").json();
    assert!(pending["at"].is_number(), "{pending}");
}

#[test]
fn a_sync_that_fails_is_told_and_never_tried_again() {
    for failing in [WAL, DATABASE] {
        let disk = Disk::new();
        let node = disk.under(Node::probe()).errors_are_fine().start();
        let actor = node.actor("probe/a");
        actor.exec("CREATE TABLE t (x)");
        disk.done();
        disk.fail("fsync", failing);
        let results = actor.steps(json!([
            durable("INSERT INTO t VALUES (1)"),
            durable("INSERT INTO t VALUES (2)"),
            { "op": "exec", "sql": "INSERT INTO t VALUES (3)" },
            { "op": "query", "sql": "SELECT 1" },
        ]));
        for result in &results {
            assert_eq!(case(result), "internal", "{results:?}");
        }
        let done = disk.done();
        assert_eq!(count(&done, "fsync!", failing), 1, "{done:#?}");
        assert_eq!(count(&done, "fsync", failing), 0, "{done:#?}");
        disk.mend();
        // What the failed write left may be there or not; nothing after it is.
        let found = rows(&actor);
        assert!(found == json!([]) || found == json!([[1]]), "{found}");
        disk.done();
        assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (4)")["changed"], 1);
        at(&disk.done(), "fsync", WAL);
    }
}

/// Asks for durable writes of one row each, all at once.
fn at_once(node: &Node, rows: Range<u32>) -> Vec<Answer> {
    let write = |row: u32| {
        let steps = json!({ "steps": [durable(&format!("INSERT INTO t VALUES ({row})"))] });
        node.actor("probe/a").post("/sql", steps.to_string())
    };
    thread::scope(|scope| {
        let asked: Vec<_> = rows.map(|row| scope.spawn(move || write(row))).collect();
        asked.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    })
}

fn is_durable(answer: &Answer) -> bool {
    answer.status == 200 && answer.json()[0]["changed"] == 1
}

#[test]
fn events_of_a_busy_actor_share_an_fsync_and_none_is_answered_before_it() {
    let disk = Disk::new();
    let node = disk.under(Node::probe()).start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    actor.one("exec-durable", "INSERT INTO t VALUES (0)");
    disk.slow_fsyncs(WAL);
    disk.done();
    let answers = at_once(&node, 1..9);
    assert!(answers.iter().all(is_durable), "{answers:?}");
    let done = disk.done();
    at(&done, "fsync", WAL);
    let fsyncs = count(&done, "fsync", WAL);
    assert!(fsyncs < 8, "{fsyncs} fsyncs for 8 events: {done:#?}");
    disk.mend();
    assert_eq!(rows(&actor), json!([[0], [1], [2], [3], [4], [5], [6], [7], [8]]));
}

#[test]
fn when_the_disk_fails_no_event_of_a_busy_actor_is_acknowledged() {
    let disk = Disk::new();
    let node = disk.under(Node::probe()).errors_are_fine().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    actor.one("exec-durable", "INSERT INTO t VALUES (0)");
    // The first event waits for its fsync long enough for the others to come.
    disk.slow_fsyncs(WAL);
    disk.done();
    let (first, answers) = thread::scope(|scope| {
        let first = scope.spawn(|| at_once(&node, 1..2).remove(0));
        while count(&disk.so_far(), "slow-fsync", WAL) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        disk.fail("fsync", WAL);
        (first.join().expect("an answer"), at_once(&node, 2..20))
    });
    assert!(is_durable(&first), "its fsync had begun: {first:?}");
    assert!(!answers.iter().any(is_durable), "{answers:?}");
    disk.mend();
    assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (20)")["changed"], 1);
    let found = rows(&actor);
    for row in [0, 1, 20] {
        assert!(found.as_array().expect("rows").contains(&json!([row])), "{row} of {found}");
    }
}

#[test]
fn a_delete_takes_the_wal_first_and_syncs_the_folder() {
    for delete in ["delete-self", "delete-self-durable"] {
        let disk = Disk::new();
        let node = disk.under(Node::probe()).start();
        let actor = node.actor("probe/a");
        actor.exec("CREATE TABLE t (x)");
        disk.done();
        assert_eq!(actor.steps(json!([{ "op": delete }]))[0], json!({ "deleted": true }));
        // A plain delete is carried out once the event is over, which is after its answer began.
        assert_eq!(actor.get("/init").text(), "1", "a new actor");
        let done = disk.done();
        let place = |operation: &str, end: &str| {
            let it = |line: &String| line.starts_with(operation) && line.ends_with(end);
            done.iter().position(it).unwrap_or_else(|| panic!("{operation} …{end}: {done:#?}"))
        };
        let (wal, file) = (place("unlink ", WAL), place("unlink ", DATABASE));
        let folder = done[file].trim_start_matches("unlink ").trim_end_matches(DATABASE);
        let synced = place("fsync ", folder);
        assert!(wal < file && file < synced, "{delete}: {done:#?}");
        if delete == "delete-self-durable" {
            assert!(synced < place("send HTTP/1.1 200", ""), "{done:#?}");
        }
    }
}

/// Where a durable delete can fail: at either file, and at the folder.
fn failing_deletes() -> [(&'static str, &'static str); 3] {
    // The folder of the actor `a`: the first byte of its name's SHA-256.
    [("unlink", WAL), ("unlink", DATABASE), ("fsync", "/probe/ca")]
}

#[test]
fn a_durable_delete_that_failed_is_tried_again_by_the_guest_alone() {
    for (operation, end) in failing_deletes() {
        let disk = Disk::new();
        let node = disk.under(Node::probe()).errors_are_fine().start();
        let actor = node.actor("probe/a");
        actor.exec("CREATE TABLE t (x)");
        disk.fail_once(operation, end);
        let results = actor.steps(json!([
            delete(),
            { "op": "query", "sql": "SELECT 1" },
            durable("CREATE TABLE u (x)"),
            delete(),
            { "op": "query", "sql": "SELECT 1" },
        ]));
        let which = format!("{operation} {end}: {results:?}");
        assert_eq!(case(&results[0]), "internal", "{which}");
        assert_eq!(case(&results[1]), "not-allowed", "{which}");
        assert_eq!(case(&results[2]), "not-allowed", "{which}");
        assert_eq!(results[3], json!({ "deleted": true }), "{which}");
        assert_eq!(case(&results[4]), "not-allowed", "{which}");
        assert_eq!(actor.get("/init").text(), "1", "{which}");
        assert_eq!(case(&actor.one("query", "SELECT x FROM t")), "invalid", "{which}");
    }
}

#[test]
fn a_durable_delete_that_keeps_failing_says_so_each_time() {
    for (operation, end) in failing_deletes() {
        let disk = Disk::new();
        let node = disk.under(Node::probe()).errors_are_fine().start();
        let actor = node.actor("probe/a");
        actor.exec("CREATE TABLE t (x)");
        disk.fail(operation, end);
        let results =
            actor.steps(json!([delete(), { "op": "query", "sql": "SELECT 1" }, delete()]));
        let which = format!("{operation} {end}: {results:?}");
        assert_eq!(case(&results[0]), "internal", "{which}");
        assert_eq!(case(&results[1]), "not-allowed", "{which}");
        assert_eq!(case(&results[2]), "internal", "{which}");
        disk.mend();
        // The node lives, and so does the address.
        assert_eq!(actor.get("/hello").text(), "hello", "{which}");
        assert_eq!(actor.steps(json!([delete()]))[0], json!({ "deleted": true }), "{which}");
        assert_eq!(actor.get("/init").text(), "1", "{which}");
        assert_eq!(case(&actor.one("query", "SELECT x FROM t")), "invalid", "{which}");
    }
}
