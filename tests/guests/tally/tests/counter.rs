//! The counter on the real server: `cargo test` builds it, as wasmkeep.toml says, and starts one.

use std::time::Duration;

use serde_json::Value;
use wasmkeep_testkit::{Node, eventually};

#[test]
fn a_count_outlives_sleep_and_a_crash() {
    let mut node = Node::of_project();
    let added: Value = node.actor("counter/alice").post("/add?n=41", "").json();
    assert_eq!(added["total"], 41);
    node.sleep("counter/alice");
    assert!(node.actor("counter/alice").get("/").text().contains("visit 42"));
    node.crash();
    let history: Value = node.actor("counter/alice").get("/history?limit=1").json();
    assert_eq!(history[0]["total"], 42);
    assert!(node.actor("counter/bob").get("/").text().contains("visit 1"), "another actor");
}

#[test]
fn a_counter_forgets_when_its_time_has_come() {
    let node = Node::of_project();
    let alice = node.actor("counter/alice");
    alice.post("/add?n=41", "").ok();
    alice.post("/forget?in=3600", "").ok();
    node.advance(Duration::from_secs(3599));
    assert_ne!(alice.get("/history").text(), "[]");
    node.advance(Duration::from_secs(1));
    eventually("alice has forgotten", || alice.get("/history").text() == "[]");
}
