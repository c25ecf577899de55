//! What a cluster asks of its bucket. Each request costs money.

use std::time::{Duration, Instant};

use serde_json::json;
use wasmkeep_testbucket::{Counts, Fault, Operation, What};

use crate::support::{Actor, Cluster, Node, eventually, in_parallel};

const HISTORIES: &str = "cluster/state/default/default/history/";

#[test]
fn at_rest_nodes_renew_their_leases_and_look_at_each_other_and_do_nothing_else() {
    let cluster = Cluster::new();
    let nodes = ["n1", "n2", "n3"].map(|name| cluster.node(name).start());
    for (at, node) in nodes.iter().enumerate() {
        assert_eq!(node.actor(&format!("probe/a{at}")).get("/hello").status, 200);
    }
    // What the start and these actors brought with them is over.
    std::thread::sleep(Duration::from_secs(4));
    let (before, began) = (cluster.store.counts(), Instant::now());
    std::thread::sleep(Duration::from_secs(12));
    let (spent, time) = (since(cluster.store.counts(), before), began.elapsed());
    // A beat every 3 s; each node reads the two others as often, and lists them every 30 s.
    let beats = time.as_secs() / 3 + 2;
    assert!(spent.put <= 3 * beats, "{spent:?} in {time:?}");
    assert!(spent.get <= 3 * 2 * beats, "{spent:?} in {time:?}");
    assert!(spent.list <= 3, "{spent:?} in {time:?}");
    assert_eq!(spent.delete, 0);
    println!("three nodes at rest for {time:?}: {spent:?}");
}

#[test]
fn waking_an_actor_that_slept_here_costs_one_write() {
    let cluster = Cluster::new();
    let node = cluster.node("n1").flag("--idle-timeout-secs", "1").start();
    let actor = node.actor("probe/one");
    actor.exec("CREATE TABLE t (x)");
    let asleep = |times: f64| {
        eventually("it sleeps", || {
            node.metric("wasmkeep_hibernations_total", &["idle"]) >= times
                && node.metric("wasmkeep_resident_actors", &[]) == 0.0
        });
    };
    // A beat of the lease may fall into some of them.
    let costs = (1..=5).map(|time| {
        asleep(f64::from(time));
        let before = cluster.store.counts();
        assert_eq!(actor.get("/hello").status, 200);
        since(cluster.store.counts(), before)
    });
    let least = costs.min_by_key(|cost| cost.put + cost.get + cost.list).expect("five");
    assert_eq!((least.put, least.get, least.list), (1, 0, 0));
}

#[test]
fn writes_of_a_burst_share_their_uploads() {
    let cluster = Cluster::new();
    let (_node, actor) = with_slow_uploads(&cluster);
    let began = Instant::now();
    in_parallel(8, |_| {
        for _ in 0..25 {
            actor.exec("INSERT INTO t VALUES (1)");
        }
    });
    let burst = began.elapsed();
    assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (2)"), json!({ "changed": 1 }));
    let segments = cluster.keys("state/default/default/history/probe/").len();
    // One upload after another of 300 ms each, and what the first and the last event needed.
    let most = 4 + burst.as_millis() as usize / 300;
    assert!(segments <= most.min(100), "{segments} segments for 200 writes in {burst:?}");
}

#[test]
fn durable_writes_of_a_busy_actor_share_their_uploads() {
    const WRITES: usize = 96;
    let cluster = Cluster::new();
    let (_node, actor) = with_slow_uploads(&cluster);
    let segments = || cluster.keys("state/default/default/history/probe/").len();
    let before = segments();
    in_parallel(24, |writer| {
        for _ in 0..WRITES / 24 {
            let sql = format!("INSERT INTO t VALUES ({writer})");
            assert_eq!(actor.one("exec-durable", &sql), json!({ "changed": 1 }));
        }
    });
    let segments = segments() - before;
    assert!(segments < WRITES / 4, "{segments} segments for {WRITES} durable writes");
    assert_eq!(actor.query("SELECT count(*) FROM t"), json!([[WRITES]]));
}

/// A node with an actor that has a table. From here on each upload takes 300 ms.
fn with_slow_uploads(cluster: &Cluster) -> (Node, Actor) {
    let node = cluster.node("n1").start();
    let actor = node.actor("probe/one");
    actor.exec("CREATE TABLE t (x)");
    let slow = Fault::always(Operation::Put, What::Silent(300)).at(HISTORIES);
    cluster.store.fails(&slow);
    (node, actor)
}

fn since(now: Counts, before: Counts) -> Counts {
    Counts {
        get: now.get - before.get,
        put: now.put - before.put,
        list: now.list - before.list,
        delete: now.delete - before.delete,
    }
}
