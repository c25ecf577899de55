//! Each actor on one node at a time, whoever is asked.

use serde_json::json;

use crate::support::{Cluster, eventually, in_parallel};

#[test]
fn every_node_answers_for_an_actor_that_one_of_them_has() {
    let cluster = Cluster::new();
    let nodes = ["n1", "n2", "n3"].map(|name| cluster.node(name).start());
    let actors = nodes.each_ref().map(|node| node.actor("probe/one"));
    actors[0].exec("CREATE TABLE t (x)");
    for (at, actor) in actors.iter().enumerate() {
        actor.exec(&format!("INSERT INTO t VALUES ({at})"));
    }
    for actor in &actors {
        assert_eq!(actor.query("SELECT x FROM t ORDER BY x"), json!([[0], [1], [2]]));
    }
    let open: usize = nodes.iter().map(|node| node.databases().len()).sum();
    assert_eq!(open, 1, "its database is on more than one node");
    assert_eq!(cluster.keys("state/default/default/owners/probe/").len(), 1);
}

#[test]
fn three_nodes_asked_at_once_for_a_new_actor_make_it_once() {
    let cluster = Cluster::new();
    let nodes = ["n1", "n2", "n3"].map(|name| cluster.node(name).start());
    for round in 0..5 {
        let name = format!("probe/new-{round}");
        let answers = in_parallel(nodes.len(), |at| nodes[at].actor(&name).get("/init").text());
        assert_eq!(answers, ["1", "1", "1"], "on-init ran more than once");
    }
    for round in 0..5 {
        let name = hex(&format!("new-{round}"));
        let segments = cluster.keys(&format!("state/default/default/history/probe/{name}/"));
        let generations: std::collections::BTreeSet<_> =
            segments.iter().filter_map(|key| key.rsplit('/').next()?.split('-').next()).collect();
        assert_eq!(generations.len(), 1, "more than one generation wrote: {segments:?}");
    }
}

#[test]
fn a_clean_stop_hands_over_at_once() {
    let cluster = Cluster::new();
    let mut first = cluster.node("n1").start();
    let second = cluster.node("n2").start();
    first.actor("probe/one").exec("CREATE TABLE t (x)");
    first.actor("probe/one").exec("INSERT INTO t VALUES (1)");
    first.stop_cleanly();
    // Plain writes too: a clean stop ships all there is. No wait: the record is free.
    assert_eq!(second.actor("probe/one").query("SELECT x FROM t"), json!([[1]]));
}

#[test]
fn an_actor_that_slept_wakes_where_it_is_asked_for() {
    let cluster = Cluster::new();
    let first = cluster.node("n1").flag("--idle-timeout-secs", "1").start();
    let second = cluster.node("n2").start();
    first.actor("probe/one").exec("CREATE TABLE t (x)");
    eventually("it leaves memory", || {
        first.metric("wasmkeep_hibernations_total", &["idle"]) >= 1.0
    });
    assert_eq!(second.actor("probe/one").query("SELECT count(*) FROM t"), json!([[0]]));
    // The first one asks the second.
    assert_eq!(first.actor("probe/one").exec("INSERT INTO t VALUES (1)"), 1);
    assert_eq!(second.actor("probe/one").query("SELECT count(*) FROM t"), json!([[1]]));
}

#[test]
fn calls_reach_actors_on_other_nodes() {
    let cluster = Cluster::new();
    let first = cluster.node("n1").start();
    let second = cluster.node("n2").start();
    first.actor("probe/one").exec("CREATE TABLE t (x)");
    second.actor("probe/two").exec("CREATE TABLE t (x)");
    let called = second.actor("probe/two").get("/call?target=probe/one&path=/address").json();
    assert_eq!(called["status"], 200, "{called}");
    assert!(called["body"].as_str().is_some_and(|body| body.contains("\"one\"")), "{called}");
    // A chain that comes back to an actor that waits is refused on whichever node it ends.
    let back = "/call?target=probe/one&path=/call%3Ftarget%3Dprobe%2Ftwo%26path%3D%2Fhello";
    let circle = second.actor("probe/two").get(back).json();
    assert!(circle.to_string().contains("reentrant"), "{circle}");
}

fn hex(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}
