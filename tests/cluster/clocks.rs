//! Wall clocks that are wrong, and that are set while nodes run: nothing of a lease goes by them.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::serves;
use crate::support::{Cluster, WallClock};

#[test]
fn clocks_ten_minutes_apart_and_set_while_nodes_run_change_nothing() {
    let cluster = Cluster::new();
    let clocks = [WallClock::off_by(-600), WallClock::off_by(600)];
    let mut first = clocks[0].under(cluster.node("n1")).start();
    let second = clocks[1].under(cluster.node("n2")).start();
    let (here, there) = (first.actor("probe/one"), second.actor("probe/one"));
    here.exec("CREATE TABLE t (x)");
    let mut rows = 0;
    let mut writes = |times: u32| {
        for _ in 0..times {
            let done = there.one("exec-durable", "INSERT INTO t VALUES (1)");
            assert_eq!(done, json!({ "changed": 1 }));
            rows += 1;
            sleep(Duration::from_millis(500));
        }
        rows
    };
    writes(4);
    // Past each other, and past every lease that was ever written.
    clocks[0].step(600);
    clocks[1].step(-600);
    writes(26);
    assert_eq!(first.metric("wasmkeep_give_ups_total", &[]), 0.0);
    let taken = second.metric("wasmkeep_holds_total", &["taken"]);
    assert_eq!(taken, 0.0, "a live node's actor was taken");
    // And they change nothing about when a dead node's actors move.
    first.kill();
    serves(&there);
    let rows = writes(1);
    assert_eq!(there.query("SELECT count(*) FROM t"), json!([[rows]]));
}
