//! The kit on the guest that does what a request tells it to. `cargo xtask test` runs this, and says
//! where server and guest are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use wasmkeep_testkit::{Closed, Node, eventually};

fn probe() -> PathBuf {
    let folder = std::env::var_os("WASMKEEP_COMPONENTS").map(PathBuf::from);
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/components");
    folder.unwrap_or(target).join("guest-probe.wasm")
}

fn node() -> Node {
    Node::builder().class("probe", probe()).start()
}

#[test]
fn an_alarm_runs_when_the_clock_is_moved() {
    let node = node();
    let actor = node.actor("probe/a");
    actor.post("/alarm?in=3600000", "").ok();
    node.advance(Duration::from_secs(3599));
    assert!(actor.get("/alarm").json::<Value>()["at"].is_u64());
    node.advance(Duration::from_secs(1));
    eventually("it runs", || actor.get("/alarm").json::<Value>()["at"].is_null());
}

#[test]
fn what_happens_is_followed() {
    let node = node();
    let mut tail = node.tail();
    node.actor("probe/a").get("/log?text=hello-tail").ok();
    let line = tail.wait_for("the line", |record| record["kind"] == "log");
    assert_eq!((&line["name"], &line["text"]), (&json!("a"), &json!("hello-tail")));
    let request = tail.wait_for("the request", |record| record["kind"] == "request");
    assert_eq!(request["status"], 200);
    eventually("the server's log has it", || node.log().contains("hello-tail"));
}

#[test]
fn data_outlives_a_crash_and_a_restart_and_sockets_do_not() {
    let mut node = node();
    let sql = json!({ "steps": [
        { "op": "exec", "sql": "CREATE TABLE t (n)" },
        { "op": "exec", "sql": "INSERT INTO t VALUES (7)" },
    ] });
    node.actor("probe/a").post("/sql", sql.to_string()).ok();
    let mut socket = node.websocket("/actor/probe/a?name=ann");
    socket.send("hello");
    assert_eq!(socket.next_text(), "hello");
    socket.send_binary([1, 2]);
    assert_eq!(socket.next_binary(), [1, 2]);
    assert!(socket.is_silent_for(Duration::from_millis(20)));
    node.sleep("probe/a");
    node.crash();
    assert_eq!(socket.closed().code, 1006);
    let mut socket = node.websocket("/actor/probe/a?name=ann");
    node.restart();
    assert_eq!(socket.closed().code, 1012);
    let mut socket = node.websocket("/actor/probe/a?name=ann");
    socket.send("close");
    assert_eq!(socket.closed(), Closed { code: 4000, reason: "told to close".to_owned() });
    assert_eq!(node.sql::<Value>("probe/a", "SELECT n FROM t"), [json!({ "n": 7 })]);
}

#[test]
#[should_panic(expected = "has events")]
fn an_actor_that_is_busy_does_not_sleep() {
    let node = node();
    let actor = node.actor("probe/a");
    let mut tail = node.tail();
    std::thread::spawn(move || actor.get("/wait?ms=2000"));
    tail.wait_for("it wakes", |record| record["kind"] == "wake");
    node.sleep("probe/a");
}
