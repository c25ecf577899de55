//! The bucket cannot be reached: by one node, by all.

use serde_json::json;

use crate::support::{Cluster, TAKEOVER_PATIENCE, Way, eventually, eventually_within};

#[test]
fn a_node_cut_off_from_the_bucket_stops_answering_and_its_actors_move() {
    let cluster = Cluster::new();
    let way = Way::to(&cluster.store);
    let first = cluster.node_behind("n1", &way).errors_are_fine().start();
    let second = cluster.node("n2").start();
    let (here, there) = (first.actor("probe/one"), second.actor("probe/one"));
    here.exec("CREATE TABLE t (x)");
    assert_eq!(here.one("exec-durable", "INSERT INTO t VALUES (1)"), json!({ "changed": 1 }));
    way.cut();
    eventually_within(TAKEOVER_PATIENCE, "it answers for nothing", || {
        let answer = here.get("/hello");
        answer.status == 503 && answer.header("x-wasmkeep-reason") == Some("no-lease")
    });
    // Events are refused a second before the lease ends.
    eventually("it says that it is not ready", || first.get("/_wasmkeep/ready").status == 503);
    eventually_within(TAKEOVER_PATIENCE, "the actor moves", || there.get("/hello").status == 200);
    assert_eq!(there.query("SELECT x FROM t"), json!([[1]]));
    way.mend();
    eventually_within(TAKEOVER_PATIENCE, "it is a node of the cluster again", || {
        here.get("/hello").status == 200
    });
    assert_eq!(here.query("SELECT x FROM t"), json!([[1]]));
    eventually("it says that it is ready", || first.get("/_wasmkeep/ready").status == 200);
}

#[test]
fn an_outage_for_all_loses_nothing_and_ends_by_itself() {
    let cluster = Cluster::new();
    let ways = [Way::to(&cluster.store), Way::to(&cluster.store)];
    let nodes = ["n1", "n2"];
    let nodes: Vec<_> = nodes
        .iter()
        .zip(&ways)
        .map(|(name, way)| cluster.node_behind(name, way).errors_are_fine().start())
        .collect();
    let actors = [nodes[0].actor("probe/one"), nodes[1].actor("probe/two")];
    for actor in &actors {
        actor.exec("CREATE TABLE t (x)");
        assert_eq!(actor.one("exec-durable", "INSERT INTO t VALUES (1)"), json!({ "changed": 1 }));
    }
    ways.iter().for_each(Way::cut);
    for actor in &actors {
        eventually_within(TAKEOVER_PATIENCE, "nothing is answered", || {
            actor.get("/hello").status == 503
        });
    }
    ways.iter().for_each(Way::mend);
    for actor in &actors {
        eventually_within(TAKEOVER_PATIENCE, "it is served again", || {
            actor.get("/hello").status == 200
        });
        assert_eq!(actor.query("SELECT x FROM t"), json!([[1]]));
    }
}
