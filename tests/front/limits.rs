//! How many requests are with the front, how long, and what ends them.

use super::{client, front, front_and_probe, none_open, on_to};
use crate::support::{Node, eventually, in_parallel};

const LONG: &str = "/wait?ms=29000";

/// Sends a request that stays, and returns once it is with the front.
fn held(node: &Node, target: &str) -> crate::support::Raw {
    let before = node.metric("wasmkeep_front_open_requests", &[]);
    let client = node.ask(target);
    with_the_front(node, before + 1.0);
    client
}

/// Waits until so many requests are with the front.
#[track_caller]
fn with_the_front(node: &Node, requests: f64) {
    eventually("they are with the front", || {
        node.metric("wasmkeep_front_open_requests", &[]) >= requests
    });
}

fn left(node: &Node) -> f64 {
    node.metric("wasmkeep_front_requests_total", &["outcome=\"left\""])
}

#[test]
fn one_request_more_than_the_slots_is_refused_before_it_runs() {
    let node = front_and_probe().flag("--max-front-requests", "2").start();
    let held = [held(&node, LONG), held(&node, LONG)];
    let answer = node.get("/hello");
    answer.refused(503, "front-busy", "not-run");
    assert_eq!(node.get("/actor/probe/a/hello").text(), "hello", "actors have their own places");
    assert_eq!(node.get("/_wasmkeep/ready").text(), "ready\n");
    assert_eq!(node.metric("wasmkeep_refusals_total", &["front-busy"]), 1.0);
    assert_eq!(node.metric("wasmkeep_front_requests_total", &["outcome=\"refused\""]), 1.0);
    drop(held);
    eventually("their slots are free", || node.get("/hello").status == 200);
}

#[test]
fn the_default_is_a_tenth_beside_actors_and_all_without() {
    let node = front_and_probe().flag("--max-instances", "20").start();
    let _held = [held(&node, LONG), held(&node, LONG)];
    node.get("/hello").refused(503, "front-busy", "not-run");

    let node = front().flag("--max-instances", "3").start();
    let _held = [held(&node, LONG), held(&node, LONG), held(&node, LONG)];
    node.get("/hello").refused(503, "front-busy", "not-run");
}

#[test]
fn actors_get_the_places_that_the_front_leaves() {
    let node =
        front_and_probe().flag("--max-instances", "3").flag("--max-front-requests", "2").start();
    let _busy = node.busy("probe/a", 20_000);
    node.get("/actor/probe/b/hello").refused(503, "no-capacity", "not-run");
    assert_eq!(node.get("/hello").text(), "hello");
}

#[test]
fn a_client_that_leaves_stops_its_instance_and_frees_its_slot() {
    let node = front_and_probe().flag("--max-front-requests", "1").start();
    let free = || {
        eventually("the slot is free", || node.get("/hello").status == 200);
        // An answer leaves before its instance is gone.
        none_open(&node);
    };

    drop(held(&node, LONG));
    free();
    assert_eq!(left(&node), 1.0);

    let mut within = node.ask("/stream?chunks=1000&size=4&ms=29");
    assert_eq!(within.head().expect("a head").status, 200);
    within.chunk().expect("a chunk");
    node.get("/hello").refused(503, "front-busy", "not-run");
    drop(within);
    free();
    assert_eq!(left(&node), 2.0);

    let mut slow = node.raw();
    slow.send("POST /read HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\npart");
    with_the_front(&node, 1.0);
    drop(slow);
    free();

    drop(held(&node, &on_to("/call", &["probe/a"], LONG)));
    free();
    none_open(&node);
}

#[test]
fn a_slow_body_is_read_while_its_client_sends_it() {
    let node = front().flag("--max-instances", "1").start();
    let mut slow = node.raw();
    slow.send("POST /read HTTP/1.1\r\nhost: test\r\ncontent-length: 8\r\n\r\npart");
    with_the_front(&node, 1.0);
    node.get("/hello").refused(503, "front-busy", "not-run");
    slow.send("part");
    assert_eq!(slow.answer().expect("an answer").text(), "8");
    assert_eq!(left(&node), 0.0);
}

#[test]
fn the_front_has_a_cpu_budget_of_its_own() {
    let burn = "/burn?iters=150000000";
    let node = front_and_probe()
        .flag("--cpu-budget-ms", "20")
        .flag("--front-cpu-budget-ms", "20000")
        .start();
    assert_eq!(node.get(burn).status, 200);
    node.get(&format!("/actor/probe/a{burn}")).refused(500, "cpu-exceeded", "ran");

    let node = front_and_probe()
        .flag("--cpu-budget-ms", "20000")
        .flag("--front-cpu-budget-ms", "20")
        .start();
    node.get(burn).refused(500, "cpu-exceeded", "ran");
    assert_eq!(node.actor("probe/a").get(burn).status, 200);
}

#[test]
fn the_front_has_no_more_memory_than_an_actor() {
    let node = front().flag("--memory-mb", "16").start();
    let grown = node.get("/grow?mib=64&touch=0").json();
    assert!(grown["got"].as_u64().is_some_and(|mib| (1..16).contains(&mib)), "{grown}");
}

#[test]
fn many_clients_at_once_are_all_answered() {
    let node = front_and_probe().flag("--max-front-requests", "64").start();
    let answers = in_parallel(8, |worker| {
        let target = on_to("/call", &[&format!("probe/{worker}")], "/hello");
        let client = client(&node);
        (0..50)
            .filter(|at| match at % 3 {
                0 => client.get("/hello").status == 200,
                1 => client.get("/trap").status == 500,
                _ => client.get(&target).status == 200,
            })
            .count()
    });
    assert_eq!(answers, [50; 8]);
    none_open(&node);
}

#[test]
fn a_stop_lets_requests_of_the_front_end() {
    let mut node = front_and_probe().start();
    let target = on_to("/call", &["probe/a"], "/wait?ms=700");
    let mut client = held(&node, &target);
    node.terminate();
    let answer = client.answer().expect("an answer").json();
    assert_eq!(answer["status"], 200, "{answer}");
    assert_eq!(node.wait_for_exit().code(), Some(0));
}
