//! Who is let in: TLS, a key, and a live lease; and what a hop has to be.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wasmkeep_supervisors::event::{Body, CallChain, Caller, Reason, Refusal, Task};
use wasmkeep_supervisors::limits::PEER_STRANGERS_MAX;
use wasmkeep_supervisors::ports::{NotReached, PeerLink, RelayError};
use wasmkeep_supervisors::relay::{ANSWER, Answer, HopRefused};

use super::node::*;

/// Sends bytes over TLS; what comes back until the end.
async fn over_tls(port: SocketAddr, config: ClientConfig, bytes: &str) -> std::io::Result<String> {
    let stream = TcpStream::connect(port).await?;
    let name = ServerName::try_from("any").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(bytes.as_bytes()).await?;
    let mut came = Vec::new();
    stream.read_to_end(&mut came).await?;
    Ok(String::from_utf8_lossy(&came).into_owned())
}

/// The last answer to requests that a known node writes itself.
async fn said(owner: &Owner, request: &str) -> Answer {
    let sender = Sender::known_to(owner);
    let config = sender.identity.to_peer(owner.identity.key()).expect("TLS");
    let came = over_tls(owner.port.address(), config, request).await.expect("an answer");
    let header = format!("{ANSWER}: ");
    let answer = came.lines().rev().find_map(|line| line.strip_prefix(&header));
    Answer::decode(answer.unwrap_or_else(|| panic!("no answer in {came}")).as_bytes()).expect("one")
}

fn request(line: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\nhost: peer\r\nconnection: close\r\n{headers}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_text_is_not_answered() {
    let owner = Owner::start().await;
    let mut stream = TcpStream::connect(owner.port.address()).await.expect("it listens");
    stream.write_all(request("GET /_wasmkeep/health", "").as_bytes()).await.expect("sent");
    let mut came = Vec::new();
    let _ = stream.read_to_end(&mut came).await;
    assert_eq!(came, b"");
    eventually("it is counted", || owner.refused("plain-text") == 1).await;
}

/// Shows nothing when it is asked who it is.
#[derive(Debug)]
struct Nobody;

impl ResolvesClientCert for Nobody {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_proves_no_key_gets_no_answer() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let mut config = sender.identity.to_peer(owner.identity.key()).expect("TLS");
    config.client_auth_cert_resolver = Arc::new(Nobody);
    let hello = request("POST /_wasmkeep/hello", "");
    over_tls(owner.port.address(), config, &hello).await.expect_err("no connection");
    eventually("it is counted", || owner.refused("no-certificate") == 1).await;
    assert!(owner.node.hellos().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_key_than_its_lease_says_gets_nothing() {
    let (owner, other) = (Owner::start().await, Owner::start().await);
    let sender = Sender::known_to(&owner);
    other.node.knows(sender.identity.key(), node_id("sender"));
    let mut wrong = other.at();
    wrong.key = owner.identity.key();
    let error = sender.relay(wrong, event("a", "/x", Body::Empty)).await;
    let Err(RelayError::NotReached { returned, cause: NotReached::WrongKey }) = error else {
        panic!("{error:?}");
    };
    assert!(other.guest.started().is_empty());
    sender.relay(owner.at(), *returned).await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_told_so_and_nothing_of_its_event_runs() {
    let owner = Owner::start().await;
    let sender = Sender::unknown();
    let (upload, body) = upload();
    let error = sender.relay(owner.at(), event("a", "/x", body)).await;
    let Err(RelayError::NotReached { returned, cause: NotReached::Stranger }) = error else {
        panic!("{error:?}");
    };
    assert!(owner.guest.started().is_empty() && !upload.was_asked_for());
    assert_eq!(owner.refused("stranger"), 1);
    owner.node.knows(sender.identity.key(), node_id("sender"));
    drop(upload);
    sender.relay(owner.at(), *returned).await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_strangers_at_once_and_who_said_hello_is_none_of_them() {
    let owner = Owner::start().await;
    let mut greeted = Vec::new();
    for _ in 0..PEER_STRANGERS_MAX + 2 {
        let sender = Sender::unknown();
        owner.node.finds_at_hello(node_id("sender"));
        sender.links.hello(owner.at(), Bytes::new()).await.expect("it is known");
        greeted.push(sender);
    }
    let mut strangers = Vec::new();
    for _ in 0..PEER_STRANGERS_MAX {
        let config = Sender::unknown().identity.to_peer(owner.identity.key()).expect("TLS");
        let stream = TcpStream::connect(owner.port.address()).await.expect("it listens");
        let name = ServerName::try_from("any").expect("a name");
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        strangers.push(connected.expect("it may say hello"));
    }
    eventually("one more is too many", || {
        let one_more = Sender::unknown();
        let hello = one_more.links.hello(owner.at(), Bytes::new());
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(hello)).is_err()
            && owner.refused("too-many") > 0
    })
    .await;
    let known = &greeted[0];
    known.answer(owner.at(), "a", "/x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_connection_ends_with_the_lease_of_who_opened_it() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    sender.answer(owner.at(), "a", "/one").await;
    owner.node.forgets(&sender.identity.key());
    let error = sender.relay(owner.at(), event("a", "/two", Body::Empty)).await;
    let is_stranger =
        matches!(error, Err(RelayError::NotReached { cause: NotReached::Stranger, .. }));
    assert!(is_stranger, "{error:?}");
    assert_eq!(owner.guest.scripts(&address("a")), ["init", "/one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_over_too_many_hops_is_refused_unrun() {
    let owner = Owner::start().await;
    // An alarm of `default/cart/u` that says it is at its fourth hop.
    let hop = "x-wasmkeep-hop: 1.BAcAAABkZWZhdWx0BAAAAGNhcnQBAAAAdQAB\r\n";
    let answer = said(&owner, &request("POST /_wasmkeep/relay", hop)).await;
    assert_eq!(answer, Answer::Refused(Refusal::not_run(Reason::TooManyHops)));
    assert!(owner.node.hops().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_hop_is_not_taken() {
    let owner = Owner::start().await;
    let not_understood = Answer::NotTaken(HopRefused::NotUnderstood);
    let of_a_client = "x-wasmkeep-caller: default/room/b\r\n";
    for (line, headers) in [
        ("POST /_wasmkeep/relay", ""),
        ("POST /_wasmkeep/relay", of_a_client),
        ("POST /_wasmkeep/relay", "x-wasmkeep-hop: 2.AA\r\n"),
        ("POST /_wasmkeep/relay", "x-wasmkeep-hop: 1.AA\r\n"),
        ("GET /_wasmkeep/socket", "x-wasmkeep-hop: 1.AgcAAABkZWZhdWx0BAAAAGNhcnQBAAAAdQAB\r\n"),
        ("GET /_wasmkeep/metrics", ""),
        ("GET /_wasmkeep/health", ""),
        ("GET /actor/room/a", of_a_client),
        ("GET /", ""),
    ] {
        assert_eq!(said(&owner, &request(line, headers)).await, not_understood, "{line} {headers}");
    }
    let no_actors = request("POST /_wasmkeep/take", "content-length: 1\r\n") + "x";
    assert_eq!(said(&owner, &no_actors).await, not_understood);
    assert!(owner.guest.started().is_empty() && owner.node.taken().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_is_too_long_is_refused_before_it_is_sent() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let wire = Wire::to(owner.port.address()).await;
    let actors = vec![address(&"x".repeat(250)); 500];
    let chain = CallChain::of(actors).expect("it has actors");
    let caller = Caller::Actor(chain);
    let called = called_by(event("a", "/x", Body::Empty), caller);
    let error = sender.relay(owner.behind(wire.address), called).await;
    let Err(RelayError::Refused(refusal)) = error else { panic!("{error:?}") };
    assert_eq!(refusal.reason, Reason::BadRequest);
    assert_eq!(wire.made(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_head_a_client_may_send_is_passed_on() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let mut large = event("a", "/env+CLASS", Body::Empty);
    let Task::Request(request) = &mut large.task else {
        panic!("a request");
    };
    for at in 0..1000 {
        request.head.headers.push((format!("x-{at}").into(), vec![b'v'; 55].into()));
    }
    let reply = sender.relay(owner.at(), large).await.expect("an answer");
    assert_eq!(text_of(reply.body).await, "room");
}
