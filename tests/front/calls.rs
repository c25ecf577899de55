//! Calls of the front to actors.

use serde_json::{Value as Json, json};

use super::{front, front_and_probe, header, on_to};
use crate::support::{Node, Raw, eventually};

/// What came of one call of the front.
#[track_caller]
fn call(node: &Node, target: &str, path: &str) -> Json {
    node.get(&on_to("/call", &[target], path)).json()
}

#[track_caller]
fn call_many(node: &Node, targets: &[&str], path: &str) -> Vec<Json> {
    let answers = node.get(&on_to("/call-many", targets, path)).json();
    answers.as_array().expect("one for each").clone()
}

#[track_caller]
fn busy(answer: &Json, how: &str) {
    assert_eq!(answer["error"], "failed", "{answer}");
    let message = answer["message"].as_str().expect("a message");
    assert!(message.starts_with("front busy: ") && message.contains(how), "{answer}");
}

/// Has a request of the front wait for these actors, and returns once they all run.
fn holding(node: &Node, targets: &[&str], ms: u64) -> Raw {
    let running = |node: &Node| node.metric("wasmkeep_resident_actors", &[]);
    let before = running(node);
    let client = node.ask(&on_to("/call-many", targets, &format!("/wait?ms={ms}")));
    eventually("its callees run", || running(node) >= before + targets.len() as f64);
    client
}

#[test]
fn the_front_is_an_inside_caller() {
    let node = front_and_probe()
        .class("inner", "guest-probe.wasm")
        .flag("--access", "inner=internal")
        .class("known", "guest-probe.wasm")
        .flag("--access", "known=existing")
        .start();
    node.get("/actor/inner/a/hello").refused(403, "forbidden", "not-run");
    node.get("/actor/known/a/hello").refused(404, "no-such-actor", "not-run");
    assert_eq!(call(&node, "inner/a", "/hello")["body"], "hello");
    assert_eq!(call(&node, "known/a", "/hello")["body"], "hello", "it creates anywhere");
    assert_eq!(node.get("/actor/known/a/hello").text(), "hello");

    let echo = call(&node, "probe/a", "/echo?x=1");
    let echo: Json = serde_json::from_str(echo["body"].as_str().expect("a body")).expect("JSON");
    assert_eq!(header(&echo, "x-wasmkeep-caller"), Some("default/_front/main"));
    assert_eq!(header(&echo, "x-wasmkeep-evil"), None);
    assert_eq!(header(&echo, "x-wasmkeep-kv-durable"), Some("1"));
    assert_eq!(echo["query"], "x=1");
    let events = |kind| node.metric("wasmkeep_events_total", &["class=\"probe\"", kind]);
    assert_eq!((events("kind=\"call\""), events("kind=\"request\"")), (1.0, 0.0));
}

#[test]
fn nothing_can_call_the_front() {
    let node = front_and_probe().start();
    for target in ["_front/main", "none/a", "probe", "probe/", "probe/a/b", ""] {
        assert_eq!(
            call(&node, target, "/hello"),
            json!({ "error": "invalid-address" }),
            "{target}"
        );
    }
    let steps = json!([{ "op": "call", "calls": [{ "target": "_front/main" }] }]);
    let answers = node.actor("probe/a").steps(steps);
    assert_eq!(answers[0]["error"], "invalid-address");
}

#[test]
fn what_the_front_calls_starts_a_chain() {
    let node = front_and_probe().start();
    let path = on_to("/call", &["probe/b"], &on_to("/call", &["probe/a"], "/hello"));
    let answer = call(&node, "probe/a", &path).to_string();
    assert!(answer.contains("reentrant"), "{answer}");
    let path = on_to("/call", &["probe/b"], "/hello");
    let answer = call(&node, "probe/a", &path).to_string();
    assert!(answer.contains("hello"), "{answer}");
}

#[test]
fn several_calls_go_out_together_and_come_back_in_order() {
    let node = front_and_probe().start();
    let targets = ["probe/a", "probe/b", "none/a", "probe/c"];
    let answers = call_many(&node, &targets, "/address");
    let names: Vec<_> = answers.iter().map(|answer| answer["body"].to_string()).collect();
    assert!(names[0].contains("\\\"a\\\""), "{names:?}");
    assert!(names[1].contains("\\\"b\\\""), "{names:?}");
    assert_eq!(answers[2]["error"], "invalid-address");
    assert!(names[3].contains("\\\"c\\\""), "{names:?}");
    let many: Vec<_> = (0..17).map(|_| "probe/a").collect();
    assert!(call_many(&node, &many, "/hello").iter().all(|answer| answer["error"] == "failed"));
}

#[test]
fn at_most_a_quarter_of_the_slots_waits_on_one_actor() {
    let node = front_and_probe().flag("--max-front-requests", "8").start();
    let mut held = vec![holding(&node, &["probe/slow"], 8000)];
    eventually("its call waits", || node.metric("wasmkeep_resident_actors", &[]) == 1.0);
    held.extend((0..7).map(|_| node.ask(&on_to("/call", &["probe/slow"], "/hello"))));
    let refused = || node.metric("wasmkeep_front_calls_refused_total", &["bound=\"actor\""]);
    eventually("all but two are refused", || refused() == 6.0);
    let refused = call(&node, "probe/slow", "/hello");
    busy(&refused, "2 calls of the front wait for this actor");
    assert_eq!(call(&node, "probe/other", "/hello")["body"], "hello");
    let unavailable = node.get(&on_to("/ask", &["probe/slow"], "/hello"));
    assert_eq!((unavailable.status, unavailable.header("retry-after")), (503, Some("1")));
    assert_eq!(node.get(&on_to("/ask", &["none/x"], "/hello")).status, 500);
    for mut client in held {
        assert_eq!(client.answer().expect("an answer").status, 200);
    }
    assert_eq!(call(&node, "probe/slow", "/hello")["body"], "hello");
}

#[test]
fn at_most_as_many_calls_wait_as_there_are_slots() {
    let node = front_and_probe().flag("--max-front-requests", "3").start();
    let mut held = holding(&node, &["probe/a", "probe/b", "probe/c"], 5000);
    let refused = call(&node, "probe/d", "/hello");
    busy(&refused, "too many front calls waiting on this node");
    assert_eq!(node.actor("probe/d").get("/hello").text(), "hello", "only the front is refused");
    assert_eq!(held.answer().expect("an answer").status, 200);
    assert_eq!(call(&node, "probe/d", "/hello")["body"], "hello");
    assert_eq!(node.metric("wasmkeep_front_calls_refused_total", &["bound=\"node\""]), 1.0);
}

#[test]
fn a_call_gives_up_at_the_actors_limit_and_the_front_answers() {
    let node = front_and_probe().flag("--wall-budget-ms", "500").start();
    assert_eq!(call(&node, "probe/a", "/wait?ms=20000"), json!({ "error": "timeout" }));
    let unavailable = node.get(&on_to("/ask", &["probe/b"], "/wait?ms=20000"));
    assert_eq!((unavailable.status, unavailable.header("retry-after")), (503, Some("1")));
}

#[test]
fn what_the_host_answers_for_an_actor_comes_back_as_a_client_gets_it() {
    let node = front_and_probe().start();
    let answer = call(&node, "probe/a", "/trap");
    assert_eq!(answer["status"], 500);
    assert_eq!(header(&answer, "x-wasmkeep-reason"), Some("trapped"));
    let alone = front().start();
    assert_eq!(call(&alone, "probe/a", "/hello"), json!({ "error": "invalid-address" }));
}
