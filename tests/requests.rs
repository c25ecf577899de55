//! What reaches an actor, and what comes back.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::support::{Answer, Node};

const MIB: usize = 1024 * 1024;

/// Sends a request without a body, its target exactly as written.
fn get_raw(node: &Node, target: &str) -> Answer {
    node.raw().get(target)
}

/// Bytes without a period a chunk or a buffer could hide in.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn an_actor_answers_without_being_created() {
    let node = Node::serve().class("hello", "guest-hello.wasm").start();
    let answer = node.actor("hello/anyone").get("/");
    assert_eq!(answer.text(), "hello");
    assert_eq!(answer.header("x-wasmkeep-reason"), None, "the host adds nothing to an answer");
    assert_eq!(answer.header("x-wasmkeep-event"), None);
}

#[test]
fn the_actor_sees_path_and_query_as_the_client_wrote_them() {
    let node = Node::probe().start();
    for path in [
        "/seen",
        "/seen/",
        "/seen?",
        "/seen?a=1&a=2&b",
        "/seen?x=%20+%2F&y=/../?",
        "/seen//a/./b/../c",
        "/seen/a%2Fb%00%zz",
        "/seen/%E2%82%AC?%ff",
        "/seen/;v=1,2/(x)'!*$&@:",
    ] {
        let answer = get_raw(&node, &format!("/actor/probe/a{path}"));
        assert_eq!((answer.status, answer.body.as_slice()), (200, path.as_bytes()), "{path}");
    }
    let answer = get_raw(&node, "/actor/probe/a?from=root");
    assert_eq!(answer.status, 404, "the probe has nothing at its root");
    assert_eq!(answer.header("x-wasmkeep-reason"), None, "it is the actor's own 404");
}

#[test]
fn a_name_is_decoded_once_and_not_otherwise_changed() {
    let node = Node::probe().start();
    let longest = "n".repeat(256);
    for (written, name) in [
        ("a", "a"),
        ("room%201", "room 1"),
        ("room+1", "room+1"),
        ("100%2525", "100%25"),
        ("%C3%A9", "\u{e9}"),
        ("e%CC%81", "e\u{301}"),
        ("%61", "a"),
        ("...", "..."),
        ("-", "-"),
        ("~%2E", "~."),
        ("a%3Fb%23c", "a?b#c"),
        (&longest, &longest),
    ] {
        let answer = get_raw(&node, &format!("/actor/probe/{written}/address"));
        let address = json!({ "tenant": "default", "class": "probe", "name": name });
        assert_eq!(answer.json(), address, "{written}");
    }
}

#[test]
fn what_is_no_address_is_refused_with_its_reason() {
    let node = Node::probe().start();
    let too_long = format!("/actor/probe/{}", "n".repeat(257));
    for (target, status, reason) in [
        ("/actor/probe/a%2Fb", 400, "bad-request"),
        ("/actor/probe/%2e%2e/hello", 400, "bad-request"),
        ("/actor/probe/../hello", 400, "bad-request"),
        ("/actor/probe/%2E", 400, "bad-request"),
        ("/actor/probe/%ff", 400, "bad-request"),
        ("/actor/probe/%C3/x", 400, "bad-request"),
        ("/actor/probe/%00", 400, "bad-request"),
        ("/actor/probe/%0a", 400, "bad-request"),
        ("/actor/probe/%C2%85", 400, "bad-request"),
        ("/actor/probe/100%", 400, "bad-request"),
        ("/actor/probe/%zz", 400, "bad-request"),
        (&too_long, 400, "bad-request"),
        ("/actor/Probe/a", 400, "bad-request"),
        ("/actor/pr%6fbe/a", 400, "bad-request"),
        ("/actor/_front/main", 400, "bad-request"),
        ("/actor/probe", 400, "bad-request"),
        ("/actor/probe/", 400, "bad-request"),
        ("/actor/probe//hello", 400, "bad-request"),
        ("/actor/", 400, "bad-request"),
        ("/actor//a", 400, "bad-request"),
        ("/actor/unknown/a/hello", 404, "not-found"),
        ("/", 404, "not-found"),
        ("/Actor/probe/a", 404, "not-found"),
        ("/_wasmkeep/unknown", 404, "not-found"),
    ] {
        let answer = get_raw(&node, target);
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        answer.refused(status, reason, "not-run");
    }
}

#[test]
fn health_and_ready_answer() {
    let node = Node::probe().start();
    assert_eq!(node.get("/_wasmkeep/health").status, 200);
    assert_eq!(node.get("/_wasmkeep/ready").status, 200);
}

#[test]
fn headers_of_the_hosts_own_pass_in_neither_direction() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let sent = [
        ("X-WasmKeep-Caller", "default/probe/forged"),
        ("x-wasmkeep-evil", "1"),
        ("x-other", "kept"),
        ("x-twice", "1"),
        ("x-twice", "2"),
    ];
    let seen = actor.send("GET", "/echo", &sent, &[]).json();
    let seen: Vec<(String, String)> =
        serde_json::from_value(seen["headers"].clone()).expect("pairs of name and value");
    let values = |name: &str| -> Vec<&str> {
        seen.iter().filter(|(have, _)| have == name).map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!(values("x-other"), ["kept"]);
    assert_eq!(values("x-twice"), ["1", "2"]);
    assert!(!seen.iter().any(|(name, _)| name.starts_with("x-wasmkeep")), "{seen:?}");

    let answer = actor.get("/headers");
    assert_eq!(answer.header("x-probe"), Some("kept"));
    assert_eq!(answer.headers("set-cookie"), ["a=1", "b=2; Path=/"]);
    assert_eq!(answer.header("x-wasmkeep-evil"), None);
    let raw_bytes = answer.headers.iter().find(|(name, _)| name == "x-bytes");
    assert_eq!(raw_bytes.map(|(_, value)| value.as_slice()), Some(&[0xe9][..]));
}

#[test]
fn a_request_arrives_with_method_path_and_body() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"] {
        let body: &[u8] = if ["GET", "OPTIONS"].contains(&method) { b"" } else { b"text" };
        let seen = actor.send(method, "/echo/x?q=1", &[], body).json();
        assert_eq!(seen["method"], method);
        assert_eq!(seen["path"], "/echo/x");
        assert_eq!(seen["query"], "q=1");
        assert_eq!(seen["body_len"], body.len());
    }
}

#[test]
fn bodies_of_every_size_up_to_the_limit_come_back_whole() {
    let node = Node::probe().flag("--cpu-budget-ms", "2000").start();
    let actor = node.actor("probe/a");
    for length in [0, 1, 65_536, 2 * MIB + 1, 16 * MIB] {
        let sent = bytes(length);
        let got = actor.post("/echo-body", &sent);
        assert_eq!(got.status, 200, "{length} bytes");
        assert!(got.body == sent, "{length} bytes came back as {}", got.body.len());
    }
}

#[test]
fn a_body_can_be_answered_while_it_arrives() {
    let node = Node::probe().flag("--cpu-budget-ms", "2000").start();
    for length in [0, 1, 65_536, 2 * MIB + 1, 16 * MIB] {
        let sent = bytes(length);
        let head = format!(
            "POST /actor/probe/a/echo-body?stream=1 HTTP/1.1\r\nhost: test\r\n\
             content-length: {length}\r\n\r\n"
        );
        let mut client = node.raw();
        // A client that sends all before it reads would never be done: its answer has begun.
        client.send_beside([head.as_bytes(), &sent].concat());
        let got = client.answer().expect("an answer");
        assert!(got.body == sent, "{length} bytes came back as {}", got.body.len());
    }
}

#[test]
fn a_body_declared_larger_than_the_limit_is_refused_unread() {
    let node = Node::probe().start();
    let length = 16 * MIB + 1;
    let mut client = node.raw();
    client.send(format!(
        "POST /actor/probe/a/echo-body HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n"
    ));
    client.answer().expect("an answer").refused(413, "body-too-large", "not-run");
    assert_eq!(node.actor("probe/a").get("/memory").text(), "1");
}

#[test]
fn a_chunked_body_beyond_the_limit_fails_the_guests_read() {
    let node = Node::probe().flag("--cpu-budget-ms", "2000").start();
    let mut client = node.raw();
    client.send(
        "POST /actor/probe/a/echo-body HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let chunk = [b"100000\r\n".as_slice(), &bytes(MIB), b"\r\n"].concat();
    for _ in 0..20 {
        if client.try_send(&chunk).is_err() {
            break;
        }
    }
    let _ = client.try_send("0\r\n\r\n");
    // A server that has given up may close before its answer is read.
    if let Ok(answer) = client.answer() {
        assert_eq!(answer.status, 413, "{answer:?}");
    }
    assert_eq!(node.actor("probe/a").get("/hello").text(), "hello");
}

#[test]
fn a_chunked_body_within_the_limit_arrives() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(
        "POST /actor/probe/a/echo HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n\
         5\r\nhello\r\n1;x=y\r\n \r\n5\r\nworld\r\n0\r\n\r\n",
    );
    let seen = client.answer().expect("an answer").json();
    assert_eq!(seen["body_utf8"], "hello world");
}

#[test]
fn a_body_the_actor_does_not_read_does_not_spoil_the_connection() {
    let node = Node::probe().start();
    let mut client = node.raw();
    let answer = client.post("/actor/probe/a/ignore-body", &bytes(4 * MIB));
    assert_eq!(answer.text(), "ignored");
    let answer = client.post("/actor/probe/a/read-part", &bytes(MIB));
    assert_eq!(answer.body, bytes(10));
    assert_eq!(client.get("/actor/probe/a/hello").text(), "hello");
}

#[test]
fn a_head_request_gets_the_head_alone() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send("HEAD /actor/probe/a/hello HTTP/1.1\r\nhost: test\r\n\r\n");
    assert_eq!(client.head().expect("a head").status, 200);
    assert_eq!(client.get("/actor/probe/a/hello").text(), "hello", "no body came before this");
}

#[test]
fn a_status_that_has_no_body_gets_none() {
    let node = Node::probe().start();
    let mut client = node.raw();
    for code in [204, 304] {
        let answer = client.get(&format!("/actor/probe/a/status?code={code}"));
        assert_eq!(answer.status, code);
        assert_eq!(client.get("/actor/probe/a/hello").text(), "hello", "after {code}");
    }
    for code in [201, 301, 404, 418, 500, 599] {
        let answer = client.get(&format!("/actor/probe/a/status?code={code}"));
        assert_eq!(answer.status, code);
        assert_eq!(answer.body, format!("status {code}").into_bytes());
    }
}

#[test]
fn a_streamed_response_arrives_while_it_is_made() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send("GET /actor/probe/a/stream?chunks=3&size=5&ms=300 HTTP/1.1\r\nhost: test\r\n\r\n");
    let head = client.head().expect("a head");
    assert_eq!((head.status, head.header("transfer-encoding")), (200, Some("chunked")));
    let (mut came, mut body) = (Vec::new(), Vec::new());
    while let Some(chunk) = client.chunk().expect("a regular end") {
        came.push(Instant::now());
        body.extend(chunk);
    }
    assert_eq!(body, b"x".repeat(15));
    let (first, last) = (came[0], came[came.len() - 1]);
    assert!(last - first > Duration::from_millis(400), "all came at once");
}

#[test]
fn a_large_streamed_response_comes_whole() {
    let node = Node::probe().flag("--cpu-budget-ms", "2000").start();
    let answer = node.actor("probe/a").get("/stream?chunks=320&size=100000");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body.len(), 32_000_000, "responses have no size limit");
}

#[test]
fn a_response_that_fails_after_its_head_is_seen_as_truncated() {
    let node = Node::probe().start();
    for path in ["stream-trap", "stream-short"] {
        let mut client = node.raw();
        client.send(format!("GET /actor/probe/a/{path} HTTP/1.1\r\nhost: test\r\n\r\n"));
        match client.answer() {
            // Nothing had gone out yet: then it is an ordinary failure.
            Ok(answer) => assert_eq!(answer.status, 500, "{path}: {answer:?}"),
            Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock, "{path} hangs"),
        }
        assert_eq!(node.actor("probe/a").get("/hello").text(), "hello", "after {path}");
    }
}

#[test]
fn a_trap_after_the_head_went_out_cuts_the_connection() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send("GET /actor/probe/a/stream-trap?ms=300 HTTP/1.1\r\nhost: test\r\n\r\n");
    let head = client.head().expect("the head went out before the trap");
    assert_eq!(head.status, 200);
    let rest = client.rest();
    assert!(rest.windows(5).any(|piece| piece == b"chunk"), "{rest:?}");
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the body looks whole: {rest:?}");
    assert_eq!(node.actor("probe/a").get("/hello").text(), "hello");
}

#[test]
fn each_failure_names_its_reason_and_that_the_event_ran() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    for (path, reason) in [
        ("/nothing", "no-response"),
        ("/trap", "trapped"),
        ("/panic", "trapped"),
        ("/stack", "trapped"),
        ("/loop", "cpu-exceeded"),
    ] {
        actor.get(path).refused(500, reason, "ran");
        assert_eq!(actor.get("/hello").text(), "hello", "after {path}");
    }
    let own = actor.get("/error");
    assert_eq!((own.status, own.header("x-wasmkeep-reason")), (500, None), "the actor's own 500");
    let own = actor.get("/error?status=409");
    assert_eq!(own.status, 409);
    let body: Json = serde_json::from_slice(&own.body).expect("JSON");
    assert_eq!(body, json!({ "error": "told to fail" }));
}

#[test]
fn content_length_beside_transfer_encoding_is_refused() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(
        "POST /actor/probe/a/echo HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\
         transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    assert_eq!(client.answer().expect("an answer").status, 400);
    let rest = client.rest();
    assert!(rest.is_empty(), "the connection is closed, nothing else is read from it");
    assert_eq!(node.actor("probe/a").get("/memory").text(), "1", "the actor saw none of it");
}

#[test]
fn two_content_lengths_that_differ_are_refused() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(
        "POST /actor/probe/a/echo HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\
         content-length: 6\r\n\r\nhello!",
    );
    assert_eq!(client.answer().expect("an answer").status, 400);
}

#[test]
fn a_connection_stays_usable_after_errors() {
    let node = Node::probe().start();
    let mut client = node.raw();
    for (target, status) in [
        ("/actor/probe/%ff", 400),
        ("/actor/unknown/a", 404),
        ("/", 404),
        ("/actor/probe/a/trap", 500),
        ("/actor/probe/a/nothing", 500),
        ("/actor/probe/a/error", 500),
        ("/actor/probe/a/hello", 200),
    ] {
        assert_eq!(client.get(target).status, status, "{target}");
    }
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let node = Node::probe().start();
    let mut client = node.raw();
    let one = |i: u32| format!("GET /actor/probe/a{i}/seen?{i} HTTP/1.1\r\nhost: test\r\n\r\n");
    client.send((0..5).map(one).collect::<String>());
    for i in 0..5 {
        assert_eq!(client.answer().expect("an answer").text(), format!("/seen?{i}"));
    }
}

#[test]
fn a_client_that_stops_within_its_body_harms_nobody() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(
        "POST /actor/probe/a/echo HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\nonly this",
    );
    client.finish_sending();
    let answered = client.answer().is_ok_and(|answer| answer.status == 200);
    assert!(!answered, "half a body is never taken for a whole one");
    assert_eq!(node.actor("probe/a").get("/hello").text(), "hello");
}

#[test]
fn a_guest_reaches_nothing_beyond_its_own() {
    let node = Node::probe().variable("SECRET", "of the server").start();
    let report = node.actor("probe/a").get("/wasi").json();
    for entry in ["read_file", "write_file", "read_dir", "tcp", "udp", "lookup", "http"] {
        assert!(report[entry]["error"].is_string(), "{entry}: {}", report[entry]);
    }
    assert_eq!(report["env"], json!([]));
    assert_eq!(report["args"], json!([]));
}

#[test]
fn what_a_guest_prints_is_in_the_log_with_its_address() {
    let node = Node::probe().start();
    node.actor("probe/room%201").get("/log?text=seen-in-the-log").text();
    crate::support::eventually("both lines are in the log", || {
        let log = node.log();
        let lines = log.lines().filter(|line| line.contains("seen-in-the-log"));
        lines.filter(|line| line.contains("default/probe/room%201")).count() == 2
    });
}

#[test]
fn a_client_that_waits_for_100_continue_is_told_to_send() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(
        "POST /actor/probe/a/echo-body HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\n\
         content-length: 5\r\n\r\n",
    );
    assert_eq!(client.answer().expect("an interim answer").status, 100);
    client.send("hello");
    assert_eq!(client.answer().expect("an answer").text(), "hello");
}

#[test]
fn a_client_that_waits_for_100_continue_in_vain_gets_the_final_answer() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(
        "POST /actor/probe/a/ignore-body HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\n\
         content-length: 5\r\n\r\n",
    );
    assert_eq!(client.answer().expect("an answer").text(), "ignored");
    assert!(client.rest().is_empty(), "the connection is closed");
}

#[test]
fn a_client_of_http_1_0_gets_no_chunks() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send("GET /actor/probe/a/stream?ms=10 HTTP/1.0\r\n\r\n");
    let head = client.head().expect("a head");
    assert_eq!(head.header("transfer-encoding"), None);
    assert_eq!(client.rest(), b"x".repeat(15));
}

#[test]
fn a_request_that_is_no_http_is_refused_with_its_reason() {
    let node = Node::probe().start();
    for request in [
        "GET /actor/probe/a/hello HTTP/1.1\r\n\r\n",
        "GET /actor/probe/\u{e9}/hello HTTP/1.1\r\nhost: test\r\n\r\n",
        "POST /actor/probe/a/echo HTTP/1.1\r\nhost: test\r\ncontent-length: 1\r\n\
         transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut client = node.raw();
        client.send(request);
        client.answer().expect("an answer").refused(400, "bad-request", "not-run");
    }
}
