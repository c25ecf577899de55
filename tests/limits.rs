//! What one event may use, and what becomes of everybody else when it wants more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Node, SetAtTheEnd, in_parallel};

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
