//! A node that was on its own becomes one of a cluster, and keeps its data.

use serde_json::json;

use crate::support::{Cluster, Node};

#[test]
fn data_of_a_node_on_its_own_is_adopted_into_the_bucket() {
    let cluster = Cluster::new();
    let mut node = Node::probe().start();
    node.actor("probe/old").exec("CREATE TABLE t (x)");
    node.actor("probe/old").exec("INSERT INTO t VALUES (1)");
    node.stop_cleanly();
    node.start_again_as(cluster.node("n1"));
    assert_eq!(node.actor("probe/old").query("SELECT x FROM t"), json!([[1]]));
    node.stop_cleanly();

    // The other node never saw that disk.
    let other = cluster.node("n2").start();
    assert_eq!(other.actor("probe/old").query("SELECT x FROM t"), json!([[1]]));
    assert_eq!(other.actor("probe/old").get("/init").text(), "1");
}
