//! Where requests and answers begin and end on a connection, and what happens when that is unclear.

use std::time::Duration;

use crate::support::{DONE, Node, Raw, eventually};

const MIB: usize = 1024 * 1024;

/// A request that a server which lost its place would take for the next one.
const SMUGGLED: &str = "GET /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\n\r\n";

fn request(method: &str, path: &str, more: &str) -> String {
    format!("{method} /actor/probe/a/{path} HTTP/1.1\r\nhost: test\r\n{more}\r\n")
}

#[track_caller]
fn assert_sees_nothing(node: &Node) {
    assert_eq!(node.actor("probe/a").get("/memory").text(), "1", "the actor saw a request");
}

#[test]
fn a_request_with_unclear_ends_is_refused_and_nothing_after_it_is_read() {
    let node = Node::probe().start();
    for head in [
        "GET /actor/probe/a/memory HTTP/1.1\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost: a\r\nhost: b\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\nx-y: a\0b\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\nx-y: a\r\n  folded\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost : test\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost: a b\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost: a/b\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost: a@b\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\nx\u{e9}: 1\r\n",
        "GET /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\nno colon\r\n",
        "GET /actor/probe/a/mem ory HTTP/1.1\r\nhost: test\r\n",
        "GET /actor/probe/a/memory HTTP/2.0\r\nhost: test\r\n",
        "GET /actor/probe/a/memory\r\nhost: test\r\n",
        "G(T /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\ncontent-length: 6\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ncontent-length: 5, 6\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ncontent-length: +5\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ncontent-length: -1\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ncontent-length: 0x5\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ncontent-length: 99999999999999999999\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ncontent-length:\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ntransfer-encoding: gzip\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ntransfer-encoding: gzip, chunked\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ntransfer-encoding: xchunked\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ntransfer-encoding: identity\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "POST /actor/probe/a/memory HTTP/1.0\r\ntransfer-encoding: chunked\r\n",
        "POST /actor/probe/a/memory HTTP/1.0\r\nhost: test\r\n",
        "POST /actor/probe/a/memory HTTP/1.1\r\nhost: test\r\nupgrade: websocket\r\nconnection: upgrade\r\ncontent-length: 5\r\n",
    ] {
        let mut client = node.raw();
        client.send(format!("{head}\r\n{SMUGGLED}"));
        let answer = client.answer().unwrap_or_else(|error| panic!("{head:?}: {error}"));
        assert_eq!(answer.status, 400, "{head:?}: {answer:?}");
        answer.refused(400, "bad-request", "not-run");
        assert_eq!(answer.header("connection"), Some("close"), "{head:?}");
        assert_eq!(String::from_utf8_lossy(&client.rest()), "", "{head:?}");
    }
    assert_sees_nothing(&node);
    let refused = node.metric("wasmkeep_refusals_total", &[r#"reason="bad-request""#]);
    assert!(refused > 25.0, "{refused} were counted");
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let node = Node::probe().start();
    let long = format!("x-long: {}\r\n", "y".repeat(200_000));
    let many: String = (0..100).map(|i| format!("x-{i}: y\r\n")).collect();
    for more in [long, many] {
        let mut client = node.raw();
        client.send_beside((request("GET", "memory", &more) + SMUGGLED).into_bytes());
        let answer = client.answer().expect("an answer");
        answer.refused(431, "bad-request", "not-run");
        assert!(client.rest().is_empty());
    }
    let fits = format!("x-long: {}\r\n", "y".repeat(60_000));
    let mut client = node.raw();
    client.send(request("GET", "hello", &fits));
    assert_eq!(client.answer().expect("an answer").text(), "hello");
    assert_sees_nothing(&node);
}

#[test]
fn a_malformed_chunk_is_refused_and_nothing_after_it_is_read() {
    let node = Node::probe().start();
    for chunks in [
        "xyz\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
    ] {
        let mut client = node.raw();
        let head = request("POST", "memory", "transfer-encoding: chunked\r\n");
        client.send(format!("{head}{chunks}{SMUGGLED}"));
        let answer = client.answer().expect("an answer");
        assert_eq!(answer.status, 400, "{chunks:?}: {answer:?}");
        answer.refused(400, "bad-request", "not-run");
        assert_eq!(String::from_utf8_lossy(&client.rest()), "", "{chunks:?}");
    }
    assert_sees_nothing(&node);
}

#[test]
fn a_chunk_that_breaks_a_body_already_read_ends_it_and_the_connection() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(request("POST", "echo-body?stream=1", "transfer-encoding: chunked\r\n"));
    client.send("5\r\nhello\r\n");
    assert_eq!(client.head().expect("a head").status, 200);
    assert_eq!(client.chunk().expect("a chunk").as_deref(), Some(&b"hello"[..]));
    client.send(format!("zz\r\n{SMUGGLED}"));
    let rest = client.rest();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the answer looks whole: {rest:?}");
    assert!(!rest.windows(5).any(|piece| piece == b"HTTP/"), "a second answer: {rest:?}");
    assert_sees_nothing(&node);
}

#[test]
fn a_head_that_does_not_come_is_not_waited_for_forever() {
    let node = Node::probe().start();
    let slow = "GET /actor/probe/a/memory HTTP/1.1\r\nhost: te";
    let mut fresh = node.raw();
    fresh.send(slow);
    let mut used = node.raw();
    assert_eq!(used.get("/actor/probe/b/hello").text(), "hello");
    used.send(slow);
    for client in [&mut fresh, &mut used] {
        client.answer().expect("an answer").refused(408, "bad-request", "not-run");
        assert!(client.rest().is_empty());
    }
    assert_sees_nothing(&node);
}

#[test]
fn requests_may_come_a_byte_at_a_time_and_with_empty_lines_between() {
    let node = Node::probe().start();
    let mut client = node.raw();
    for more in ["content-length: 5\r\n", "transfer-encoding: chunked\r\n"] {
        let body = if more.starts_with('c') { "hello\r\n" } else { "5\r\nhello\r\n0\r\n\r\n\r\n" };
        for byte in (request("POST", "echo-body", more) + body).as_bytes() {
            client.send([*byte]);
        }
        assert_eq!(client.answer().expect("an answer").text(), "hello");
    }
    assert_eq!(client.get("/actor/probe/a/hello").text(), "hello");
}

fn expecting(path: &str, more: &str) -> String {
    request("POST", path, &format!("expect: 100-continue\r\n{more}"))
}

#[test]
fn a_client_is_told_to_send_once_the_actor_reads() {
    let node = Node::probe().start();
    for path in ["echo-body", "echo-body?stream=1"] {
        let mut client = node.raw();
        for (more, body) in [
            ("content-length: 5\r\n", "hello"),
            ("transfer-encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ] {
            client.send(expecting(path, more));
            assert_eq!(client.answer().expect("an interim answer").status, 100, "{path} {more}");
            client.send(body);
            assert_eq!(client.answer().expect("an answer").text(), "hello", "{path} {more}");
        }
        assert_eq!(client.get("/actor/probe/a/hello").text(), "hello", "it stays open");
    }
}

#[test]
fn a_client_is_not_told_to_send_while_its_event_waits() {
    let node = Node::probe().start();
    let mut running = node.busy("probe/a", 700);
    let mut client = node.raw();
    client.send(expecting("echo-body", "content-length: 5\r\n"));
    assert!(!client.has_bytes_within(Duration::from_millis(300)), "the event has not started");
    assert_eq!(running.chunks().expect("a regular end"), DONE);
    assert_eq!(client.answer().expect("an interim answer").status, 100);
    client.send("hello");
    assert_eq!(client.answer().expect("an answer").text(), "hello");
}

#[test]
fn a_body_that_is_not_wanted_is_not_asked_for() {
    let node = Node::probe().start();
    let too_large = format!("content-length: {}\r\n", 16 * MIB + 1);
    for (path, more, status) in [
        ("ignore-body", "content-length: 5\r\n", 200),
        ("ignore-body", "transfer-encoding: chunked\r\n", 200),
        ("stream?chunks=2&size=5&ms=50", "content-length: 5\r\n", 200),
        ("trap", "content-length: 5\r\n", 500),
        ("echo-body", &too_large, 413),
        ("hello", "content-length: 5\r\nx-bad\r\n", 400),
        ("echo-body", "content-length: 5\r\nexpect: something-else\r\n", 417),
    ] {
        let mut client = node.raw();
        client.send(expecting(path, more));
        let answer = client.answer().expect("an answer");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{path}: {answer:?}");
        assert!(client.rest().is_empty(), "{path}");
    }
    let mut client = node.raw();
    client.send(expecting("hello", "").replace("/probe/", "/unknown/"));
    client.answer().expect("an answer").refused(404, "not-found", "not-run");
}

#[test]
fn an_unknown_expectation_is_refused() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(request("POST", "memory", "expect: a-miracle\r\ncontent-length: 5\r\n") + "hello");
    client.answer().expect("an answer").refused(417, "bad-request", "not-run");
    assert_eq!(client.get("/actor/probe/a/memory").text(), "1", "its body was read out");
}

#[test]
fn a_body_sent_without_waiting_to_be_told_breaks_nothing() {
    let node = Node::probe().start();
    for (path, text) in [("ignore-body", "ignored"), ("echo-body", "hello")] {
        let mut client = node.raw();
        client.send(expecting(path, "content-length: 5\r\n") + "hello");
        let mut answer = client.answer().expect("an answer");
        if answer.status == 100 {
            answer = client.answer().expect("an answer");
        }
        assert_eq!(answer.text(), text);
    }
    assert_sees_nothing(&node);
}

#[test]
fn a_client_that_leaves_before_it_is_told_to_send_is_not_run() {
    let node = Node::probe().start();
    let mut running = node.busy("probe/a", 1000);
    let leaving: Vec<Raw> = (0..3)
        .map(|_| {
            let mut client = node.raw();
            client.send(expecting("memory", "content-length: 5\r\n"));
            client
        })
        .collect();
    // They are given time to arrive; then they go.
    std::thread::sleep(Duration::from_millis(200));
    drop(leaving);
    assert_eq!(running.chunks().expect("a regular end"), DONE);
    assert_sees_nothing(&node);
    assert_eq!(node.metric("wasmkeep_events_total", &[r#"outcome="skipped""#]), 3.0);
}

#[test]
fn a_client_of_http_1_0_keeps_its_connection_only_with_lengths() {
    let node = Node::probe().start();
    let get = |path: &str| format!("GET /actor/probe/a/{path} HTTP/1.0\r\n");
    let mut client = node.raw();
    client.send(get("hello") + "\r\n");
    assert_eq!(client.answer().expect("an answer").text(), "hello");
    assert!(client.rest().is_empty(), "it did not ask to stay");

    let mut client = node.raw();
    for _ in 0..2 {
        client.send(get("hello") + "connection: keep-alive\r\n\r\n");
        let answer = client.answer().expect("an answer");
        assert_eq!(answer.header("connection"), Some("keep-alive"));
        assert_eq!(answer.text(), "hello");
    }
    client.send(get("stream?chunks=3&size=5&ms=10") + "connection: keep-alive\r\n\r\n");
    let head = client.head().expect("a head");
    assert_eq!(head.header("transfer-encoding"), None);
    assert_ne!(head.header("connection"), Some("keep-alive"));
    assert_eq!(client.rest(), b"x".repeat(15));
}

#[test]
fn a_client_of_http_1_0_sees_that_an_answer_is_cut() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send("GET /actor/probe/a/stream-trap?ms=200 HTTP/1.0\r\n\r\n");
    assert_eq!(client.head().expect("a head").status, 200);
    assert!(client.rest_to_its_end().is_err(), "the end looks like a regular one");
}

#[test]
fn answers_come_in_order_whatever_is_asked() {
    let node = Node::probe().start();
    let mut client = node.raw();
    let asked = [
        request("GET", "stream?chunks=2&size=5&ms=150", ""),
        request("HEAD", "hello", ""),
        request("GET", "trap", ""),
        request("HEAD", "stream?chunks=2&size=5&ms=20", ""),
        request("GET", "seen?1", ""),
        request("GET", "seen?2", "").replace("/probe/", "/unknown/"),
        request("POST", "echo-body", "content-length: 5\r\n") + "12345",
        request("POST", "ignore-body", "transfer-encoding: chunked\r\n") + "2\r\nhi\r\n0\r\n\r\n",
        request("POST", "echo-body", "transfer-encoding: chunked\r\n") + "2\r\nhi\r\n0\r\n\r\n",
        request("GET", "status?code=204", ""),
        request("HEAD", "stream-short", ""),
        request("GET", "seen?3", "connection: close\r\n"),
        request("GET", "seen?4", ""),
    ];
    client.send_beside(asked.concat().into_bytes());
    assert_eq!(client.answer().expect("an answer").text(), "xxxxxxxxxx");
    let head = client.head().expect("a head");
    assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
    client.answer().expect("an answer").refused(500, "trapped", "ran");
    assert_eq!(client.head().expect("a head").status, 200);
    assert_eq!(client.answer().expect("an answer").text(), "/seen?1");
    client.answer().expect("an answer").refused(404, "not-found", "not-run");
    for text in ["12345", "ignored", "hi"] {
        assert_eq!(client.answer().expect("an answer").text(), text);
    }
    assert_eq!(client.answer().expect("an answer").status, 204);
    let head = client.head().expect("a head");
    assert_eq!((head.status, head.header("content-length")), (200, Some("100")));
    assert_eq!(client.answer().expect("an answer").text(), "/seen?3");
    assert!(client.rest().is_empty(), "it asked for the end");
}

#[test]
fn a_request_for_another_protocol_takes_nothing_of_what_follows() {
    let node = Node::probe().start();
    let mut client = node.raw();
    let upgrade = "upgrade: websocket\r\n";
    client.send(request("GET", "stream?chunks=2&size=5&ms=20", upgrade) + SMUGGLED);
    let head = client.head().expect("a head");
    assert_eq!((head.status, head.header("transfer-encoding")), (200, None));
    assert_eq!(client.rest(), b"x".repeat(10));
    assert_sees_nothing(&node);
}

#[test]
fn an_answer_does_not_wait_for_a_body_nobody_reads() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(request("POST", "ignore-body", "content-length: 200000\r\n"));
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.answer().expect("an answer").text(), "ignored");
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.get("/actor/probe/a/hello").text(), "hello", "the rest was read out");
}

#[test]
fn more_than_the_limit_is_not_read_out() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(request("POST", "ignore-body", "transfer-encoding: chunked\r\n"));
    assert_eq!(client.answer().expect("an answer").text(), "ignored");
    let chunk = [b"100000\r\n".as_slice(), &vec![b'x'; MIB], b"\r\n"].concat();
    let cut = (0..40).any(|_| client.try_send(&chunk).is_err());
    let _ = client.try_send(format!("0\r\n\r\n{SMUGGLED}"));
    assert!(client.rest().is_empty(), "it read on to the end; cut while sending: {cut}");
}

#[test]
fn a_body_that_stops_coming_holds_its_event_up_to_the_wall_only() {
    let node = Node::probe().flag("--wall-budget-ms", "1000").start();
    let mut client = node.raw();
    client.send(request("POST", "echo-body", "content-length: 100000\r\n") + "only this");
    eventually("its event runs", || node.metric("wasmkeep_wakes_total", &[]) > 0.0);
    assert_eq!(node.actor("probe/a").get("/hello").text(), "hello", "the queue goes on");
    client.answer().expect("an answer").refused(500, "wall-exceeded", "ran");
}

#[test]
fn a_client_that_leaves_within_its_body_ends_the_read_at_once() {
    let node = Node::probe().start();
    for more in ["content-length: 100000\r\n", "transfer-encoding: chunked\r\n"] {
        let mut client = node.raw();
        client.send(request("POST", "echo-body", more) + "5\r\nonly ");
        std::thread::sleep(Duration::from_millis(100));
        drop(client);
        let began = std::time::Instant::now();
        assert_eq!(node.actor("probe/a").get("/hello").text(), "hello");
        assert!(began.elapsed() < Duration::from_secs(10), "the event waited for its wall");
    }
}

#[test]
fn a_client_that_does_not_read_holds_nobody_else() {
    let node =
        Node::probe().flag("--wall-budget-ms", "2000").flag("--cpu-budget-ms", "2000").start();
    let mut idle = node.ask("/actor/probe/a/stream?chunks=2000&size=100000");
    assert_eq!(idle.head().expect("a head").status, 200);
    assert_eq!(node.actor("probe/b").get("/hello").text(), "hello", "another actor");
    assert_eq!(node.actor("probe/a").get("/hello").text(), "hello", "its own, after the wall");
    assert!(idle.chunks().is_err(), "its answer is cut");
}

#[test]
fn one_write_of_two_mebibytes_and_a_byte_arrives_whole() {
    let node = Node::probe().flag("--cpu-budget-ms", "2000").start();
    let answer = node.actor("probe/a").get(&format!("/stream?chunks=1&size={}", 2 * MIB + 1));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body.len(), 2 * MIB + 1);
}

/// curl and Java ask for HTTP/2 like this with their first request.
#[test]
fn a_protocol_that_is_not_spoken_is_answered_in_http_1_1_and_the_end_is_told() {
    let node = Node::probe().start();
    let mut client = node.raw();
    client.send(
        "GET /actor/probe/a/hello HTTP/1.1\r\nhost: test\r\nconnection: Upgrade, HTTP2-Settings\r\n\
         upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
    );
    let head = client.head().expect("an answer");
    assert_eq!(head.status, 200);
    assert_eq!(head.header("connection"), Some("close"));
}
