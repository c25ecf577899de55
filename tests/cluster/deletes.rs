//! An actor that deleted itself is gone from every node, and from the bucket.

use serde_json::json;

use crate::support::{Cluster, eventually};

#[test]
fn a_deleted_actor_is_gone_everywhere_and_begins_anew() {
    for kind in ["delete-self", "delete-self-durable"] {
        let cluster = Cluster::new();
        let mut first = cluster.node("n1").start();
        let second = cluster.node("n2").start();
        let actor = first.actor("probe/one");
        actor.exec("CREATE TABLE secrets (x)");
        assert_eq!(
            actor.one("exec-durable", "INSERT INTO secrets VALUES ('a-secret')"),
            json!({ "changed": 1 })
        );
        assert_eq!(actor.steps(json!([{ "op": kind }])), [json!({ "deleted": true })]);
        // In the same hold, and then from the bucket alone.
        assert_eq!(actor.get("/init").text(), "1", "{kind}");
        actor.exec("CREATE TABLE anew (x)");
        actor.exec("INSERT INTO anew VALUES (1)");
        first.stop_cleanly();
        let moved = second.actor("probe/one");
        assert_eq!(moved.query("SELECT x FROM anew"), json!([[1]]), "{kind}");
        let gone = moved.one("query", "SELECT x FROM secrets");
        assert!(gone["error"]["message"].to_string().contains("no such table"), "{kind}: {gone}");
        // Newest first; at one position the snapshot comes last.
        eventually("the oldest thing there is the snapshot of the reset", || {
            let history = cluster.keys("state/default/default/history/probe/");
            history.last().is_some_and(|oldest| oldest.ends_with(".snp"))
        });
    }
}
