use std::time::Duration;

use serde_json::json;

use crate::support::{Node, Server};

/// One test, and one node: compiling such a component is most of it.
#[test]
fn an_actor_of_the_engine_web_has_storage_calls_and_what_browsers_have() {
    let outside = Server::saying("HTTP/1.1 203 Fine\r\ncontent-length: 5\r\n\r\nhello");
    let node = Node::serve()
        .class("web", "guest-web-ts.wasm")
        .class("hello", "guest-hello.wasm")
        .flag("--allow-outbound", "127.0.0.1/32")
        .starts_within(Duration::from_secs(90))
        // An interpreter on a slow machine.
        .flag("--cpu-budget-ms", "400")
        .start();
    let web = node.actor("web/a");
    let parts = web.get("/parts?of=https%3A%2F%2Fexample.org%3A8443%2Fx%3Fa%3D1%26b%3D2").json();
    assert_eq!(parts, json!({ "host": "example.org:8443", "names": ["a", "b"] }));
    assert_eq!(web.post("/visits?wait=20", "").json(), 1);
    assert_eq!(web.post("/visits", "").json(), 2);
    assert_eq!(node.actor("web/b").post("/visits", "").json(), 1);
    assert_eq!(web.get("/ask?target=hello/a").text(), "hello");
    assert_eq!(web.get("/shout").text(), "ONE TWO");
    let fetched = web.get(&format!("/fetch?url={}", outside.url("/x"))).json();
    assert_eq!(fetched, json!({ "status": 203, "text": "hello" }));
    assert_eq!(web.get("/nothing").status, 404);
}
