//! What one event may use, and what becomes of everybody else when it wants more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::support::{DONE, Node, SetAtTheEnd, in_parallel};

const MIB: u64 = 1024 * 1024;

#[test]
fn an_endless_loop_is_stopped_and_the_next_event_is_fine() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let began = Instant::now();
    actor.get("/loop").refused(500, "cpu-exceeded", "ran");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(50), "stopped after {took:?}");
    assert!(took < Duration::from_secs(3), "stopped only after {took:?}");
    assert_eq!(actor.get("/hello").text(), "hello");
}

#[test]
fn the_cpu_budget_is_each_events_own() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    // Together several budgets; each well below one.
    for _ in 0..40 {
        assert_eq!(actor.get("/burn?iters=1000000").status, 200);
    }
    actor.get("/burn?iters=1000000000").refused(500, "cpu-exceeded", "ran");
}

#[test]
fn the_cpu_budget_can_be_raised() {
    let node = Node::probe().flag("--cpu-budget-ms", "5000").start();
    let answer = node.actor("probe/a").get("/burn?iters=100000000");
    assert_eq!(answer.json()["iters"], 100_000_000);
}

#[test]
fn time_asleep_is_charged_to_the_wall_alone() {
    let node = Node::probe().start();
    assert_eq!(node.actor("probe/a").get("/wait?ms=400").text(), "400");

    let node = Node::probe().flag("--wall-budget-ms", "500").start();
    let actor = node.actor("probe/a");
    let began = Instant::now();
    actor.get("/wait?ms=20000").refused(500, "wall-exceeded", "ran");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(500), "stopped after {took:?}");
    assert!(took < Duration::from_secs(3), "stopped only after {took:?}");
    assert_eq!(actor.get("/wait?ms=10").text(), "10");
}

#[test]
fn what_the_host_does_for_an_event_is_not_charged_to_its_cpu() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let count = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 2000000)
                 SELECT count(*) FROM c";
    let began = Instant::now();
    assert_eq!(actor.query(count)[0][0], 2_000_000);
    let took = began.elapsed();
    assert!(took > Duration::from_millis(80), "{took:?} prove nothing: count further");
}

#[test]
fn on_a_full_machine_an_event_still_gets_its_cpu() {
    let node = Node::probe().start();
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..cores() * 2 {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let _end_of_load = SetAtTheEnd(&enough);
        let actor = node.actor("probe/a");
        for _ in 0..10 {
            // A fifth or so of the budget, which takes far longer by the clock here.
            assert_eq!(actor.get("/burn?iters=3000000").status, 200);
        }
    });
}

#[test]
fn a_statement_ends_with_its_event() {
    let setup = Node::probe().flag("--wall-budget-ms", "700").flag("--sql-cpu-budget-ms", "60000");
    let node = setup.start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    let endless = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
                   INSERT INTO t SELECT n FROM c WHERE n < 0";
    let script = json!({ "steps": [{ "op": "exec", "sql": endless }] }).to_string();
    let began = Instant::now();
    let answer = actor.post("/sql", script);
    // Code that needs next to no time to say so still gets to.
    if answer.status == 200 {
        assert_eq!(answer.json()[0]["error"]["case"], "quota-exceeded");
    } else {
        answer.refused(500, "wall-exceeded", "ran");
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(700), "stopped after {took:?}");
    assert!(took < Duration::from_secs(5), "stopped only after {took:?}");
    actor.exec("INSERT INTO t VALUES (1)");
    assert_eq!(actor.query("SELECT x FROM t"), json!([[1]]), "what was stopped left nothing");
}

/// Sixteen rows of 15 MiB are below what one event may write.
#[test]
fn a_database_of_1_gib_takes_no_more_and_still_reads_and_deletes() {
    const ROW: u64 = 15 * MIB;
    let node = Node::probe().flag("--sql-cpu-budget-ms", "30000").start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, x)");
    let insert = json!({ "op": "exec", "sql": "INSERT INTO t (x) VALUES (zeroblob(15 << 20))" });
    let error = (0..6).find_map(|_| {
        let results = actor.steps(json!(vec![insert.clone(); 16]));
        results.into_iter().map(|result| result["error"].clone()).find(|error| !error.is_null())
    });
    let error = error.expect("the database took 1,440 MiB");
    assert_eq!(error["case"], "quota-exceeded", "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("1024 MiB")), "{error}");

    let found = actor.query("SELECT count(*), sum(length(x)) FROM t");
    let (rows, bytes) = (found[0][0].as_u64(), found[0][1].as_u64());
    assert_eq!(bytes, rows.map(|rows| rows * ROW), "whole rows");
    let bytes = bytes.expect("a number of bytes");
    assert!((1024 * MIB - ROW - 2 * MIB..1024 * MIB).contains(&bytes), "{bytes}");
    let on_disk = std::fs::metadata(&node.databases()[0]).expect("the actor's file").len();
    assert!(on_disk <= 1024 * MIB, "{on_disk} bytes");

    // Small writes may find room in pages that are there; a large one finds none, in any event.
    let again = actor.one("exec", "INSERT INTO t (x) VALUES (zeroblob(15 << 20))");
    assert_eq!(again["error"]["case"], "quota-exceeded", "{again}");
    assert_eq!(actor.exec("DELETE FROM t WHERE id <= 2"), 2);
    assert_eq!(actor.exec("INSERT INTO t (x) VALUES (zeroblob(15 << 20))"), 1);
    assert_eq!(
        actor.steps(json!([{ "op": "delete-self-durable" }]))[0],
        json!({ "deleted": true })
    );
    actor.exec("CREATE TABLE t (x)");
    assert_eq!(actor.query("SELECT count(*) FROM t"), json!([[0]]));
}

#[test]
fn with_every_place_busy_a_call_is_refused_and_runs_once_one_is_free() {
    let node = Node::probe().flag("--max-instances", "2").start();
    let mut busy = node.busy("probe/busy", 2500);
    let caller = node.actor("probe/caller");
    let call = |path: &str| caller.get(&format!("/call?target=probe/callee&path={path}")).json();
    let refused = call("/memory");
    assert_eq!(refused["status"], 503, "{refused}");
    let header = |name: &str| {
        let headers = refused["headers"].as_array().expect("a list");
        headers.iter().find(|header| header[0] == name).map_or(Json::Null, |it| it[1].clone())
    };
    assert_eq!(header("x-wasmkeep-reason"), "no-capacity", "{refused}");
    assert_eq!(header("x-wasmkeep-event"), "not-run", "{refused}");
    assert_eq!(header("retry-after"), "1", "{refused}");
    assert_eq!(busy.chunks().expect("a regular end"), DONE);
    let answered = call("/memory");
    assert_eq!(answered["status"], 200, "{answered}");
    assert_eq!(answered["body"], "1", "what was refused did not run");
}

#[test]
fn memory_past_the_limit_is_refused_and_neighbours_keep_theirs() {
    let node = Node::probe().flag("--cpu-budget-ms", "5000").flag("--memory-mb", "64").start();
    let (greedy, neighbour) = (node.actor("probe/greedy"), node.actor("probe/neighbour"));
    assert_eq!(neighbour.get("/grow?mib=20&keep=1").json()["kept"], 20);
    let grown = greedy.get("/grow?mib=500");
    if grown.status == 200 {
        let got = grown.json()["got"].as_u64().expect("a number of MiB");
        assert!((40..64).contains(&got), "it got {got} MiB of 64");
    } else {
        grown.refused(500, "trapped", "ran");
    }
    assert_eq!(greedy.get("/hello").text(), "hello");
    assert_eq!(neighbour.get("/grow?mib=20&keep=1").json()["kept"], 40);
}

#[test]
fn a_guest_gets_most_of_128_mib_unless_told_otherwise() {
    let node = Node::probe().flag("--cpu-budget-ms", "5000").start();
    let grown = node.actor("probe/a").get("/grow?mib=100").json();
    assert_eq!(grown["got"], 100);
}

#[test]
fn a_stack_overflow_traps_and_the_next_event_is_fine() {
    let node = Node::probe().flag("--cpu-budget-ms", "5000").start();
    let actor = node.actor("probe/a");
    for _ in 0..3 {
        actor.get("/stack").refused(500, "trapped", "ran");
        assert_eq!(actor.get("/hello").text(), "hello");
    }
}

#[test]
fn endless_loops_on_every_core_leave_the_server_answering() {
    let node = Node::probe().flag("--cpu-budget-ms", "2000").start();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loops: Vec<_> = (0..cores())
            .map(|i| {
                let actor = node.actor(&format!("probe/loop{i}"));
                scope.spawn(move || actor.get("/loop").refused(500, "cpu-exceeded", "ran").status)
            })
            .collect();
        scope.spawn(|| {
            let _end_of_asking = SetAtTheEnd(&ended);
            loops.into_iter().for_each(|one| assert_eq!(one.join().ok(), Some(500)));
        });
        let mut times = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            let began = Instant::now();
            assert_eq!(node.get("/_wasmkeep/health").status, 200);
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let (asked, median) = (times.len(), times[times.len() / 2]);
        // The tests that run beside this one have the same cores, so one answer may be late.
        assert!(median < Duration::from_millis(100), "{median:?}, the median of {asked}");
        assert!(asked > 10, "health was answered {asked} times only");
    });
}

#[test]
fn a_thousand_traps_leave_memory_as_it_was() {
    let node = Node::probe().start();
    let trap = |times: usize| {
        in_parallel(4, |i| {
            let mut client = node.raw();
            for _ in 0..times / 4 {
                let answer = client.get(&format!("/actor/probe/a{i}/trap"));
                answer.refused(500, "trapped", "ran");
            }
        });
    };
    trap(400);
    let before = node.resident_kib();
    trap(1000);
    let after = node.resident_kib();
    assert!(after < before + 16 * 1024, "from {before} to {after} KiB");
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}
