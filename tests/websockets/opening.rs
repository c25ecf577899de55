use serde_json::json;

use super::{connections, names, post};
use crate::support::{Answer, Node, Raw, WebSocket, eventually, upgrade};

fn ask(node: &Node, head: &str) -> Answer {
    let mut client = node.raw();
    client.send(head);
    client.answer().expect("an answer")
}

#[test]
fn a_client_that_is_accepted_talks_with_its_actor() {
    let node = Node::probe().start();
    let mut socket = WebSocket::open(&node, "probe/a?name=ann");
    socket.echoes("hello");
    socket.echoes("");
    socket.echoes(&"é".repeat(40_000));
    let actor = node.actor("probe/a");
    let [(id, name)] = &connections(&actor)[..] else { panic!("one socket") };
    assert_eq!(name, "ann");
    assert_eq!(post(&actor, &format!("/send?socket={id}"), "from HTTP"), json!({ "ok": true }));
    assert_eq!(socket.next_text(), "from HTTP");
    let elsewhere = node.actor("probe/b");
    assert_eq!(
        post(&elsewhere, &format!("/send?socket={id}"), "not yours"),
        json!({ "error": "Closed" })
    );
    socket.close(1000, "bye");
    assert_eq!(socket.closed(), (1000, "bye".to_owned()));
    socket.ends();
}

#[test]
fn what_is_sent_with_the_request_is_not_lost() {
    let node = Node::probe().start();
    let mut raw = node.raw();
    let head = format!("GET /actor/probe/a HTTP/1.1\r\n{}\r\n", upgrade());
    raw.send([head.into_bytes(), crate::support::masked(0x81, b"early")].concat());
    assert_eq!(raw.head().expect("a head").status, 101);
    assert_eq!(WebSocket(raw).next_text(), "early");
}

#[test]
fn an_actor_that_refuses_closes_with_1008_and_its_reason() {
    let node = Node::probe().start();
    let mut watching = WebSocket::open(&node, "probe/a?name=watching");
    let mut refused = WebSocket::open(&node, "probe/a?refuse=not%20you");
    assert_eq!(refused.closed(), (1008, "not you".to_owned()));
    refused.ends();
    let long = "é".repeat(100);
    let mut refused = WebSocket::open(&node, &format!("probe/a?refuse={}", "%C3%A9".repeat(100)));
    assert_eq!(refused.closed(), (1008, long[..122].to_owned()), "as much as a frame holds");
    assert_eq!(names(&node.actor("probe/a")), ["watching"]);
    // No close event came of what was never accepted.
    watching.echoes("still alone");
    assert_eq!(node.metric("wasmkeep_sockets", &[]), 1.0);
}

#[test]
fn a_handshake_that_is_none_is_refused_and_runs_nothing() {
    let node = Node::probe().start();
    let target = "GET /actor/probe/a HTTP/1.1\r\n";
    for (name, value) in [
        ("sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""),
        ("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="),
        ("dGhlIHNhbXBsZSBub25jZQ==", "not base64 at all, no!!!"),
    ] {
        let head = format!("{target}{}\r\n", upgrade().replace(name, value));
        ask(&node, &head).refused(400, "bad-request", "not-run");
    }
    for (name, value) in [("version: 13", "version: 8"), ("sec-websocket-version: 13\r\n", "")] {
        let head = format!("{target}{}\r\n", upgrade().replace(name, value));
        let answer = ask(&node, &head);
        answer.refused(426, "bad-request", "not-run");
        assert_eq!(answer.header("sec-websocket-version"), Some("13"));
    }
    assert_eq!(node.actor("probe/a").get("/init").text(), "1", "the first event is this one");
}

#[test]
fn a_request_that_only_names_websockets_is_an_ordinary_one() {
    let node = Node::probe().start();
    let path = "/actor/probe/a/memory HTTP/1.1\r\nhost: test\r\n";
    for head in [
        format!("GET {path}upgrade: websocket\r\n\r\n"),
        format!("GET {path}upgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
    ] {
        assert_eq!(ask(&node, &head).status, 200, "{head}");
    }
}

#[test]
fn access_rules_hold_for_upgrades_and_nothing_is_created() {
    let node = Node::probe()
        .class("inner", "guest-probe.wasm")
        .class("known", "guest-probe.wasm")
        .flag("--access", "inner=internal")
        .flag("--access", "known=existing:main")
        .start();
    let refused = |path: &str| match WebSocket::try_open(node.address(), path) {
        Ok(_) => panic!("{path} was opened"),
        Err(answer) => answer,
    };
    refused("inner/a").refused(403, "forbidden", "not-run");
    refused("known/new").refused(404, "no-such-actor", "not-run");
    refused("missing/a").refused(404, "not-found", "not-run");
    refused("probe/a%2Fb").refused(400, "bad-request", "not-run");
    assert!(node.databases().is_empty(), "nothing was created");
    let mut known = WebSocket::open(&node, "known/main");
    known.echoes("hello");
    assert_eq!(node.metric("wasmkeep_sockets", &[]), 1.0, "and no other is held");
}

#[test]
fn a_trap_while_it_opens_is_an_http_error() {
    let node = Node::probe().class("broken", "guest-probe.wasm").start();
    let answer = match WebSocket::try_open(node.address(), "broken/a?trap=1") {
        Ok(_) => panic!("it was opened"),
        Err(answer) => answer,
    };
    answer.refused(500, "trapped", "ran");
    assert_eq!(node.metric("wasmkeep_sockets", &[]), 0.0);
}

#[test]
fn a_client_that_leaves_while_its_open_waits_is_not_opened() {
    let node = Node::probe().start();
    let mut busy = node.busy("probe/a", 300);
    let mut leaving = Raw::connect(node.address());
    leaving.send(format!("GET /actor/probe/a HTTP/1.1\r\n{}\r\n", upgrade()));
    eventually("the socket waits", || node.metric("wasmkeep_sockets", &[]) == 1.0);
    drop(leaving);
    eventually("it is forgotten", || node.metric("wasmkeep_sockets", &[]) == 0.0);
    assert_eq!(busy.chunks().expect("its end"), crate::support::DONE);
    let skipped = ["kind=\"socket-open\"", "outcome=\"skipped\""];
    eventually("its event is skipped", || node.metric("wasmkeep_events_total", &skipped) == 1.0);
}

#[test]
fn an_actor_has_a_thousand_sockets_and_no_more() {
    let node = Node::probe().start();
    let mut sockets: Vec<_> = (0..1000).map(|_| WebSocket::open(&node, "probe/a")).collect();
    match WebSocket::try_open(node.address(), "probe/a") {
        Ok(_) => panic!("the 1,001st was opened"),
        Err(answer) => answer.refused(503, "too-many-sockets", "not-run"),
    };
    WebSocket::open(&node, "probe/b").echoes("another actor's");
    let actor = node.actor("probe/a");
    assert_eq!(post(&actor, "/broadcast", "to all"), json!({ "sent": 1000 }));
    for socket in &mut sockets {
        assert_eq!(socket.next_text(), "to all");
    }
    let mut last = sockets.pop().expect("one");
    last.close(1000, "");
    last.closed();
    let made_room = || WebSocket::try_open(node.address(), "probe/a").is_ok();
    eventually("a place is free again", made_room);
}
