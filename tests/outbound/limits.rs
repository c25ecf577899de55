//! How many requests are open at once, and that none outlives its event.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::Value as Json;

use super::{asking, none_open, open_node};
use crate::support::{Node, Raw, Server, eventually};

const BEGUN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";

/// A server whose answers begin at once and end when it is let go.
struct Holding {
    server: Server,
    /// Dropped, it lets all answers end.
    hold: Option<mpsc::Sender<()>>,
    connections: Arc<AtomicUsize>,
}

impl Holding {
    fn start() -> Self {
        let (hold, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let connections = Arc::new(AtomicUsize::new(0));
        let open = Arc::clone(&connections);
        let server = Server::start(move |connection| {
            open.fetch_add(1, Ordering::Relaxed);
            connection.say(BEGUN)?;
            // Ends for all once nobody holds them.
            let _ = held.lock().map(|held| held.recv());
            connection.say("whole")
        });
        Self { server, hold: Some(hold), connections }
    }

    fn let_go(&mut self) {
        self.hold = None;
    }
}

/// What came of one request of an actor, which holds nothing.
fn one(node: &Node, name: &str, url: &str) -> Json {
    let answer = node.actor(&format!("probe/{name}")).get(&asking("/fetch-hold", url)).text();
    let heads: Vec<Json> =
        serde_json::from_str(answer.lines().next().expect("a line")).expect("JSON");
    heads[0].clone()
}

/// Has an actor open so many that are held, and returns once it knows what came of each.
fn hold(node: &Node, name: &str, url: &str, n: usize) -> (Raw, Vec<Json>) {
    let path = format!("/actor/probe/{name}{}&n={n}", asking("/fetch-hold", url));
    let mut client = node.ask(&path);
    assert_eq!(client.head().expect("a head").status, 200);
    let line = client.chunk().expect("a chunk").expect("not the end");
    (client, serde_json::from_slice(&line).expect("JSON"))
}

fn count(heads: &[Json], is: impl Fn(&Json) -> bool) -> usize {
    heads.iter().filter(|head| is(head)).count()
}

fn is_limited(head: &Json) -> bool {
    head["error"] == "connection-limit-reached"
}

#[test]
fn an_actor_has_sixteen_open_and_the_next_fails_at_once() {
    let mut held = Holding::start();
    let node = open_node();
    let (mut client, heads) = hold(&node, "a", &held.server.url("/"), 18);
    assert_eq!(count(&heads, |head| head["status"] == 200), 16, "{heads:?}");
    assert_eq!(count(&heads, is_limited), 2, "{heads:?}");
    assert_eq!(node.metric("wasmkeep_outbound_open_requests", &[]), 16.0);
    assert_eq!(node.metric("wasmkeep_outbound_requests_total", &["limited"]), 2.0);
    // Another actor has its own.
    let (mut other, heads) = hold(&node, "b", &held.server.url("/"), 1);
    assert_eq!(heads[0]["status"], 200);
    held.let_go();
    let rest: Vec<String> =
        serde_json::from_slice(&client.chunks().expect("the rest")).expect("JSON");
    assert_eq!(rest, vec!["whole"; 16]);
    other.chunks().expect("the rest");
    none_open(&node);
    // All places are there again.
    let path = format!("{}&n=16", asking("/fetch-hold", &held.server.url("/")));
    let lines = node.actor("probe/a").get(&path).text();
    assert_eq!(lines.matches("\"status\":200").count(), 16, "{lines}");
    assert_eq!(held.connections.load(Ordering::Relaxed), 33);
}

#[test]
fn a_node_has_256_open_and_the_next_fails_at_once() {
    let mut held = Holding::start();
    let node = open_node();
    let url = held.server.url("/");
    let mut clients = Vec::new();
    for actor in 0..16 {
        let (client, heads) = hold(&node, &format!("a{actor}"), &url, 16);
        assert_eq!(count(&heads, |head| head["status"] == 200), 16, "actor {actor}: {heads:?}");
        clients.push(client);
    }
    let head = one(&node, "one-more", &url);
    assert!(is_limited(&head), "{head}");
    held.let_go();
    for mut client in clients {
        client.chunks().expect("the rest");
    }
    none_open(&node);
    assert_eq!(one(&node, "one-more", &url)["status"], 200);
}

/// A server that says when the connection it answered was closed.
fn telling_of_its_close() -> (Server, mpsc::Receiver<()>) {
    let (closed, heard) = mpsc::channel();
    let closed = Mutex::new(closed);
    let server = Server::start(move |connection| {
        connection.say(BEGUN)?;
        connection.wait_for_close();
        let _ = closed.lock().map(|closed| closed.send(()));
        Ok(())
    });
    (server, heard)
}

#[test]
fn what_a_guest_keeps_ends_with_its_event() {
    let (server, closed) = telling_of_its_close();
    let node = open_node();
    let actor = node.actor("probe/a");
    for kept in 1..=20 {
        let answer = actor.get(&asking("/fetch-keep", &server.url("/"))).json();
        assert_eq!((&answer["status"], &answer["kept"]), (&200.into(), &kept.into()));
        closed.recv_timeout(crate::support::patience()).expect("the connection is closed");
    }
    none_open(&node);
    for answer in actor.get("/fetch-kept").json().as_array().expect("a list") {
        assert_eq!(answer["error"], "connection-terminated");
    }
}

#[test]
fn a_stopped_event_leaves_nothing_open() {
    let (server, closed) = telling_of_its_close();
    let node = Node::probe()
        .flag("--allow-outbound", "127.0.0.0/8")
        .flag("--wall-budget-ms", "700")
        .start();
    let (mut client, heads) = hold(&node, "a", &server.url("/"), 3);
    assert_eq!(count(&heads, |head| head["status"] == 200), 3);
    assert!(client.chunks().is_err(), "the event was stopped");
    for _ in 0..3 {
        closed.recv_timeout(crate::support::patience()).expect("the connection is closed");
    }
    eventually("no request is open", || node.metric("wasmkeep_outbound_open_requests", &[]) == 0.0);
}
