//! The examples do what their READMEs say, and their pages work in a real browser.

mod chat;
mod kv;
mod queue;
mod readme;
mod todo_front;

use serde_json::json;

use crate::support::Node;

#[test]
fn the_demo_serves_what_it_prints() {
    let node = Node::demo().start();
    let printed: String =
        std::iter::from_fn(|| node.printed_line()).map(|line| line + "\n").collect();
    let url = format!("http://{}/", node.address());
    let paths = printed.split(&url).skip(1).map(|after| {
        let path = after.split([' ', '\n', '\'']).next().expect("a path to try");
        format!("/{path}")
    });
    let paths: Vec<String> = paths.collect();
    let [page, actor, add, history] = &paths[..] else { panic!("four to try: {printed}") };
    assert_eq!(node.get(page).header("location"), Some("/rooms/lobby"));
    assert!(node.get("/rooms/lobby").text().contains("<title>Chat</title>"));
    assert!(node.get(actor).text().contains("visit 1"));
    assert_eq!(node.client().post(add, "").json()["total"], 6);
    assert_eq!(node.get(history).json()[0]["amount"], 5);
}

#[test]
fn the_counters_readme_tells_the_truth() {
    a_counter_counts("wasmkeep-example-counter.wasm");
}

#[test]
fn the_counter_in_typescript_counts_alike() {
    a_counter_counts("wasmkeep-example-counter-ts.wasm");
}

fn a_counter_counts(file: &str) {
    let node = Node::serve().class("demo", file).start();
    let (alice, bob) = (node.actor("demo/alice"), node.actor("demo/bob"));
    assert_eq!(alice.get("").text(), "Hello from demo/alice: visit 1\nSince I woke: 1\n");
    assert_eq!(alice.post("/add?n=41", "").json(), json!({ "added": 41, "total": 42 }));
    let history = alice.get("/history?limit=1").json();
    assert_eq!(history[0]["amount"], 41);
    assert_eq!(history[0]["total"], 42);
    assert_eq!(bob.get("").text(), "Hello from demo/bob: visit 1\nSince I woke: 1\n");
}

#[test]
fn the_notes_readme_tells_the_truth() {
    let node = Node::serve().class("notes", "wasmkeep-example-notes.wasm").start();
    let alice = node.actor("notes/alice");
    let made = alice.post("/notes", r#"{"title":"Shopping","text":"milk and bread"}"#);
    assert_eq!(made.status, 201);
    let found = alice.get("/search?q=brea").json();
    let expected = json!([{ "id": 1, "title": "Shopping", "excerpt": "milk and [bread]" }]);
    assert_eq!(found, expected);
    let put = br#"{"title":"Shopping","text":"milk"}"#;
    assert_eq!(alice.send("PUT", "/notes/1", &[], put).json()["text"], "milk");
    assert_eq!(alice.get("/search?q=bread").json(), json!([]));
    assert_eq!(alice.send("DELETE", "/notes/1", &[], &[]).status, 204);
    assert_eq!(alice.get("/notes/1").status, 404);
}
