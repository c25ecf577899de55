use std::fs;

use serde_json::json;

use crate::support::{Browser, Node, Setup, WebSocket, component, eventually};

/// As the README serves it, but that an idle room sleeps after a second.
fn chat() -> Setup {
    chat_in("wasmkeep-example-chat-room.wasm")
}

fn chat_in(room: &str) -> Setup {
    Node::serve()
        .flag("--front", component("wasmkeep-example-chat-front.wasm"))
        .class("room", room)
        .flag("--idle-timeout-secs", "1")
}

fn come_in(node: &Node, browser: &Browser, name: &str) {
    browser.open(&format!("http://{}/", node.address()));
    browser.type_into("#name", name);
    browser.click("#enter button");
    browser.shows("Connected");
}

fn say(browser: &Browser, text: &str) {
    browser.type_into("#text", text);
    browser.click("#say button");
}

fn all_sleep(node: &Node) {
    eventually("the room sleeps", || node.metric("wasmkeep_resident_actors", &[]) == 0.0);
}

#[test]
fn two_browsers_talk_and_the_room_sleeps_in_between() {
    let mut node = chat().start();
    let (ann, bob) = (Browser::start(), Browser::start());
    come_in(&node, &ann, "Ann");
    come_in(&node, &bob, "Bob <b>");
    ann.shows("Bob <b> came in");
    say(&ann, "hello, <i>Bob</i>");
    bob.shows("hello, <i>Bob</i>");
    all_sleep(&node);
    say(&bob, "I woke you");
    ann.shows("I woke you");
    ann.picture("chat");

    // The node stops and starts: both pages come back by themselves, and miss nothing.
    let address = node.address();
    node.stop_cleanly();
    ann.shows("Not connected");
    node.start_again_as(chat().at(address));
    ann.shows("Connected");
    bob.shows("Connected");
    say(&ann, "still here");
    bob.shows("still here");
    assert_eq!(bob.text().matches("I woke you").count(), 1, "nothing is shown twice");
    let people =
        bob.run("return [...document.querySelectorAll('#people li')].map(p => p.innerText)");
    assert_eq!(people, json!(["Ann", "Bob <b>"]));

    ann.open("about:blank");
    bob.shows("Ann left");
    let late = Browser::start();
    come_in(&node, &late, "Cy");
    late.shows("I woke you");
    // While the node was down, the pages could not connect; they say so and nothing else.
    for (who, browser) in [("ann", &ann), ("bob", &bob), ("cy", &late)] {
        let errors = browser.errors();
        let unexpected: Vec<_> =
            errors.iter().filter(|error| !error.contains("ERR_CONNECTION_REFUSED")).collect();
        assert!(unexpected.is_empty(), "{who}: {unexpected:?}");
    }
}

#[test]
fn what_a_room_does_not_take_it_says() {
    a_room_says_what_it_does_not_take(&chat().start());
}

#[test]
fn a_room_in_typescript_talks_alike() {
    a_room_says_what_it_does_not_take(&chat_in("wasmkeep-example-chat-room-ts.wasm").start());
}

fn a_room_says_what_it_does_not_take(node: &Node) {
    let socket = |path: &str| WebSocket::try_open_at(node.address(), path, "");
    let refused = |path: &str| socket(path).err().expect("it is refused");
    let answer = refused("/rooms/lobby/socket?name=");
    answer.refused(403, "socket-refused", "ran");
    assert!(answer.says("say who you are"), "{answer:?}");
    refused(&format!("/rooms/lobby/socket?name={}", "x".repeat(31)));
    assert_eq!(refused("/rooms/a%20b/socket?name=ann").status, 404);
    assert_eq!(node.get("/rooms/..%2f").status, 404);

    let mut ann = socket("/rooms/lobby/socket?name=ann").expect("it is opened");
    let welcome = json!({ "type": "welcome", "people": ["ann"], "messages": [] });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ann.next_text()).ok(), Some(welcome));
    for wrong in ["", "no JSON", "{}", r#"{"text":" "}"#, r#"{"text":"x","who":"bob"}"#] {
        ann.text(wrong);
        assert!(ann.next_text().contains(r#""type":"refused""#), "{wrong}");
    }
    let long = json!({ "text": "x".repeat(2001) }).to_string();
    ann.text(&long);
    assert!(ann.next_text().contains("at most 2000 characters"));
    ann.text(r#"{"text":" kept "}"#);
    assert!(ann.next_text().contains(r#""text":"kept""#));
    let kept = node.get("/rooms/lobby/messages").json();
    assert_eq!(
        (&kept[0]["who"], &kept[0]["text"], kept.as_array().map(Vec::len)),
        (&json!("ann"), &json!("kept"), Some(1))
    );

    // Who comes back gets what came after the last message they saw.
    let mut back = socket("/rooms/lobby/socket?name=ann&after=1").expect("it is opened");
    assert!(back.next_text().contains(r#""messages":[]"#));
    assert_eq!(fs::read_dir(node.data_dir().join("state")).map(|all| all.count()).ok(), Some(1));
}
