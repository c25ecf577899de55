//! A clock that stands: alarms and sleep, without waiting for them.

use std::path::Path;

use serde_json::json;

use crate::support::{HOUR_MS, Node, WebSocket, eventually, run, wasmkeep};

fn command(data_dir: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    run(wasmkeep().args(arguments).arg("--data-dir").arg(data_dir))
}

#[track_caller]
fn advance(node: &Node, by: &str) {
    let (code, said) = command(&node.data_dir(), &["clock", "advance", by]);
    assert_eq!(code, Some(0), "{said}");
}

fn resident(node: &Node) -> f64 {
    node.metric("wasmkeep_resident_actors", &[])
}

#[test]
fn an_alarm_runs_when_the_clock_is_moved_and_not_before() {
    let node = Node::probe().flag("--clock", "manual").start();
    let actor = node.actor("probe/a");
    let set = actor.post(&format!("/alarm?in={HOUR_MS}"), "").json();
    advance(&node, "59m");
    assert_eq!(actor.get("/alarm").json()["at"], set["at"]);
    assert_eq!(resident(&node), 1.0, "the look woke it");
    advance(&node, "1m");
    eventually("the alarm runs", || actor.get("/alarm").json()["at"].is_null());
    let at = set["at"].as_u64().expect("a time");
    assert_eq!(
        actor.get("/alarms").json(),
        json!([[at, 1]]),
        "at its moment, by the guest's clock"
    );
    let began = actor.get("/span?ms=1").json()["began"].as_u64();
    assert_eq!(began, Some(at), "the clock stands");
}

#[test]
fn retries_of_an_alarm_wait_for_the_clock_too() {
    let node = Node::probe().flag("--clock", "manual").start();
    let actor = node.actor("probe/badalarm");
    actor.post("/alarm?in=1000", "");
    advance(&node, "1s");
    let attempts = |n: f64| {
        let failed = ["kind=\"alarm\"", "outcome=\"failed\""];
        eventually("it has failed", || node.metric("wasmkeep_events_total", &failed) == n);
    };
    attempts(1.0);
    advance(&node, "2s");
    attempts(2.0);
    advance(&node, "1d");
    attempts(3.0);
}

#[test]
fn idle_actors_sleep_when_the_clock_moves_far_enough() {
    let node = Node::probe().flag("--clock", "manual").start();
    let mut socket = WebSocket::open(&node, "probe/a");
    node.actor("probe/b").get("/memory");
    advance(&node, "29s");
    assert_eq!(resident(&node), 2.0);
    let busy = node.busy("probe/b", 500);
    advance(&node, "30s");
    assert_eq!(resident(&node), 1.0, "one has an event");
    drop(busy);
    socket.echoes("awake again");
    assert_eq!(node.actor("probe/a").get("/memory").text(), "1", "in another instance");
}

#[test]
fn an_operator_has_an_idle_actor_sleep() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    assert_eq!(actor.get("/memory").text(), "1");
    let hibernate = |name: &str| command(&node.data_dir(), &["actor", "hibernate", name]);
    assert_eq!(hibernate("probe/a").0, Some(0));
    assert_eq!(resident(&node), 0.0);
    assert_eq!(actor.get("/memory").text(), "1", "its memory was lost");
    assert_eq!(hibernate("probe/nobody").0, Some(0));
    let mut busy = node.busy("probe/a", 500);
    let (code, said) = hibernate("probe/a");
    assert!(code == Some(3) && said.contains("has events"), "{code:?}: {said}");
    assert_eq!(busy.chunks().expect("its end"), crate::support::DONE);
    assert_eq!(node.metric("wasmkeep_hibernations_total", &["cause=\"asked\""]), 1.0);
}

#[test]
fn a_clock_that_runs_is_not_moved() {
    let node = Node::probe().start();
    let (code, said) = command(&node.data_dir(), &["clock", "advance", "1h"]);
    assert!(code == Some(3) && said.contains("--clock manual"), "{code:?}: {said}");
    let (code, said) = command(&node.data_dir(), &["clock", "advance", "soon"]);
    assert!(code == Some(2) && said.contains("\"soon\" is no time"), "{code:?}: {said}");
    let nowhere = tempfile::tempdir().expect("make a folder");
    assert_ne!(command(nowhere.path(), &["clock", "advance", "1h"]).0, Some(0));
}
