//! The front: which paths reach it, as whom it calls, what it hands over, and what bounds it.

mod calls;
mod hand_off;
mod limits;
mod settings;

use serde_json::{Value as Json, json};

use crate::support::{Actor, Node, Setup, component, eventually};

const FRONT: &str = "guest-front.wasm";

/// A node that serves the front alone.
fn front() -> Setup {
    Node::serve().flag("--front", component(FRONT))
}

/// A node that serves the front before the probe.
fn front_and_probe() -> Setup {
    front().class("probe", "guest-probe.wasm")
}

/// An ordinary client of the front.
fn client(node: &Node) -> Actor {
    node.client()
}

fn header<'a>(echo: &'a Json, name: &str) -> Option<&'a str> {
    let headers = echo["headers"].as_array()?;
    headers.iter().find(|header| header[0] == name).and_then(|header| header[1].as_str())
}

/// `class/name` and a path for it, as the front's routes take them.
fn on_to(route: &str, targets: &[&str], path: &str) -> String {
    let encoded =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
    let targets: Vec<_> =
        targets.iter().map(|target| format!("target={}", encoded(target))).collect();
    format!("{route}?path={}&{}", encoded(path), targets.join("&"))
}

/// No request is with the front any more.
#[track_caller]
fn none_open(node: &Node) {
    eventually("no request is with the front", || {
        node.metric("wasmkeep_front_open_requests", &[]) == 0.0
    });
}

#[test]
fn every_path_but_the_servers_own_reaches_the_front() {
    let node = front_and_probe().start();
    assert_eq!(node.get("/").text(), "<h1>front</h1>");
    for path in ["/seen/a%20b//c?q=%2F&x", "/seen/actor/probe/a", "/seen/../x"] {
        assert_eq!(node.get(path).text(), path, "as the client wrote it");
    }
    for path in ["/actor", "/actors/probe/a", "/_wasmkeep", "/_wasmkee/health", "/%61ctor/probe/a"]
    {
        let answer = node.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.header("x-wasmkeep-reason"), None, "{path}: the front's own");
    }
    assert_eq!(node.get("/actor/probe/a/hello").text(), "hello");
    node.get("/actor/").refused(400, "bad-request", "not-run");
    node.get("/actor/probe").refused(400, "bad-request", "not-run");
    node.get("/actor/none/a/").refused(404, "not-found", "not-run");
    node.get("/_wasmkeep/").refused(404, "not-found", "not-run");
    assert_eq!(node.get("/_wasmkeep/ready").text(), "ready\n");
    assert_eq!(node.metric("wasmkeep_front_requests_total", &["outcome=\"answered\""]), 9.0);
}

#[test]
fn a_node_may_serve_a_front_alone() {
    let node = Node::serve().argument(component(FRONT)).start();
    assert_eq!(node.get("/hello").text(), "hello");
    node.get("/actor/probe/a/hello").refused(404, "not-found", "not-run");
    assert_eq!(node.get("/_wasmkeep/ready").text(), "ready\n");
    assert!(node.databases().is_empty());
}

#[test]
fn each_request_has_an_instance_of_its_own() {
    let node = front().start();
    for _ in 0..3 {
        assert_eq!(node.get("/count").text(), "1");
    }
}

#[test]
fn what_the_host_says_about_a_request_no_client_can_say() {
    let node = front().start();
    let forged = [
        ("x-wasmkeep-caller", "default/_front/main"),
        ("X-Wasmkeep-Upgrade", "websocket"),
        ("x-mine", "kept"),
    ];
    let echo = client(&node).send("GET", "/echo", &forged, &[]).json();
    assert_eq!(header(&echo, "x-wasmkeep-caller"), None);
    assert_eq!(header(&echo, "x-wasmkeep-upgrade"), None);
    assert_eq!(header(&echo, "x-mine"), Some("kept"));
    assert_eq!(client(&node).send("GET", "/who", &forged, &[]).json()["caller"], "Outside");

    let answer = node.get("/headers");
    assert_eq!(answer.header("x-wasmkeep-evil"), None);
    assert_eq!(answer.header("x-probe"), Some("kept"));
    assert_eq!(answer.headers("set-cookie"), ["a=1", "b=2; Path=/"]);
}

#[test]
fn trailers_of_a_client_do_not_reach_the_front() {
    let node = front().start();
    let mut client = node.raw();
    client.send(
        "POST /echo HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n\
         4\r\nbody\r\n0\r\nx-wasmkeep-caller: default/_front/main\r\n\r\n",
    );
    let echo = client.answer().expect("an answer").json();
    assert_eq!(echo["body_utf8"], "body");
    assert_eq!(header(&echo, "x-wasmkeep-caller"), None);
    assert_eq!(client.get("/hello").text(), "hello");
}

#[test]
fn the_front_knows_itself_and_what_the_client_asked_for() {
    let node = front().start();
    let forwarded = [("x-forwarded-proto", "https, http")];
    let who = client(&node).send("GET", "/who", &forwarded, &[]).json();
    assert_eq!(who["self"], "default/_front/main");
    assert_eq!(who["host"], node.address().to_string());
    assert_eq!(who["scheme"], "https");
    assert_eq!(node.get("/who").json()["scheme"], "http");
}

#[test]
fn requests_and_answers_of_all_shapes_pass() {
    // Megabytes take CPU, on a slow machine more than there is by default.
    let node = front().flag("--front-cpu-budget-ms", "2000").start();
    let big = vec![b'x'; 3 << 20];
    assert_eq!(client(&node).post("/read", &big).text(), (3 << 20).to_string());
    assert_eq!(client(&node).post("/echo-body?stream", &big).body, big);
    assert_eq!(node.get("/stream?chunks=3&size=5").body, b"x".repeat(15));
    assert_eq!(client(&node).post("/ignore-body", &big).text(), "ignored");
    let head = client(&node).send("HEAD", "/hello", &[], &[]);
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("5"), 0));
    assert_eq!(client(&node).send("DELETE", "/echo", &[], &[]).json()["method"], "DELETE");
    assert_eq!(node.get("/status?code=304").status, 304);
    let mut raw = node.raw();
    raw.send(format!("POST /read HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", 17 << 20));
    raw.answer().expect("an answer").refused(413, "body-too-large", "not-run");
    none_open(&node);
    assert_eq!(node.metric("wasmkeep_front_requests_total", &["outcome=\"left\""]), 0.0);
}

#[test]
fn a_fault_of_the_front_is_an_answer_of_the_host() {
    let node = front().start();
    node.get("/trap").refused(500, "trapped", "ran");
    node.get("/status?code=600").refused(500, "no-response", "ran");
    node.get("/loop").refused(500, "cpu-exceeded", "ran");
    let mut cut = node.ask("/stream-trap?ms=200");
    assert_eq!(cut.head().expect("a head").status, 200);
    assert!(cut.chunks().is_err(), "the client sees that the answer was cut");
    assert_eq!(node.get("/hello").text(), "hello");
    none_open(&node);
}

#[test]
fn lines_of_the_front_go_to_the_log_under_its_address() {
    let node = front().start();
    node.get("/log?text=from-the-front");
    node.logged("from-the-front");
    let log = node.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("from-the-front")).collect();
    assert!(lines.iter().all(|line| line.contains("default/_front/main")), "{lines:?}");
}

#[test]
fn the_front_reaches_the_outside_as_an_actor_does() {
    let server =
        crate::support::Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let url = server.url("/");
    let fetch = |node: &Node| node.get(&format!("/fetch?url={url}")).json();
    assert_eq!(fetch(&front().start())["error"], "destination-IP-prohibited");
    let open = front().flag("--allow-outbound", "127.0.0.0/8").start();
    assert_eq!(fetch(&open)["body"], "hello");
    let answer = open.get(&format!("/fetch-hold?url={url}&n=17")).text();
    let heads: Vec<Json> =
        serde_json::from_str(answer.lines().next().expect("a line")).expect("JSON");
    let limited = heads.iter().filter(|head| head["error"] == "connection-limit-reached");
    assert_eq!(limited.count(), 1, "{heads:?}");
    assert_eq!(json!(heads.len()), 17);
}
