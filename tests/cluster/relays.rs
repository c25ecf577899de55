//! What a client sees of an actor through a node that does not have it: the same as directly.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::support::{
    Cluster, DONE, Node, Raw, SetAtTheEnd, WebSocket, component, eventually, in_parallel, run,
    wasmkeep,
};

/// Two nodes; the first has `probe/one`.
struct Pair {
    owner: Node,
    other: Node,
    _cluster: Cluster,
}

fn pair() -> Pair {
    let cluster = Cluster::new();
    let owner = cluster.node("n1").start();
    let other = cluster.node("n2").start();
    assert_eq!(owner.actor("probe/one").get("/hello").status, 200);
    assert_eq!(other.actor("probe/one").get("/hello").status, 200);
    assert_eq!(other.metric("wasmkeep_relays_total", &[r#"outcome="answered""#]), 1.0);
    Pair { owner, other, _cluster: cluster }
}

fn request(method: &str, path: &str, headers: &str) -> String {
    format!(
        "{method} /actor/probe/one{path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\r\n"
    )
}

fn with_body(path: &str, headers: &str, body: &str) -> String {
    let length = format!("content-length: {}\r\n{headers}", body.len());
    request("POST", path, &length) + body
}

fn in_chunks(path: &str, headers: &str, body: &str) -> String {
    let chunked = format!("transfer-encoding: chunked\r\n{headers}");
    request("POST", path, &chunked) + body
}

/// All that comes back, in an order of its own: status, headers, body, and whether it ended well.
fn seen(node: &Node, request: &str) -> (String, Vec<String>, Json, bool) {
    let mut client = node.raw();
    client.send_beside(request.as_bytes().to_vec());
    let mut bytes = Vec::new();
    let ended = loop {
        match client.bytes(1) {
            Ok(byte) => bytes.extend(byte),
            Err(error) => break error.kind() == std::io::ErrorKind::UnexpectedEof,
        }
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines().map(str::to_owned);
    let status = lines.next().unwrap_or_default();
    let mut headers: Vec<_> = lines.filter(|line| !line.starts_with("date: ")).collect();
    headers.sort();
    let is_chunked = headers.iter().any(|header| header == "transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_owned() };
    let mut body = serde_json::from_str(&body).unwrap_or_else(|_| Json::from(body));
    if let Some(echoed) = body.get_mut("headers").and_then(Json::as_array_mut) {
        echoed.sort_by_key(ToString::to_string);
    }
    (status, headers, body, ended)
}

/// A body without its framing, and `!` at an end that its framing does not have. How bytes are cut into
/// chunks is nobody's promise.
fn unchunked(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a chunk's length");
        if length == 0 {
            return body;
        }
        let chunk = &rest[..length.min(rest.len())];
        body += chunk;
        chunks = rest[chunk.len()..].strip_prefix("\r\n").unwrap_or_default();
    }
    body + "!"
}

#[test]
fn an_answer_through_another_node_is_the_direct_one() {
    let pair = pair();
    let Pair { owner, other, .. } = &pair;
    let odd = "cookie: a=1\r\ncookie: b=2\r\nx-odd: caf\u{e9}, \"\r\nx-empty:\r\nte: trailers\r\n\
               keep-alive: timeout=5\r\nx-wasmkeep-caller: default/probe/evil\r\n\
               x-wasmkeep-hop: 1.AA\r\nx-wasmkeep-answer: 1.AA\r\n";
    let large = "0123456789abcdef".repeat(20_000);
    let chunks = format!(
        "5\r\nhello\r\n1;x=y\r\n!\r\n{:x}\r\n{large}\r\n0\r\nx-sum: 1\r\n\r\n",
        large.len()
    );
    let waits = "expect: 100-continue\r\n";
    for request in [
        request("GET", "/hello", ""),
        request("GET", "", ""),
        request("HEAD", "/hello", ""),
        request("HEAD", "/stream", ""),
        request("HEAD", "/echo", odd),
        request("OPTIONS", "/echo", ""),
        request("GET", "/echo/a%2Fb/%2e?q=1%20&x={}|^\"", odd),
        request("GET", "/echo", "upgrade: h2c\r\nhttp2-settings: x\r\n"),
        request("GET", "/headers", ""),
        request("GET", "/status?code=204", ""),
        request("GET", "/status?code=205", ""),
        request("GET", "/status?code=304", ""),
        request("GET", "/status?code=418", ""),
        request("GET", "/status?code=599", ""),
        request("GET", "/stream", ""),
        request("GET", "/stream?chunks=100&size=5000", ""),
        request("GET", "/stream-short", ""),
        request("GET", "/stream-trap", ""),
        request("GET", "/stream-error", ""),
        request("GET", "/trap", ""),
        request("GET", "/nothing", ""),
        request("GET", "/error?status=409", ""),
        with_body("/echo", odd, "hello"),
        with_body("/echo", "", ""),
        with_body("/echo-body", "", &large),
        with_body("/ignore-body", "", &large),
        with_body("/read-part", "", &large),
        in_chunks("/echo", odd, "5\r\nhello\r\n0\r\n\r\n"),
        in_chunks("/echo-body", "", &chunks),
        in_chunks("/echo-body?stream", "", &chunks),
        in_chunks("/ignore-body", "", &chunks),
        with_body("/echo-body", waits, "hello"),
        in_chunks("/echo", waits, "5\r\nhello\r\n0\r\n\r\n"),
        request("GET", "/stream?ms=5", "").replace("HTTP/1.1", "HTTP/1.0"),
    ] {
        let shown = &request[..request.len().min(300)];
        assert_eq!(seen(other, &request), seen(owner, &request), "{shown}");
    }
}

#[test]
fn a_body_goes_through_another_node_while_its_answer_comes() {
    let pair = pair();
    let Pair { other, .. } = &pair;
    let mut client = other.raw();
    client.send(in_chunks("/echo-body?stream", "", ""));
    for piece in ["one", "two", "three"] {
        client.send(format!("{:x}\r\n{piece}\r\n", piece.len()));
        if piece == "one" {
            assert_eq!(client.head().expect("a head").status, 200);
        }
        assert_eq!(client.chunk().expect("a chunk"), Some(piece.as_bytes().to_vec()));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.chunk().expect("the end"), None);
}

#[test]
fn a_client_of_another_node_is_told_to_send_once_the_actor_reads() {
    let pair = pair();
    let Pair { owner, other, .. } = &pair;
    let waits = "expect: 100-continue\r\ncontent-length: 5\r\n";
    let busy = owner.busy("probe/one", 1000);
    let mut client = other.raw();
    client.send(request("POST", "/echo-body", waits));
    assert!(!client.has_bytes_within(Duration::from_millis(300)), "the actor has not read yet");
    assert_eq!(client.answer().expect("an interim answer").status, 100);
    client.send("hello");
    assert_eq!(client.answer().expect("an answer").text(), "hello");
    drop(busy);

    let mut client = other.raw();
    client.send(request("POST", "/ignore-body", waits));
    assert_eq!(client.answer().expect("an answer").text(), "ignored");
    assert!(client.rest().is_empty(), "the connection is closed");
}

#[test]
fn a_client_that_leaves_another_node_takes_its_waiting_event_along() {
    let pair = pair();
    let Pair { owner, other, .. } = &pair;
    let before = count(owner);
    let mut running = owner.busy("probe/one", 5000);
    let leaving: Vec<Raw> = (0..5).map(|_| other.ask("/actor/probe/one/memory")).collect();
    // The operator who looks waits there too.
    eventually("they wait at the owner", || {
        let shown = shown(owner);
        let queued = shown.split(", ").find_map(|part| part.split_once(" queued"));
        queued.is_some_and(|(count, _)| count.parse::<u32>().is_ok_and(|count| count >= 5))
    });
    drop(leaving);
    assert_eq!(running.chunks().expect("a regular end"), DONE);
    assert_eq!(count(owner), before + 1);
    assert_eq!(owner.metric("wasmkeep_events_total", &[r#"outcome="skipped""#]), 5.0);
    assert_eq!(other.metric("wasmkeep_relays_total", &[r#"outcome="left""#]), 5.0);
}

/// How often it was asked, counted by the actor.
fn count(node: &Node) -> u64 {
    node.actor("probe/one").get("/memory").text().parse().expect("a count")
}

/// What an operator is told of the actor.
fn shown(node: &Node) -> String {
    let mut command = wasmkeep();
    command.args(["actor", "show", "probe/one", "--data-dir"]).arg(node.data_dir());
    run(&mut command).1
}

#[test]
fn sockets_talk_through_another_node() {
    let mut pair = pair();
    let Pair { owner, other, .. } = &mut pair;
    let mut socket = WebSocket::open(other, "probe/one?name=ann");
    socket.echoes("hello");
    socket.echoes("");
    socket.echoes(&"é".repeat(40_000));
    assert_eq!(owner.metric("wasmkeep_sockets", &[]), 1.0);
    assert_eq!(other.metric("wasmkeep_sockets", &[]), 0.0);
    socket.text("close");
    assert_eq!(socket.closed(), (4000, "told to close".to_owned()));
    socket.close(4000, "").ends();

    let mut refused = WebSocket::open(other, "probe/one?refuse=not%20you");
    assert_eq!(refused.closed(), (1008, "not you".to_owned()));
    refused.ends();

    let mut watching = WebSocket::open(owner, "probe/one?name=watching");
    watching.echoes("here");
    let mut leaving = WebSocket::open(other, "probe/one?name=bea");
    leaving.echoes("here");
    leaving.close(1000, "bye");
    assert_eq!(leaving.closed(), (1000, "bye".to_owned()));
    assert!(watching.next_text().ends_with("1000 \"bye\" \"bea\""));
    let lost = WebSocket::open(other, "probe/one?name=cid");
    drop(lost);
    assert!(watching.next_text().ends_with("1006 \"\" \"cid\""));
    other.stop_cleanly();
}

#[test]
fn a_client_of_a_lost_owner_is_told_to_come_back_and_a_cut_answer_is_cut() {
    let mut pair = pair();
    let Pair { owner, other, .. } = &mut pair;
    let mut socket = WebSocket::open(other, "probe/one");
    socket.echoes("hello");
    let mut streaming = other.ask("/actor/probe/two/hello");
    assert_eq!(streaming.answer().expect("an answer").status, 200);
    let mut cut = other.raw();
    cut.send(request("GET", "/stream?chunks=1000&ms=20", ""));
    assert_eq!(cut.head().expect("a head").status, 200);
    assert!(cut.chunk().expect("a chunk").is_some());
    owner.kill();
    assert_eq!(socket.closed().0, 1012);
    socket.close(1012, "").ends();
    let end = loop {
        match cut.chunk() {
            Ok(Some(_)) => {}
            Ok(None) => break "whole",
            Err(_) => break "cut",
        }
    };
    assert_eq!(end, "cut");
}

#[test]
fn what_its_lost_owner_may_have_run_is_answered_as_unknown() {
    let mut pair = pair();
    let Pair { owner, other, .. } = &mut pair;
    let mut client: Raw = other.raw();
    client.send(request("POST", "/wait?ms=20000", "content-length: 0\r\n"));
    eventually("it runs", || shown(owner).contains("an event runs"));
    owner.kill();
    client.answer().expect("an answer").refused(502, "owner-lost", "unknown");
    let not_run = other.actor("probe/one").post("/echo", "x");
    not_run.refused(503, "owner-unreachable", "not-run");
    assert_eq!(not_run.header("retry-after"), Some("1"));
}

#[test]
fn a_front_hands_sockets_and_calls_over_to_actors_of_other_nodes() {
    let cluster = Cluster::new();
    let internal = |name| cluster.node(name).flag("--access", "probe=internal");
    let owner = internal("n1").flag("--front", component("guest-front.wasm")).start();
    let other = internal("n2").flag("--front", component("guest-front.wasm")).start();
    let open = |node: &Node| {
        let path = "/hand-off?target=probe/one&path=/ws%3Fecho%3D";
        WebSocket::try_open_at(node.address(), path, "x-wasmkeep-caller: default/probe/evil\r\n")
    };
    let [mut here, mut there] = [&owner, &other].map(|node| match open(node) {
        Ok(socket) => socket,
        Err(answer) => panic!("not opened: {answer:?}"),
    });
    for socket in [&mut here, &mut there] {
        socket.echoes("hello");
    }
    assert_eq!(owner.metric("wasmkeep_sockets", &[]), 2.0);
    let sockets = |node: &Node| node.get("/ask?target=probe/one&path=/sockets").json();
    let kept = sockets(&owner);
    assert_eq!(sockets(&other), kept);
    for socket in kept.as_array().expect("a list") {
        let opened: Json = serde_json::from_str(socket[1].as_str().expect("text")).expect("JSON");
        assert_eq!((&opened["path"], &opened["caller"]), (&"/ws?echo=".into(), &"Front".into()));
        assert!(!opened.to_string().contains("evil"), "{opened}");
    }
    assert_eq!(kept.as_array().map(Vec::len), Some(2));
    match WebSocket::try_open(other.address(), "probe/one") {
        Ok(_) => panic!("a client reached it"),
        Err(answer) => answer.refused(403, "forbidden", "not-run"),
    };
}

#[test]
fn a_crowd_at_another_node_is_answered_once_each() {
    const CLIENTS: usize = 24;
    const EACH: usize = 40;
    let pair = pair();
    let Pair { owner, other, .. } = &pair;
    owner.actor("probe/one").exec("CREATE TABLE t (x UNIQUE)");
    in_parallel(CLIENTS, |client| {
        let actor = other.actor("probe/one");
        for at in 0..EACH {
            let row = client * EACH + at;
            assert_eq!(actor.exec(&format!("INSERT INTO t VALUES ({row})")), 1, "{row}");
        }
    });
    let rows = CLIENTS * EACH;
    assert_eq!(other.actor("probe/one").query("SELECT count(*) FROM t"), json!([[rows]]));
    for outcome in ["lost", "not-reached", "refused", "left"] {
        let label = format!("outcome=\"{outcome}\"");
        assert_eq!(other.metric("wasmkeep_relays_total", &[&label]), 0.0, "{outcome}");
    }
}

#[test]
fn what_a_node_acknowledges_for_an_owner_that_stops_is_kept_and_nothing_runs_twice() {
    const CLIENTS: usize = 8;
    let mut pair = pair();
    let Pair { owner, other, .. } = &mut pair;
    owner.actor("probe/one").exec("CREATE TABLE t (x)");
    let is_over = AtomicBool::new(false);
    let (acknowledged, unknown) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let _over = SetAtTheEnd(&is_over);
        for client in 0..CLIENTS {
            let (other, is_over) = (&*other, &is_over);
            let (acknowledged, unknown) = (&acknowledged, &unknown);
            scope.spawn(move || {
                let actor = other.actor("probe/one");
                for at in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let row = client * 1_000_000 + at;
                    let sql = format!("INSERT INTO t VALUES ({row})");
                    let steps = json!({ "steps": [{ "op": "exec", "sql": sql }] }).to_string();
                    let answer = actor.post("/sql", steps);
                    match answer.status {
                        200 if answer.json()[0]["changed"] == 1 => {
                            acknowledged.lock().expect("no panic").push(row);
                        }
                        503 => assert!(answer.says("not-run"), "{answer:?}"),
                        502 => unknown.lock().expect("no panic").push(row),
                        _ => panic!("{answer:?}"),
                    }
                }
            });
        }
        sleep(Duration::from_millis(700));
        owner.stop_cleanly();
        eventually("the actor has moved", || other.actor("probe/one").get("/hello").status == 200);
        sleep(Duration::from_millis(300));
    });
    let rows = other.actor("probe/one").query("SELECT x, count(*) FROM t GROUP BY x");
    let rows: Vec<_> = rows.as_array().expect("rows").clone();
    assert!(rows.iter().all(|row| row[1] == 1), "a row was written twice");
    let kept: HashSet<_> = rows.iter().filter_map(|row| row[0].as_u64()).collect();
    let acknowledged = acknowledged.into_inner().expect("no panic");
    for row in &acknowledged {
        assert!(kept.contains(&(*row as u64)), "{row} was acknowledged and is gone");
    }
    assert!(acknowledged.len() > CLIENTS, "hardly anything was asked");
    assert_eq!(unknown.into_inner().expect("no panic"), [0; 0], "a clean stop lost requests");
}
