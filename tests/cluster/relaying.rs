//! What a client of one node sees of an actor that another has: nothing of the way.

use serde_json::json;

use super::serves;
use crate::support::{Cluster, Node, WebSocket};

/// Two nodes, of which the second has the actor `probe/there`.
fn pair(cluster: &Cluster) -> (Node, Node) {
    let first = cluster.node("n1").start();
    let second = cluster.node("n2").start();
    assert_eq!(second.actor("probe/there").get("/hello").status, 200);
    (first, second)
}

#[test]
fn bodies_and_headers_pass_both_ways() {
    let cluster = Cluster::new();
    let (first, _second) = pair(&cluster);
    let actor = first.actor("probe/there");
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let echoed = actor.post("/echo-body?stream=1", &body);
    assert_eq!(echoed.status, 200);
    assert!(echoed.body == body, "{} of {} bytes came back", echoed.body.len(), body.len());
    let seen =
        actor.send("GET", "/echo?a=%20b", &[("x-mine", "1"), ("x-wasmkeep-caller", "me")], &[]);
    let seen = seen.json();
    assert_eq!((&seen["path"], &seen["query"]), (&json!("/echo"), &json!("a=%20b")));
    let headers = seen["headers"].to_string();
    assert!(headers.contains("x-mine") && !headers.contains("x-wasmkeep"), "{headers}");
    assert_eq!(actor.get("/headers").headers("set-cookie").len(), 2);
    let streamed = actor.get("/stream?chunks=5&size=1000&ms=5");
    assert_eq!(streamed.body.len(), 5000);
}

#[test]
fn refusals_and_failures_of_the_other_node_reach_the_client_unchanged() {
    let cluster = Cluster::new();
    let (first, second) = pair(&cluster);
    for path in ["/trap", "/loop", "/nothing", "/error?status=418"] {
        let (here, there) =
            (second.actor("probe/there").get(path), first.actor("probe/there").get(path));
        assert_eq!(here.status, there.status, "{path}");
        for header in ["x-wasmkeep-reason", "x-wasmkeep-event"] {
            assert_eq!(here.header(header), there.header(header), "{path}: {header}");
        }
        assert_eq!(here.body, there.body, "{path}");
    }
}

#[test]
fn websockets_pass_and_end_with_the_node_that_has_their_actor() {
    let cluster = Cluster::new();
    let (first, mut second) = pair(&cluster);
    let mut far = WebSocket::open(&first, "probe/there?name=far");
    let mut near = WebSocket::open(&second, "probe/there?name=near");
    far.echoes("over two nodes");
    near.echoes("over one");
    let sent = first.actor("probe/there").post("/broadcast", "to all");
    assert_eq!(sent.json(), json!({ "sent": 2 }));
    assert_eq!((far.next_text(), near.next_text()), ("to all".into(), "to all".into()));
    far.close(4001, "enough");
    assert_eq!(far.closed(), (4001, "enough".into()));
    let mut far = WebSocket::open(&first, "probe/there?name=again");
    far.echoes("again");
    second.kill();
    assert_eq!(far.closed().0, 1012);
}

#[test]
fn a_refused_websocket_is_refused_through_another_node_too() {
    let cluster = Cluster::new();
    let (first, second) = pair(&cluster);
    for node in [&first, &second] {
        let mut refused = WebSocket::open(node, "probe/there?refuse=1");
        assert_eq!(refused.closed().0, 1008);
    }
}

#[test]
fn a_get_waits_for_a_dead_nodes_actor_to_move() {
    let cluster = Cluster::new();
    let (first, mut second) = pair(&cluster);
    second.actor("probe/there").exec("CREATE TABLE t (x)");
    assert_eq!(
        second.actor("probe/there").one("exec-durable", "INSERT INTO t VALUES (1)"),
        json!({ "changed": 1 })
    );
    second.kill();
    assert_eq!(first.actor("probe/there").get("/hello").status, 200, "it was not held");
    serves(&first.actor("probe/there"));
    assert_eq!(first.actor("probe/there").query("SELECT x FROM t"), json!([[1]]));
}

#[test]
fn nobody_but_nodes_reaches_the_cluster_port() {
    let cluster = Cluster::new();
    let first = cluster.node("n1").start();
    let line = first.log();
    let line = line.lines().find(|line| line.contains("joined the cluster")).expect("it joined");
    let port = line.split("cluster=").nth(1).expect("its port").trim();
    let address = port.parse().expect("an address");
    let answer = first.client_of(address, "").try_send("GET", "/_wasmkeep/metrics", &[], &[]);
    assert!(answer.is_err(), "a plain client got {answer:?}");
    assert!(first.metric("wasmkeep_peer_connections_refused_total", &["plain-text"]) >= 1.0);
}
