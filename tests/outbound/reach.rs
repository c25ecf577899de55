//! Which addresses, ports and servers an actor reaches, and what a server sees of it.

use super::{asking, fetch, open_node};
use crate::support::{Node, Server};

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

#[test]
fn this_machine_is_reached_only_when_its_range_is_opened() {
    let server = Server::saying(HELLO);
    let url = server.url("/x");
    let node = Node::probe().start();
    assert_eq!(fetch(&node.actor("probe/a"), &url)["error"], "destination-IP-prohibited");
    assert_eq!(node.metric("wasmkeep_outbound_requests_total", &["denied"]), 1.0);
    assert!(server.requests().is_empty());

    let node = open_node();
    let answer = fetch(&node.actor("probe/a"), &url);
    assert_eq!((&answer["status"], &answer["body"]), (&200.into(), &"hello".into()));
    assert_eq!(server.requests()[0].line, "GET /x HTTP/1.1");
    assert_eq!(node.metric("wasmkeep_outbound_requests_total", &["answered"]), 1.0);
}

#[test]
fn no_spelling_of_an_address_gets_around_the_check() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let prohibited = [
        "127.1",
        "0x7f000001",
        "017700000001",
        "2130706433",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "10.0.0.1",
        "[fd00::1]",
    ];
    for host in prohibited {
        let error = fetch(&actor, &format!("http://{host}:8080/"))["error"].clone();
        assert_eq!(error, "destination-IP-prohibited", "{host}");
    }
    for host in ["user@example.com", "1.2.3.4.5", "[::1%25lo]"] {
        let answer = fetch(&actor, &format!("http://{host}/"));
        assert!(answer["status"].is_null(), "{host}: {answer}");
    }
}

#[test]
fn a_name_inside_fails_as_an_unknown_one_does() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let inside = fetch(&actor, "http://localhost:8080/");
    assert_eq!(inside["error"], "DNS-error");
    assert_eq!(inside, fetch(&actor, "http://does-not-exist.invalid:8080/"));
}

#[test]
fn a_name_is_reached_when_its_address_is_opened() {
    let server = Server::saying(HELLO);
    let node = open_node();
    let url = format!("http://localhost:{}/", server.address.port());
    assert_eq!(fetch(&node.actor("probe/a"), &url)["body"], "hello");
    let host = format!("localhost:{}", server.address.port());
    assert_eq!(server.requests()[0].header("host"), Some(&*host));
}

#[test]
fn ports_of_other_protocols_are_refused_unless_opened() {
    let node = open_node();
    let actor = node.actor("probe/a");
    for port in [22, 25, 587, 6667, 10080] {
        let denied = fetch(&actor, &format!("http://127.0.0.1:{port}/"));
        assert_eq!(denied["error"], "HTTP-request-denied", "{port}");
    }
    let denied = fetch(&actor, "http://10.0.0.1:25/");
    assert_eq!(denied["error"], "HTTP-request-denied", "the port is looked at first");

    let opened = Node::probe()
        .flag("--allow-outbound", "127.0.0.0/8")
        .flag("--allow-outbound-port", "10080")
        .start();
    let actor = opened.actor("probe/a");
    assert_eq!(fetch(&actor, "http://127.0.0.9:10080/")["error"], "connection-refused");
    assert_eq!(fetch(&actor, "http://127.0.0.9:6667/")["error"], "HTTP-request-denied");
}

#[test]
fn a_redirect_is_an_answer_like_others() {
    let server = Server::start(|connection| {
        connection.say("HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n")
    });
    let node = open_node();
    let answer = fetch(&node.actor("probe/a"), &server.url("/first"));
    assert_eq!(answer["status"], 302);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_server_sees_what_the_guest_said_and_nothing_of_the_host() {
    let server = Server::start(|connection| {
        let body = connection.read_body()?;
        connection.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()))?;
        connection.say(body)
    });
    let node = open_node();
    let actor = node.actor("probe/a");
    let path = asking("/fetch", &server.url("/a%20b?c=d&e"));
    let answer = actor.send("PUT", &path, &[("x-probe", "kept")], b"the body").json();
    assert_eq!(answer["body"], "the body");
    let head = &server.requests()[0];
    assert_eq!(head.line, "PUT /a%20b?c=d&e HTTP/1.1");
    assert_eq!(head.header("host"), Some(&*server.address.to_string()));
    assert_eq!(head.header("connection"), Some("close"));
    assert_eq!(head.header("content-length"), Some("8"));
    assert_eq!(head.header("x-probe"), Some("kept"));
    assert!(!head.headers.iter().any(|(name, _)| name.starts_with("x-wasmkeep")), "{head:?}");
}

#[test]
fn no_proxy_is_asked() {
    let server = Server::saying(HELLO);
    let mut setup = Node::probe().flag("--allow-outbound", "127.0.0.0/8");
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
        setup = setup.variable(name, "http://127.0.0.1:1");
    }
    let node = setup.start();
    assert_eq!(fetch(&node.actor("probe/a"), &server.url("/"))["body"], "hello");
}

#[test]
fn ranges_may_come_from_the_environment() {
    let server = Server::saying(HELLO);
    let ranges = "10.0.0.0/8,127.0.0.0/8";
    let node = Node::probe().variable("WASMKEEP_ALLOW_OUTBOUND", ranges).start();
    assert_eq!(fetch(&node.actor("probe/a"), &server.url("/"))["body"], "hello");
}

#[test]
fn what_a_server_does_wrong_has_its_name() {
    let table: [(&[u8], &str); 6] = [
        (b"", "connection-terminated"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "connection-terminated"),
        (b"220 mail.example ESMTP\r\n", "HTTP-protocol-error"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "HTTP-protocol-error"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", "HTTP-protocol-error"),
        (b"HTTP/1.1 200 OK\r\nx: ", "HTTP-response-header-section-size"),
    ];
    let node = open_node();
    let actor = node.actor("probe/a");
    for (said, code) in table {
        let mut said = said.to_vec();
        if code.contains("size") {
            said.extend(vec![b'x'; 200 * 1024]);
        }
        let server = Server::saying(said.clone());
        let answer = fetch(&actor, &server.url("/"));
        assert_eq!(
            answer["error"],
            code,
            "{:?}",
            String::from_utf8_lossy(&said[..said.len().min(40)])
        );
    }
}
