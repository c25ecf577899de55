use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value as Json, json};

use super::readme;
use crate::support::{Actor, Disk, Node, Setup, eventually, in_parallel, now_ms};

/// Queues, and actors that have the SDK's client.
fn queue() -> Setup {
    Node::serve().class("queue", "wasmkeep-example-queue.wasm").class("sdk", "guest-sdk.wasm")
}

/// One operation of the client on `queue/a`, by the actor `sdk/client`; what it gave.
#[track_caller]
fn client(node: &Node, op: Json) -> Json {
    let answer = node.actor("sdk/client").post("/queue?queue=queue/a", op.to_string()).json();
    assert!(answer.get("ok").is_some(), "{op}: {answer}");
    answer["ok"].clone()
}

#[track_caller]
fn send(queue: &Actor, body: &str) -> u64 {
    let sent = queue.post("/messages", body);
    assert_eq!(sent.status, 201, "{sent:?}");
    let sent: Json = serde_json::from_slice(&sent.body).expect("JSON");
    sent["id"].as_u64().expect("a number")
}

#[track_caller]
fn receive(queue: &Actor, max: u32, lease_ms: u64) -> Vec<Json> {
    let received = queue.post(&format!("/receive?max={max}&lease-ms={lease_ms}"), "").json();
    received["messages"].as_array().expect("a list").clone()
}

/// Waits until there is a message to receive.
#[track_caller]
fn received(queue: &Actor, lease_ms: u64) -> Json {
    let mut messages = Vec::new();
    eventually("a message is ready", || {
        messages = receive(queue, 1, lease_ms);
        !messages.is_empty()
    });
    messages.remove(0)
}

fn with_lease(queue: &Actor, message: &Json, what: &str) -> u16 {
    let receipt = message["receipt"].as_str().expect("a receipt");
    let (what, options) = what.split_once('?').unwrap_or((what, ""));
    let path = format!("/messages/{}/{what}?receipt={receipt}&{options}", message["id"]);
    queue.post(path.trim_end_matches('&'), "").status
}

fn bodies(messages: &[Json]) -> Vec<&str> {
    messages.iter().map(|message| message["body"].as_str().expect("text")).collect()
}

fn counts(queue: &Actor) -> [u64; 4] {
    let counts = queue.get("").json();
    ["ready", "delayed", "leased", "dead"].map(|state| counts[state].as_u64().expect("a number"))
}

#[test]
fn the_readme_of_the_queue_tells_the_truth() {
    readme::tells_the_truth(&queue().start(), "examples/queue/README.md");
}

#[test]
fn messages_come_in_the_order_in_which_they_became_ready() {
    let node = queue().start();
    let queue = node.actor("queue/a");
    let began = now_ms();
    let later = client(&node, json!({ "op": "send", "body": "later", "delay_ms": 300 }));
    assert_eq!(later, 1);
    let hidden = client(&node, json!({ "op": "send", "body": "hidden", "delay_ms": 3_600_000 }));
    assert_eq!(hidden, 2);
    let all: Vec<String> = (0..12).map(|i| format!("m{i}")).collect();
    for body in &all {
        send(&queue, body);
    }
    let mut have: Vec<String> = Vec::new();
    eventually("all are received", || {
        let messages = receive(&queue, 5, 3_600_000);
        if bodies(&messages).contains(&"later") {
            assert!(now_ms() >= began + 300, "before its time");
        }
        have.extend(bodies(&messages).iter().map(|&body| body.to_owned()));
        have.len() == all.len() + 1
    });
    have.retain(|body| body != "later");
    assert_eq!(have, all);
    assert_eq!(counts(&queue), [0, 1, 13, 0]);
}

#[test]
fn a_lease_keeps_others_away_until_it_ends_and_is_worth_nothing_after() {
    let node = queue().start();
    let queue = node.actor("queue/a");
    send(&queue, "m");
    let began = now_ms();
    let first = receive(&queue, 1, 400).remove(0);
    assert_eq!(first["attempt"], 1);
    let second = received(&queue, 3_600_000);
    assert!(now_ms() >= began + 400, "it came again before its lease had ended");
    assert_eq!((&second["id"], &second["attempt"]), (&json!(1), &json!(2)));
    let ops = [
        json!({ "op": "ack", "message": first }),
        json!({ "op": "nack", "message": first, "delay_ms": 0 }),
        json!({ "op": "extend", "message": first, "lease_ms": 1 }),
    ];
    for op in ops {
        let answer = node.actor("sdk/client").post("/queue?queue=queue/a", op.to_string()).json();
        assert_eq!(answer, json!({ "ended": 1 }), "{op}");
    }
    assert_eq!(counts(&queue), [0, 0, 1, 0], "none of them has changed the lease that is");
    assert_eq!(client(&node, json!({ "op": "ack", "message": second })), Json::Null);
    assert_eq!(counts(&queue), [0; 4]);
    assert_eq!(with_lease(&queue, &second, "ack"), 409, "it is gone");
}

#[test]
fn a_lease_that_has_ended_is_not_acknowledged_even_if_nobody_else_came() {
    let node = queue().start();
    let queue = node.actor("queue/a");
    send(&queue, "m");
    let message = receive(&queue, 1, 1).remove(0);
    let ended = now_ms() + 1;
    eventually("the lease has ended", || now_ms() > ended);
    assert_eq!(with_lease(&queue, &message, "ack"), 409);
    assert_eq!(counts(&queue), [1, 0, 0, 0]);
}

#[test]
fn a_lease_can_be_extended_and_cut_short() {
    let node = queue().start();
    let queue = node.actor("queue/a");
    send(&queue, "m");
    let began = now_ms();
    let message = receive(&queue, 1, 3000).remove(0);
    let extend = json!({ "op": "extend", "message": message, "lease_ms": 3_600_000 });
    assert_eq!(client(&node, extend), Json::Null);
    eventually("the first lease would have ended", || now_ms() > began + 3000);
    assert_eq!(receive(&queue, 1, 1000), [0; 0]);
    assert_eq!(with_lease(&queue, &message, "extend?lease-ms=1"), 204);
    assert_eq!(received(&queue, 1000)["attempt"], 2);
}

#[test]
fn a_message_given_back_comes_again_when_its_delay_has_passed() {
    let node = queue().start();
    let queue = node.actor("queue/a");
    send(&queue, "m");
    let message = receive(&queue, 1, 3_600_000).remove(0);
    assert_eq!(with_lease(&queue, &message, "nack"), 204);
    let message = receive(&queue, 1, 3_600_000).remove(0);
    assert_eq!(message["attempt"], 2, "at once, without a delay");
    let nack = json!({ "op": "nack", "message": message, "delay_ms": 3_600_000 });
    assert_eq!(client(&node, nack), Json::Null);
    assert_eq!(counts(&queue), [0, 1, 0, 0]);
    assert_eq!(with_lease(&queue, &message, "ack"), 409, "it was given back");
}

/// Receives and gives back until nothing is ready; how often.
fn give_up(queue: &Actor) -> usize {
    let again = || {
        let messages = receive(queue, 1, 3_600_000);
        let given_back =
            messages.first().map(|message| with_lease(queue, message, "nack?delay-ms=0"));
        given_back.map(|status| assert_eq!(status, 204))
    };
    std::iter::from_fn(again).count()
}

#[test]
fn after_five_attempts_a_message_is_dead_until_it_is_requeued() {
    let mut node = queue().start();
    let queue = node.actor("queue/a");
    send(&queue, "bad");
    assert_eq!(give_up(&queue), 5);
    assert_eq!(counts(&queue), [0, 0, 0, 1]);
    node.kill();
    node.start_again();
    let queue = node.actor("queue/a");
    let dead = client(&node, json!({ "op": "dead", "after": 0 }));
    let shown = (&dead[0]["id"], &dead[0]["body"], &dead[0]["attempts"]);
    assert_eq!(shown, (&json!(1), &json!("bad"), &json!(5)));
    assert_eq!(client(&node, json!({ "op": "dead", "after": 1 })), json!([]));
    assert_eq!(client(&node, json!({ "op": "requeue", "id": 1 })), true);
    assert_eq!(client(&node, json!({ "op": "requeue", "id": 1 })), false, "it is not dead");
    assert_eq!(client(&node, json!({ "op": "delete-dead", "id": 1 })), false);
    assert_eq!(give_up(&queue), 5, "five new attempts");
    assert_eq!(client(&node, json!({ "op": "delete-dead", "id": 1 })), true);
    assert_eq!(counts(&queue), [0; 4]);
}

#[test]
fn the_operator_says_how_many_attempts_and_a_last_lease_that_ends_is_death() {
    let folder = tempfile::tempdir().expect("make a folder");
    let file = folder.path().join("queue.env");
    let write = |text: &str| {
        let mut options = fs::OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&file);
        std::io::Write::write_all(&mut opened.expect("open"), text.as_bytes()).expect("write");
    };
    write("QUEUE_MAX_ATTEMPTS=2\n");
    let served = queue().flag("--env", format!("queue={}", file.display()));
    let mut node = served.start();
    let queue = node.actor("queue/a");
    send(&queue, "m");
    assert_eq!(received(&queue, 1)["attempt"], 1);
    let last = received(&queue, 3_600_000);
    assert_eq!(counts(&queue), [0, 0, 1, 0], "it is not dead while its lease lasts");
    assert_eq!(with_lease(&queue, &last, "extend?lease-ms=1"), 204);
    eventually("it is dead", || counts(&queue) == [0, 0, 0, 1]);
    assert_eq!(receive(&queue, 1, 1000), [0; 0]);
    // Its last attempt may succeed.
    send(&queue, "n");
    received(&queue, 1);
    let last = received(&queue, 3_600_000);
    assert_eq!((&last["attempt"], with_lease(&queue, &last, "ack")), (&json!(2), 204));

    node.stop_cleanly();
    write("QUEUE_MAX_ATTEMPTS=many\n");
    node.start_again();
    let queue = node.actor("queue/a");
    send(&queue, "o");
    let answer = queue.post("/receive", "");
    assert_eq!(answer.status, 500, "{answer:?}");
    node.logged("QUEUE_MAX_ATTEMPTS: \"many\" is no number from 1 to 1000");
    assert_eq!(counts(&queue), [1, 0, 0, 1], "nothing is lost");
}

#[test]
fn all_states_survive_a_kill() {
    let mut node = queue().start();
    let queue = node.actor("queue/a");
    let first = send(&queue, "leased");
    let leased = receive(&queue, 1, 3_600_000).remove(0);
    assert_eq!(leased["id"], first);
    queue.post("/messages?delay-ms=3600000", "delayed");
    send(&queue, "dead");
    give_up(&queue);
    send(&queue, "ready");
    let ending = queue.post("/messages?delay-ms=900", "ends while down");
    assert_eq!(ending.status, 201);
    let ready_at = now_ms() + 900;
    node.kill();
    eventually("its delay has passed", || now_ms() > ready_at);
    node.start_again();
    let queue = node.actor("queue/a");
    assert_eq!(counts(&queue), [2, 1, 1, 1]);
    assert_eq!(bodies(&receive(&queue, 10, 3_600_000)), ["ready", "ends while down"]);
    assert_eq!(with_lease(&queue, &leased, "ack"), 204, "the receipt is still good");
}

#[test]
fn of_many_consumers_each_message_has_one_and_none_is_lost() {
    const MESSAGES: usize = 120;
    let node = queue().start();
    let acknowledged = Mutex::new(Vec::new());
    let done = AtomicUsize::new(0);
    in_parallel(6, |i| {
        let queue = node.actor("queue/a");
        if i < 2 {
            for m in 0..MESSAGES / 2 {
                send(&queue, &format!("{i}-{m}"));
            }
            return;
        }
        eventually("all are acknowledged", || {
            for message in receive(&queue, 3, 3_600_000) {
                assert_eq!(message["attempt"], 1, "two have {message}");
                assert_eq!(with_lease(&queue, &message, "ack"), 204);
                let body = message["body"].as_str().expect("text").to_owned();
                acknowledged.lock().expect("no panic").push(body);
                done.fetch_add(1, Ordering::Relaxed);
            }
            done.load(Ordering::Relaxed) == MESSAGES
        });
    });
    let acknowledged = acknowledged.into_inner().expect("no panic");
    let once: BTreeSet<&String> = acknowledged.iter().collect();
    assert_eq!((acknowledged.len(), once.len()), (MESSAGES, MESSAGES));
    assert_eq!(counts(&node.actor("queue/a")), [0; 4]);
}

#[test]
fn what_a_queue_does_not_take_it_says_and_changes_nothing() {
    let node = queue().start();
    let queue = node.actor("queue/a");
    let rows: [(&str, &[u8], u16, &str); 11] = [
        ("/messages", b"\xff", 400, "UTF-8"),
        ("/messages?delay=5", b"m", 400, "this takes delay-ms"),
        ("/messages?delay-ms=-1", b"m", 400, "`delay-ms`"),
        ("/messages", &[b'x'; 64 * 1024 + 1], 413, "at most 65536 bytes"),
        ("/receive?max=11", b"", 400, "from 1 to 10"),
        ("/receive?max=0", b"", 400, "from 1 to 10"),
        ("/receive?lease-ms=0", b"", 400, "`lease-ms`"),
        ("/receive?lease-ms=43200001", b"", 400, "from 1 to 43200000"),
        ("/messages/1/ack", b"", 400, "`receipt` is missing"),
        ("/messages/one/ack?receipt=x", b"", 400, "no message's number"),
        ("/dead/1/requeue", b"", 404, "no dead message 1"),
    ];
    for (path, body, status, says) in rows {
        let answer = queue.post(path, body);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.says(says), "{path}: {answer:?}");
    }
    assert_eq!(queue.get("/receive").header("allow"), Some("POST"));
    assert_eq!(counts(&queue), [0; 4]);
}

#[test]
fn the_longest_messages_come_four_at_a_time() {
    let node = queue().start();
    let queue = node.actor("queue/a");
    // What JSON makes six times as long.
    let long = "\u{1}".repeat(64 * 1024);
    for _ in 0..10 {
        send(&queue, &long);
    }
    for some in [4, 4, 2, 0] {
        let messages = receive(&queue, 10, 3_600_000);
        assert_eq!(messages.len(), some);
        assert!(messages.iter().all(|message| message["body"] == *long));
    }
}

#[test]
fn a_message_is_on_disk_before_its_sender_is_told() {
    let disk = Disk::new();
    let node = disk.under(queue()).start();
    let queue = node.actor("queue/a");
    send(&queue, "first");
    disk.done();
    send(&queue, "second");
    let done = disk.done();
    let at = |what: &str, end: &str| {
        let found = done.iter().position(|line| line.starts_with(what) && line.ends_with(end));
        found.unwrap_or_else(|| panic!("no {what}…{end} in {done:#?}"))
    };
    assert!(at("fsync ", ".db-wal") < at("send HTTP/1.1 201", ""), "{done:#?}");
}
