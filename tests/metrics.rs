//! `/_wasmkeep/metrics`: every metric is there, and moves.

use crate::support::{Node, eventually};

#[test]
fn metrics_are_text_with_help_for_each() {
    let node = Node::probe().start();
    node.actor("probe/a").get("/hello").text();
    let answer = node.get("/_wasmkeep/metrics");
    let kind = answer.header("content-type").expect("a content type");
    assert!(kind.starts_with("text/plain"), "{kind}");
    let text = answer.text();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        assert!(name.starts_with("wasmkeep_"), "{line}");
    }
    for name in [
        "wasmkeep_events_total",
        "wasmkeep_event_seconds",
        "wasmkeep_resident_actors",
        "wasmkeep_wakes_total",
        "wasmkeep_admission_wait_seconds",
        "wasmkeep_guest_log_lines_total",
        "wasmkeep_guest_log_lines_dropped_total",
    ] {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} has no type");
    }
}

#[test]
fn events_are_counted_by_class_and_outcome() {
    let node = Node::probe().class("hello", "guest-hello.wasm").start();
    for _ in 0..3 {
        node.actor("probe/a").get("/hello").text();
    }
    node.actor("probe/a").get("/trap");
    node.actor("hello/a").get("/").text();
    let events =
        |class: &str, outcome: &str| node.metric("wasmkeep_events_total", &[class, outcome]);
    // An answer may reach the client a moment before its event is counted.
    eventually("the events are counted", || {
        events(r#"class="probe""#, r#"outcome="answered""#) == 3.0
            && events(r#"class="probe""#, r#"outcome="failed""#) == 1.0
            && events(r#"class="hello""#, r#"outcome="answered""#) == 1.0
    });
    let timed = node.metric("wasmkeep_event_seconds_count", &[r#"class="probe""#]);
    assert_eq!(timed, 4.0);
    let seconds = node.metric("wasmkeep_event_seconds_sum", &[r#"class="probe""#]);
    assert!(seconds > 0.0 && seconds < 10.0, "{seconds}");
}

#[test]
fn refusals_are_counted_by_reason() {
    let node = Node::probe().flag("--max-instances", "1").start();
    node.get("/").refused(404, "not-found", "not-run");
    node.get("/actor/Probe/a").refused(400, "bad-request", "not-run");
    node.actor("probe/a").get("/trap").refused(500, "trapped", "ran");
    node.actor("probe/a").get("/nothing").refused(500, "no-response", "ran");
    for reason in ["not-found", "bad-request", "trapped", "no-response"] {
        let label = format!("reason={reason:?}");
        let counted = node.metric("wasmkeep_refusals_total", &[&label]);
        assert_eq!(counted, 1.0, "{reason}");
    }
}

#[test]
fn residents_wakes_and_hibernations_are_counted() {
    let node = Node::probe().flag("--max-instances", "2").start();
    for name in ["a", "b", "c", "d"] {
        node.actor(&format!("probe/{name}")).get("/hello").text();
    }
    assert_eq!(node.metric("wasmkeep_wakes_total", &[]), 4.0);
    assert_eq!(node.metric("wasmkeep_resident_actors", &[]), 2.0);
    assert_eq!(node.metric("wasmkeep_hibernations_total", &[r#"cause="evicted""#]), 2.0);
    assert_eq!(node.metric("wasmkeep_admission_wait_seconds_count", &[]), 2.0);
    assert_eq!(node.metric("wasmkeep_process_exits_total", &[]), 0.0);
}

#[test]
fn guest_log_lines_are_counted_and_limited() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    for _ in 0..80 {
        actor.get("/log").text();
    }
    let logged = node.metric("wasmkeep_guest_log_lines_total", &[]);
    let dropped = node.metric("wasmkeep_guest_log_lines_dropped_total", &[]);
    assert_eq!(logged + dropped, 160.0, "each of 80 events logs two lines");
    assert!(logged >= 100.0, "the first 100 lines of a second are logged, not {logged}");
}
