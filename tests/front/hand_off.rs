use serde_json::{Value as Json, json};

use super::{front_and_probe, header, none_open, on_to};
use crate::support::{Answer, Node, Setup, WebSocket, eventually, upgrade};

/// The front before the probe, which is internal, and before one that takes only known actors.
fn internal() -> Setup {
    front_and_probe()
        .class("known", "guest-probe.wasm")
        .flag("--access", "probe=internal")
        .flag("--access", "known=existing:main")
}

/// Asks the front for a WebSocket of an actor, at a path of that actor.
fn hand_off(node: &Node, target: &str, path: &str) -> Result<WebSocket, Answer> {
    WebSocket::try_open_at(node.address(), &on_to("/hand-off", &[target], path), "")
}

#[track_caller]
fn refused(node: &Node, target: &str, path: &str) -> Answer {
    match hand_off(node, target, path) {
        Ok(_) => panic!("{target} was opened"),
        Err(answer) => answer,
    }
}

/// What the probe says of its sockets when the front asks.
fn attachments(node: &Node, target: &str) -> Vec<String> {
    let answer = node.get(&on_to("/ask", &[target], "/sockets")).json();
    let sockets = answer.as_array().expect("a list").clone();
    sockets.iter().map(|socket| socket[1].as_str().expect("text").to_owned()).collect()
}

#[test]
fn the_front_hands_a_socket_over_to_an_internal_actor() {
    let node = internal().start();
    let mut socket = hand_off(&node, "probe/caf\u{e9} x", "/deep/er?name=ann").expect("opened");
    socket.echoes("hello");
    assert_eq!(attachments(&node, "probe/caf\u{e9} x"), ["ann"]);
    none_open(&node);
    match WebSocket::try_open(node.address(), "probe/caf%C3%A9%20x") {
        Ok(_) => panic!("a client reached it"),
        Err(answer) => answer.refused(403, "forbidden", "not-run"),
    };
    socket.close(1000, "bye");
    assert_eq!(socket.closed(), (1000, "bye".to_owned()));
    socket.ends();
}

#[test]
fn the_actor_sees_the_fronts_path_and_the_clients_headers() {
    let node = internal().start();
    let path = on_to("/hand-off", &["probe/a"], "/ws?echo=&user=7");
    let headers = "cookie: a=1\r\nx-wasmkeep-caller: default/admin/root\r\n";
    let mut socket = WebSocket::try_open_at(node.address(), &path, headers).expect("it is opened");
    let [echo] = &attachments(&node, "probe/a")[..] else { panic!("one socket") };
    let echo: Json = serde_json::from_str(echo).expect("JSON");
    assert_eq!(echo["path"], "/ws?echo=&user=7");
    assert_eq!(echo["caller"], "Front");
    assert_eq!(header(&echo, "cookie"), Some("a=1"));
    assert_eq!(header(&echo, "x-wasmkeep-caller"), Some("default/_front/main"));
    assert_eq!(header(&echo, "x-wasmkeep-upgrade"), None);
    socket.echoes("hello");

    // At the actor's own path, a client is a client.
    let open = front_and_probe().start();
    let _socket = WebSocket::open(&open, "probe/a?echo=");
    let [echo] = &attachments(&open, "probe/a")[..] else { panic!("one socket") };
    let echo: Json = serde_json::from_str(echo).expect("JSON");
    assert_eq!((&echo["caller"], header(&echo, "x-wasmkeep-caller")), (&json!("Outside"), None));
}

#[test]
fn a_refusal_is_an_http_error_and_never_a_socket() {
    let node = internal().start();
    let answer = refused(&node, "probe/a", "/?refuse=not%20you");
    answer.refused(403, "socket-refused", "ran");
    assert!(answer.says("not you"), "{answer:?}");
    refused(&node, "probe/trapping", "/?trap=1").refused(500, "trapped", "ran");
    refused(&node, "missing/a", "/").refused(404, "not-found", "not-run");
    refused(&node, "Probe/a", "/").refused(404, "not-found", "not-run");
    refused(&node, "_front/main", "/").refused(404, "not-found", "not-run");
    refused(&node, "probe/a/b", "/").refused(400, "bad-request", "not-run");
    refused(&node, "probe/..", "/").refused(400, "bad-request", "not-run");
    refused(&node, "probe/", "/").refused(400, "bad-request", "not-run");
    refused(&node, "probe/a", "not-a-path").refused(500, "no-response", "ran");
    refused(&node, "probe/a", "/a b").refused(500, "no-response", "ran");
    assert!(attachments(&node, "probe/a").is_empty());
    eventually("no socket is held", || node.metric("wasmkeep_sockets", &[]) == 0.0);
    hand_off(&node, "known/new", "/").expect("the front creates in any class").echoes("hello");
}

#[test]
fn a_hand_off_that_lacks_a_header_is_the_fronts_mistake() {
    let node = internal().start();
    let ask = |query: &str| match WebSocket::try_open_at(
        node.address(),
        &format!("/hand-off?{query}"),
        "",
    ) {
        Ok(_) => panic!("{query} was opened"),
        Err(answer) => answer,
    };
    for (query, lacks) in [
        ("x-wasmkeep-handoff-class=probe&x-wasmkeep-handoff-name=a", "x-wasmkeep-handoff-path"),
        ("x-wasmkeep-handoff-class=probe&x-wasmkeep-handoff-path=/", "x-wasmkeep-handoff-name"),
        ("x-wasmkeep-handoff-name=a&x-wasmkeep-handoff-path=/", "x-wasmkeep-handoff-class"),
    ] {
        let answer = ask(query);
        answer.refused(500, "no-response", "ran");
        assert!(answer.says(&format!("{lacks} is missing")), "{answer:?}");
    }
    // And without any of them it is an answer.
    let answer = ask("");
    assert_eq!((answer.status, answer.text()), (200, "handed over".to_owned()));
    assert_eq!(node.metric("wasmkeep_sockets", &[]), 0.0);
}

#[test]
fn without_the_mark_the_headers_mean_nothing() {
    let node = internal().start();
    let path = on_to("/hand-off", &["probe/a"], "/");
    for headers in ["", "x-wasmkeep-upgrade: websocket\r\n", "upgrade: websocket\r\n"] {
        let mut client = node.raw();
        client.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n"));
        let answer = client.answer().expect("an answer");
        assert_eq!(answer.status, 426, "{headers}");
        for name in ["class", "name", "path"] {
            assert_eq!(answer.header(&format!("x-wasmkeep-handoff-{name}")), None);
        }
    }
    assert_eq!(node.get("/wants").text(), "false");
    match WebSocket::try_open_at(node.address(), "/wants", "") {
        Ok(_) => panic!("it was opened"),
        Err(answer) => assert_eq!(answer.text(), "true"),
    }
    assert!(attachments(&node, "probe/a").is_empty());
}

#[test]
fn a_handshake_that_is_none_never_reaches_the_front() {
    let node = internal().start();
    let mut client = node.raw();
    let head = upgrade().replace("version: 13", "version: 8");
    client.send(format!("GET /wants HTTP/1.1\r\n{head}\r\n"));
    client.answer().expect("an answer").refused(426, "bad-request", "not-run");
    assert_eq!(node.metric("wasmkeep_front_requests_total", &[]), 0.0);
}

#[test]
fn the_instance_is_gone_before_the_socket_is_opened() {
    let node = internal().flag("--max-front-requests", "1").start();
    let mut socket = hand_off_slowly(&node);
    // The probe's open would need no slot, but this request does: its body would go on for 20 s.
    assert_eq!(node.get("/hello").text(), "hello");
    socket.echoes("hello");
    assert_eq!(node.metric("wasmkeep_front_requests_total", &["outcome=\"left\""]), 0.0);
}

fn hand_off_slowly(node: &Node) -> WebSocket {
    let path = on_to("/hand-off", &["probe/a"], "/") + "&ms=20000";
    WebSocket::try_open_at(node.address(), &path, "").expect("it is opened")
}

#[test]
fn its_events_stay_inside_after_sleep_and_a_stop_closes_it_with_1012() {
    let mut node = internal().flag("--idle-timeout-secs", "1").start();
    let mut socket = hand_off(&node, "probe/a", "/?name=ann").expect("opened");
    eventually("the actor sleeps", || node.metric("wasmkeep_resident_actors", &[]) == 0.0);
    socket.echoes("the class is internal, and this is let in");
    assert_eq!(attachments(&node, "probe/a"), ["ann"]);
    node.restart();
    assert_eq!(socket.closed().0, 1012);
    hand_off(&node, "probe/a", "/?name=bob").expect("opened").echoes("again");
}

#[test]
fn a_client_that_leaves_while_the_front_thinks_opens_nothing() {
    let node = internal().start();
    let mut raw = node.raw();
    raw.send(format!("GET /wait?ms=20000 HTTP/1.1\r\n{}\r\n", upgrade()));
    eventually("it is with the front", || node.metric("wasmkeep_front_open_requests", &[]) == 1.0);
    drop(raw);
    none_open(&node);
    assert_eq!(node.metric("wasmkeep_front_requests_total", &["outcome=\"left\""]), 1.0);
}
