//! Bodies in both directions: as they come, whole or visibly not.

use std::sync::mpsc;
use std::sync::{Barrier, Mutex};

use super::{asking, fetch, fetch_within, none_open, open_node};
use crate::support::Server;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[test]
fn an_answer_is_passed_on_while_it_arrives() {
    let (go_on, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let server = Server::start(move |connection| {
        connection.say(format!("{CHUNKED}5\r\nfirst\r\n"))?;
        let _ = told.lock().expect("a lock").recv();
        connection.say("6\r\nsecond\r\n0\r\nx-trailer: 1\r\n\r\n")
    });
    let node = open_node();
    let mut client =
        node.ask(&format!("/actor/probe/a{}", asking("/fetch-stream", &server.url("/"))));
    assert_eq!(client.head().expect("a head").status, 200);
    assert_eq!(client.chunk().expect("a chunk").as_deref(), Some(&b"first"[..]));
    go_on.send(()).expect("the server waits");
    assert_eq!(client.chunks().expect("the rest"), b"second");
    none_open(&node);
}

#[test]
fn an_answer_that_breaks_off_is_never_whole() {
    let cut = [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n0123456789".to_owned(),
        format!("{CHUNKED}a\r\n0123456789\r\n"),
        format!("{CHUNKED}a\r\n01234"),
    ];
    let node = open_node();
    let actor = node.actor("probe/a");
    for said in cut {
        let server = Server::saying(said.clone());
        let answer = fetch(&actor, &server.url("/"));
        assert_eq!(answer["status"], 200, "{said}");
        assert_eq!(answer["error"], "HTTP-response-incomplete", "{said}");

        let path = format!("/actor/probe/a{}", asking("/fetch-stream", &server.url("/")));
        let mut client = node.ask(&path);
        if client.head().is_ok_and(|head| head.status == 200) {
            assert!(client.chunks().is_err(), "the client sees that something is missing");
        }
    }
    let server = Server::saying(format!("{CHUNKED}zz\r\n"));
    assert_eq!(fetch(&actor, &server.url("/"))["error"], "HTTP-protocol-error");
    none_open(&node);
}

#[test]
fn answers_without_a_body_and_those_that_end_with_the_connection_are_whole() {
    let table = [
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", 304, ""),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, ""),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end"),
        ("HTTP/1.0 200 OK\r\n\r\nold", 200, "old"),
        ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", 200, "x"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1;x=y\r\nb\r\n0\r\n\r\n",
            200,
            "ab",
        ),
    ];
    let node = open_node();
    let actor = node.actor("probe/a");
    for (said, status, body) in table {
        let answer = fetch(&actor, &Server::saying(said).url("/"));
        assert_eq!(answer["status"], status, "{said}");
        assert_eq!(answer["body"], body, "{said}: {answer}");
    }
    let head = Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    let path = format!("/actor/probe/a{}", asking("/fetch", &head.url("/")));
    let mut client = node.raw();
    client.send(format!("HEAD {path} HTTP/1.1\r\nhost: test\r\n\r\n"));
    assert_eq!(client.head().expect("a head").status, 200);
    assert!(head.requests()[0].line.starts_with("HEAD "));
    none_open(&node);
}

#[test]
fn a_body_is_uploaded_as_the_server_takes_it() {
    let server = Server::start(|connection| {
        let length = connection.read_body()?.len().to_string();
        connection.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", length.len()))?;
        connection.say(length)
    });
    let node = open_node();
    let actor = node.actor("probe/a");
    for (pieces, size) in [(0, 0), (1, 1), (3, 1000), (40, 100_000)] {
        let path = asking("/fetch-upload", &server.url("/"));
        let answer = actor.post(&format!("{path}&pieces={pieces}&size={size}"), "").json();
        assert_eq!(answer["body"], (pieces * size).to_string(), "{answer}");
        assert_eq!(answer["written"], pieces * size);
    }
    assert_eq!(server.requests()[3].header("transfer-encoding"), Some("chunked"));
    none_open(&node);
}

#[test]
fn a_server_may_answer_before_it_has_read_the_request() {
    const ANSWER: &str = "HTTP/1.1 413 Too Large\r\ncontent-length: 8\r\n\r\ntoo much";
    // One that closes at once, one that leaves the connection open, one that reads on.
    let closing = Server::start(|connection| connection.say(ANSWER));
    let holding = Server::start(|connection| {
        connection.say(ANSWER)?;
        connection.wait_for_close();
        Ok(())
    });
    let node = open_node();
    let actor = node.actor("probe/a");
    for server in [&closing, &holding] {
        for _ in 0..5 {
            let path = asking("/fetch-upload", &server.url("/"));
            let answer = actor.post(&format!("{path}&pieces=100&size=60000"), "").json();
            assert_eq!(answer["status"], 413, "{answer}");
            let answer = actor.post(&asking("/fetch", &server.url("/")), vec![b'x'; 3_000_000]);
            let answer = answer.json();
            assert_eq!((&answer["status"], &answer["body"]), (&413.into(), &"too much".into()));
        }
    }
    none_open(&node);
}

#[test]
fn a_request_goes_on_while_its_early_answer_is_read() {
    // Answers at once, and ends its answer only when it has the whole request.
    let server = Server::start(|connection| {
        connection.say(format!("{CHUNKED}5\r\nbegun\r\n"))?;
        let length = connection.read_body()?.len().to_string();
        connection.say(format!("{:x}\r\n{length}\r\n0\r\n\r\n", length.len()))
    });
    let node = open_node();
    let path = asking("/fetch", &server.url("/"));
    let answer = node.actor("probe/a").post(&path, vec![b'x'; 4_000_000]).json();
    assert_eq!(answer["body"], "begun4000000", "{answer}");
}

#[test]
fn each_step_takes_as_long_as_the_guest_says() {
    let silent = Server::start(|connection| {
        connection.wait_for_close();
        Ok(())
    });
    let stuck = Server::start(|connection| {
        connection.say(format!("{CHUNKED}5\r\nfirst\r\n"))?;
        connection.wait_for_close();
        Ok(())
    });
    let node = open_node();
    let actor = node.actor("probe/a");
    let answer = fetch_within(&actor, &silent.url("/"), 200);
    assert_eq!(answer["error"], "HTTP-response-timeout");
    let answer = fetch_within(&actor, &stuck.url("/"), 200);
    assert_eq!(answer["status"], 200);
    assert_eq!(answer["error"], "connection-read-timeout");
    // No TLS ever begins there.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let url = format!("https://{}/", mute.local_addr().expect("an address"));
    assert_eq!(fetch_within(&actor, &url, 200)["error"], "connection-timeout");
    none_open(&node);
}

#[test]
fn a_batch_is_sent_whole_before_anything_is_waited_for() {
    let all_are_there = Barrier::new(3);
    let server = Server::start(move |connection| {
        all_are_there.wait();
        let path = connection.head.line.split(' ').nth(1).unwrap_or_default().to_owned();
        connection.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", path.len()))?;
        connection.say(path)
    });
    let node = open_node();
    let urls = ["/a", "/b", "/c"].map(|path| server.url(path)).join("&url=");
    let text = node.actor("probe/a").get(&format!("/fetch-hold?url={urls}")).text();
    assert_eq!(text.lines().last(), Some(r#"["/a","/b","/c"]"#), "{text}");
}
