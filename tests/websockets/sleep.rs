use serde_json::json;

use super::{connections, names, post};
use crate::support::{Node, WebSocket, eventually};

fn sleeps(node: &Node) {
    eventually("the actors sleep", || node.metric("wasmkeep_resident_actors", &[]) == 0.0);
}

#[test]
fn a_socket_outlives_its_instance_and_a_message_wakes_the_actor() {
    let node = Node::probe().flag("--idle-timeout-secs", "1").start();
    let actor = node.actor("probe/a");
    let mut first = WebSocket::open(&node, "probe/a?name=ann");
    let mut second = WebSocket::open(&node, "probe/a?name=bob");
    let before = connections(&actor);
    sleeps(&node);
    first.echoes("wake up");
    assert_eq!(connections(&actor), before, "ids and attachments are as before");
    sleeps(&node);
    assert_eq!(post(&actor, "/broadcast", "from HTTP"), json!({ "sent": 2 }));
    assert_eq!((first.next_text(), second.next_text()), ("from HTTP".into(), "from HTTP".into()));
    sleeps(&node);
    drop(first);
    let (id, _) = before[0];
    assert_eq!(second.next_text(), format!("closed {id} 1006 \"\" \"ann\""));
}

#[test]
fn a_message_waits_for_capacity_longer_than_a_request_does() {
    let node = Node::probe().flag("--max-instances", "1").start();
    let mut socket = WebSocket::open(&node, "probe/a");
    let _busy = node.busy("probe/b", 1500);
    socket.text("as long as it takes");
    node.actor("probe/c").get("/memory").refused(503, "no-capacity", "not-run");
    assert_eq!(socket.next_text(), "as long as it takes");
}

#[test]
fn a_message_that_finds_no_capacity_within_the_wall_closes_with_1013() {
    let node = Node::probe().flag("--max-instances", "1").flag("--wall-budget-ms", "1000").start();
    let mut socket = WebSocket::open(&node, "probe/a?name=x");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = crate::support::SetAtTheEnd(&stop);
        // Always two events there, so that the actor never looks idle.
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    node.actor("probe/b").get("/wait?ms=200");
                }
            });
        }
        eventually("the other actor holds the place", || {
            node.actor("probe/c").get("/memory").status == 503
        });
        socket.text("no room");
        assert_eq!(socket.closed().0, 1013);
        socket.close(1013, "");
        socket.ends();
        assert_eq!(node.metric("wasmkeep_sockets", &[]), 1.0, "its end is still to be told");
    });
    eventually("its end is told once there is room", || {
        node.metric("wasmkeep_sockets", &[]) == 0.0
    });
    let told =
        node.metric("wasmkeep_events_total", &["kind=\"socket-close\"", "outcome=\"answered\""]);
    assert_eq!(told, 1.0);
    assert_eq!(names(&node.actor("probe/a")), [""; 0]);
}

#[test]
fn ids_are_not_used_again_after_a_restart() {
    let mut node = Node::probe().start();
    let _socket = WebSocket::open(&node, "probe/a");
    let before = connections(&node.actor("probe/a"))[0].0;
    node.kill();
    node.start_again();
    assert_eq!(names(&node.actor("probe/a")), [""; 0]);
    let _socket = WebSocket::open(&node, "probe/a");
    assert!(connections(&node.actor("probe/a"))[0].0 > before);
}
