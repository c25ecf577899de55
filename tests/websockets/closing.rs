use serde_json::json;

use super::{connections, names, post};
use crate::support::{CLOSE, FIN, Node, TEXT, WebSocket, eventually};

/// What a probe's close event tells the others: id, code, reason and attachment.
fn told(id: u64, code: u16, reason: &str, attachment: &str) -> String {
    format!("closed {id} {code} {reason:?} {attachment:?}")
}

#[test]
fn the_actor_hears_the_code_its_client_closed_with() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let mut watching = WebSocket::open(&node, "probe/a?name=watching");
    let mut leave = |end: &dyn Fn(WebSocket), code: u16, reason: &str| {
        let socket = WebSocket::open(&node, "probe/a?name=leaving");
        let id = connections(&actor)[1].0;
        end(socket);
        assert_eq!(watching.next_text(), told(id, code, reason, "leaving"));
        assert_eq!(names(&actor), ["watching"]);
    };
    let closes = |mut socket: WebSocket| {
        socket.close(4321, "so long");
        assert_eq!(socket.closed(), (4321, "so long".to_owned()));
        socket.ends();
    };
    leave(&closes, 4321, "so long");
    let closes_without_a_code = |mut socket: WebSocket| {
        socket.send(FIN | CLOSE, b"");
        assert_eq!(socket.closed(), (1005, String::new()));
        socket.ends();
    };
    leave(&closes_without_a_code, 1005, "");
    leave(&|socket: WebSocket| drop(socket), 1006, "");
    let breaks_off = |mut socket: WebSocket| {
        socket.0.send([FIN | TEXT]);
    };
    leave(&breaks_off, 1006, "");
    let breaks_the_protocol = |mut socket: WebSocket| {
        socket.send(FIN | TEXT, b"\xff");
        assert_eq!(socket.closed().0, 1007);
    };
    leave(&breaks_the_protocol, 1007, "a text is not UTF-8");
}

#[test]
fn messages_before_a_close_are_handled_before_it() {
    let node = Node::probe().start();
    let mut watching = WebSocket::open(&node, "probe/a?name=watching");
    let mut socket = WebSocket::open(&node, "probe/a?name=leaving");
    let id = connections(&node.actor("probe/a"))[1].0;
    let _busy = node.busy("probe/a", 300);
    socket.text("one").text("two").text("three").close(1000, "");
    assert_eq!(watching.next_text(), told(id, 1000, "", "leaving"));
    let handled = |outcome: &str| {
        let labels = ["kind=\"socket-message\"", &format!("outcome=\"{outcome}\"")];
        node.metric("wasmkeep_events_total", &labels)
    };
    // The client may have closed already when the actor would have answered the last.
    assert_eq!(handled("answered") + handled("failed"), 3.0);
    assert_eq!(handled("skipped"), 0.0);
}

#[test]
fn an_actor_closes_a_socket_and_hears_of_its_end() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let mut watching = WebSocket::open(&node, "probe/a?name=watching");
    let mut socket = WebSocket::open(&node, "probe/a?name=closed");
    let id = connections(&actor)[1].0;
    for (query, error) in [
        ("code=999", "InvalidCode"),
        ("code=1005", "InvalidCode"),
        ("code=1012", "InvalidCode"),
        ("code=5000", "InvalidCode"),
    ] {
        let answer = post(&actor, &format!("/close?socket={id}&{query}"), "");
        assert_eq!(answer, json!({ "error": error }), "{query}");
    }
    let long = "x".repeat(124);
    let answer = post(&actor, &format!("/close?socket={id}&code=4000&reason={long}"), "");
    assert_eq!(answer, json!({ "error": "ReasonTooLong" }));
    socket.echoes("the socket is as it was");

    post(&actor, &format!("/send?socket={id}"), "last words");
    let answer = post(&actor, &format!("/close?socket={id}&code=4000&reason=enough"), "");
    assert_eq!(answer, json!({ "ok": true }));
    assert_eq!(names(&actor), ["watching"]);
    for path in ["send", "close"] {
        let answer = post(&actor, &format!("/{path}?socket={id}"), "");
        assert_eq!(answer, json!({ "error": "Closed" }), "{path}");
    }
    assert_eq!(socket.next_text(), "last words");
    assert_eq!(socket.closed(), (4000, "enough".to_owned()));
    socket.text("too late");
    socket.close(4000, "enough");
    socket.ends();
    assert_eq!(watching.next_text(), told(id, 4000, "enough", "closed"));
}

#[test]
fn a_failed_message_fails_its_event_and_the_socket_stays() {
    let node = Node::probe().start();
    let mut socket = WebSocket::open(&node, "probe/a?name=x");
    for failing in ["trap", "error"] {
        socket.text(failing);
        socket.echoes("after it");
    }
    assert_eq!(names(&node.actor("probe/a")), ["x"]);
    socket.text("close");
    assert_eq!(socket.closed(), (4000, "told to close".to_owned()));
}

#[test]
fn a_client_that_does_not_read_gets_backpressure_and_takes_no_memory() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let mut deaf = WebSocket::open(&node, "probe/a?name=deaf");
    let mut reads = WebSocket::open(&node, "probe/a?name=reads");
    let id = connections(&actor)[0].0;
    let message = "x".repeat(512 * 1024);
    let before = node.resident_kib();
    let mut sent = 0;
    while post(&actor, &format!("/send?socket={id}"), &message) == json!({ "ok": true }) {
        sent += 1;
        assert!(sent < 200, "nothing pushes back");
    }
    let answer = post(&actor, &format!("/send?socket={id}"), &message);
    assert_eq!(answer, json!({ "error": "Backpressure" }));
    for _ in 0..100 {
        post(&actor, &format!("/send?socket={id}"), &message);
    }
    let grown = node.resident_kib().saturating_sub(before);
    assert!(grown < 40 * 1024, "{grown} KiB more");
    reads.echoes("others go on");
    let too_large = "x".repeat(1024 * 1024 + 1);
    let answer = post(&actor, &format!("/send?socket={id}"), &too_large);
    assert_eq!(answer, json!({ "error": "TooLarge" }));
    // Those that were taken arrive, whole and in order, once it reads.
    for _ in 0..sent {
        assert_eq!(deaf.next_text().len(), message.len());
    }
    assert_eq!(post(&actor, &format!("/send?socket={id}"), "and on"), json!({ "ok": true }));
    assert_eq!(deaf.next_text(), "and on");
}

#[test]
fn a_delete_takes_the_sockets_along_except_in_open_classes() {
    let node = Node::probe()
        .class("known", "guest-probe.wasm")
        .flag("--access", "known=existing:main")
        .start();
    for how in ["delete-self", "delete-self-durable"] {
        let known = node.actor("known/main");
        let mut socket = WebSocket::open(&node, "known/main?name=x");
        known.steps(json!([{ "op": how }]));
        assert_eq!(socket.closed(), (1000, "actor deleted".to_owned()));
        socket.close(1000, "");
        socket.ends();
        eventually("it is gone", || node.metric("wasmkeep_sockets", &[]) == 0.0);
    }
    let closes =
        node.metric("wasmkeep_events_total", &["class=\"known\"", "kind=\"socket-close\""]);
    assert_eq!(closes, 0.0, "nobody is left to be told");

    let open = node.actor("probe/a");
    let mut socket = WebSocket::open(&node, "probe/a?name=x");
    open.steps(json!([{ "op": "delete-self" }]));
    socket.echoes("to the new actor");
    assert_eq!(names(&open), ["x"]);
    assert_eq!(open.get("/init").text(), "1", "it is a new one");
}

#[test]
fn a_node_that_stops_closes_with_1012_after_what_its_actors_still_said() {
    let mut node = Node::probe().start();
    let mut sockets: Vec<_> = ["a", "a", "b"]
        .iter()
        .map(|name| WebSocket::open(&node, &format!("probe/{name}")))
        .collect();
    node.terminate();
    for socket in &mut sockets {
        assert_eq!(socket.closed().0, 1012);
        socket.close(1012, "");
        socket.ends();
    }
    assert!(node.wait_for_exit().success());
}
