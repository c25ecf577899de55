//! One event at a time for each actor, many actors at once.

use std::time::{Duration, Instant};

use crate::support::{DONE, Node, Raw, eventually, in_parallel};

const QUEUE_EVENTS_MAX: usize = 1024;

/// This process holds a socket for each client, beside those of tests that run at the same time.
fn allow_many_sockets() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or write the struct they are given.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(16_384);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

#[test]
fn concurrent_increments_of_one_actor_lose_nothing() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE n (n INTEGER)");
    actor.exec("INSERT INTO n VALUES (0)");
    let step = r#"{"steps": [{"op": "query", "sql": "UPDATE n SET n = n + 1 RETURNING n"}]}"#;
    let mut seen: Vec<u64> = in_parallel(8, |_| {
        let increment = |_| actor.post("/sql", step).json()[0]["rows"][0][0].as_u64();
        (0..25).map(increment).collect::<Option<Vec<u64>>>().expect("a number each")
    })
    .concat();
    seen.sort_unstable();
    assert_eq!(seen, (1..=200).collect::<Vec<u64>>());
}

#[test]
fn events_of_one_actor_run_in_the_order_they_arrived() {
    let node = Node::probe().start();
    let mut first = node.busy("probe/a", 1200);
    // Each is given time to arrive before the next is sent.
    let mut others: Vec<Raw> = (0..6)
        .map(|_| {
            let client = node.ask("/actor/probe/a/memory");
            std::thread::sleep(Duration::from_millis(100));
            client
        })
        .collect();
    assert_eq!(first.chunks().expect("a regular end"), DONE);
    let order: Vec<String> =
        others.iter_mut().map(|client| client.answer().expect("an answer").text()).collect();
    assert_eq!(order, ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn different_actors_run_at_the_same_time() {
    let node = Node::probe().start();
    let began = Instant::now();
    in_parallel(10, |i| {
        assert_eq!(node.actor(&format!("probe/a{i}")).get("/wait?ms=500").text(), "500");
    });
    let took = began.elapsed();
    assert!(took < Duration::from_millis(2500), "ten waits of 0.5 s took {took:?}");
}

#[test]
fn a_stuck_actor_delays_no_other() {
    let node = Node::probe().start();
    let mut stuck = node.busy("probe/stuck", 1500);
    let other = node.actor("probe/other");
    let mut answered = 0;
    while !stuck.has_bytes_within(Duration::from_millis(1)) {
        assert_eq!(other.get("/hello").text(), "hello");
        answered += 1;
    }
    assert!(answered > 50, "only {answered} events ran beside one that waits");
}

#[test]
fn the_memory_of_an_instance_lasts_until_a_trap() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    assert_eq!(actor.get("/memory").text(), "1");
    assert_eq!(actor.get("/memory").text(), "2");
    assert_eq!(node.actor("probe/b").get("/memory").text(), "1", "another actor's is its own");
    assert_eq!(actor.get("/error").status, 500);
    assert_eq!(actor.get("/memory").text(), "3", "an error is an answer, not a trap");
    actor.get("/trap").refused(500, "trapped", "ran");
    assert_eq!(actor.get("/memory").text(), "1");
}

#[test]
fn the_memory_of_an_instance_is_gone_after_sleep() {
    let node = Node::probe().flag("--idle-timeout-secs", "1").start();
    let actor = node.actor("probe/a");
    assert_eq!(actor.get("/memory").text(), "1");
    assert_eq!(actor.get("/memory").text(), "2");
    eventually("it sleeps", || node.metric("wasmkeep_resident_actors", &[]) == 0.0);
    assert_eq!(actor.get("/memory").text(), "1");
}

#[test]
fn a_client_that_leaves_while_its_event_waits_is_not_run() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let mut running = node.busy("probe/a", 1000);
    let leaving: Vec<Raw> = (0..5).map(|_| node.ask("/actor/probe/a/memory")).collect();
    // They are given time to arrive; then they go.
    std::thread::sleep(Duration::from_millis(200));
    drop(leaving);
    assert_eq!(running.chunks().expect("a regular end"), DONE);
    assert_eq!(actor.get("/memory").text(), "1");
    let skipped = node.metric("wasmkeep_events_total", &[r#"outcome="skipped""#]);
    assert_eq!(skipped, 5.0);
}

#[test]
fn an_event_that_started_runs_on_without_its_client() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let leaving = node.busy("probe/a", 500);
    drop(leaving);
    let began = Instant::now();
    assert_eq!(actor.get("/hello").text(), "hello");
    assert!(began.elapsed() > Duration::from_millis(400), "it was cut short");
    assert_eq!(node.metric("wasmkeep_events_total", &[r#"outcome="skipped""#]), 0.0);
}

#[test]
fn past_1024_waiting_events_an_actor_refuses_more() {
    allow_many_sockets();
    let node = Node::probe().start();
    let mut running = node.busy("probe/a", 6000);
    let mut waiting: Vec<Raw> = Vec::new();
    let refused = loop {
        assert!(waiting.len() < QUEUE_EVENTS_MAX + 100, "the queue has no end");
        let mut client = node.ask("/actor/probe/a/memory");
        let near_the_end = waiting.len() >= QUEUE_EVENTS_MAX - 1;
        if near_the_end && client.has_bytes_within(Duration::from_millis(300)) {
            break client.answer().expect("an answer");
        }
        waiting.push(client);
    };
    refused.refused(429, "queue-full", "not-run");
    assert_eq!(waiting.len(), QUEUE_EVENTS_MAX);
    assert_eq!(node.actor("probe/other").get("/hello").text(), "hello");
    assert_eq!(running.chunks().expect("a regular end"), DONE);
    let mut ran: Vec<usize> = waiting
        .iter_mut()
        .map(|client| client.answer().expect("an answer").text().parse().expect("a number"))
        .collect();
    ran.sort_unstable();
    assert_eq!(ran, (1..=QUEUE_EVENTS_MAX).collect::<Vec<_>>(), "each that waited ran once");
}
