//! WebSockets of an actor on another node, as the bytes of a client.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wasmkeep_supervisors::event::{Caller, OpenRequest, Ran, Reason};
use wasmkeep_supervisors::ports::{PeerLink, PeerSocket, RelayError, SocketAsked};

use super::node::*;

fn asked(actor: &str, script: &str) -> SocketAsked {
    let header = |name: &'static str, value: &'static str| {
        (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes()))
    };
    // What a client sent: none of it steers the connection between the nodes.
    let headers = vec![header("sec-websocket-key", "no key"), header("connection", "close")];
    let request = OpenRequest { path: script.into(), headers };
    SocketAsked { address: address(actor), request, caller: Caller::Outside }
}

async fn open(sender: &Sender, owner: &Owner, script: &str) -> PeerSocket {
    let opened = sender.links.open_socket(owner.at(), one_hop(), asked("a", script)).await;
    opened.expect("it is accepted")
}

/// A short message of a client.
fn masked(opcode: u8, text: &str) -> Vec<u8> {
    let mut frame =
        vec![0x80 | opcode, 0x80 | u8::try_from(text.len()).expect("short"), 0, 0, 0, 0];
    frame.extend_from_slice(text.as_bytes());
    frame
}

/// A short message of a server.
async fn frame(socket: &mut PeerSocket) -> (u8, String) {
    let mut head = [0; 2];
    socket.read_exact(&mut head).await.expect("a frame");
    let mut payload = vec![0; head[1].into()];
    socket.read_exact(&mut payload).await.expect("its payload");
    (head[0] & 0x0f, String::from_utf8_lossy(&payload).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_both_ways() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let mut socket = open(&sender, &owner, "/open").await;
    for text in ["one", "two"] {
        socket.write_all(&masked(1, &format!("send {text}"))).await.expect("sent");
        socket.flush().await.expect("sent");
        assert_eq!(frame(&mut socket).await, (1, text.to_owned()));
    }
    let long = "x".repeat(100);
    socket.write_all(&masked(1, &format!("send {long};close done"))).await.expect("sent");
    socket.flush().await.expect("sent");
    assert_eq!(frame(&mut socket).await, (1, long));
    assert_eq!(frame(&mut socket).await, (8, "\u{f}\u{fffd}done".to_owned()));
    assert_eq!(owner.guest.scripts(&address("a"))[1], "open /open");
    assert_eq!(sender.relayed("answered"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_actor_learns_that_a_client_of_another_node_has_left() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let mut socket = open(&sender, &owner, "/open").await;
    socket.write_all(&masked(1, "keep me")).await.expect("sent");
    socket.flush().await.expect("sent");
    eventually("it is kept", || owner.guest.scripts(&address("a")).len() == 3).await;
    drop(socket);
    let told = || owner.guest.scripts(&address("a")).last().cloned();
    eventually("it is told", || told().is_some_and(|last| last.starts_with("close 1006"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_the_actor_does_not_take_is_refused_in_its_words() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let refused = sender.links.open_socket(owner.at(), one_hop(), asked("a", "/refuse")).await;
    let Err(RelayError::Refused(refusal)) = refused else { panic!("it is refused") };
    assert_eq!((refusal.reason, refusal.ran), (Reason::SocketRefused, Ran::Ran));
    assert_eq!(refusal.sentence(), "as asked");
    assert_eq!(sender.relayed("refused"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_an_actor_that_is_elsewhere_is_given_back() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    owner.node.moves(address("a"), node_id("third"));
    let opened = sender.links.open_socket(owner.at(), one_hop(), asked("a", "/open")).await;
    let Err(RelayError::Elsewhere { returned, holder }) = opened else { panic!("elsewhere") };
    assert_eq!((returned.request.path.as_str(), holder), ("/open", node_id("third")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_ends_with_the_connection_between_the_nodes() {
    let owner = Owner::start().await;
    let sender = Sender::known_to(&owner);
    let wire = Wire::to(owner.port.address()).await;
    let at = owner.behind(wire.address);
    let opened = sender.links.open_socket(at, one_hop(), asked("a", "/open")).await;
    let mut socket = opened.expect("it is accepted");
    wire.cut();
    let mut end = Vec::new();
    // A close without a close frame: whoever passes it on knows what to say.
    let _ = socket.read_to_end(&mut end).await;
    assert_eq!(end, b"");
}
