use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{
    BINARY, CLOSE, CONTINUATION, FIN, Frame, Node, PING, PONG, TEXT, WebSocket, masked,
};

const MIB: usize = 1024 * 1024;

fn frame(opcode: u8, payload: impl Into<Vec<u8>>) -> Frame {
    Frame { opcode, payload: payload.into() }
}

#[test]
fn a_message_in_pieces_is_one_message_and_pings_between_are_answered() {
    let node = Node::probe().start();
    let mut socket = WebSocket::open(&node, "probe/a");
    socket.send(TEXT, b"h\xc3").send(FIN | PING, b"now").send(CONTINUATION, b"\xa9l");
    socket.send(FIN | CONTINUATION, b"lo");
    assert_eq!(socket.frame().expect("a frame"), frame(PONG, "now"));
    assert_eq!(socket.next_text(), "héllo");
    socket.send(BINARY, b"\0").send(CONTINUATION, b"").send(FIN | CONTINUATION, b"\xff");
    assert_eq!(socket.frame().expect("a frame"), frame(BINARY, *b"\0\xff"));
    // Nobody asked for it: it says that the client is there.
    socket.send(FIN | PONG, b"unasked");
    socket.echoes("on it goes");
}

#[test]
fn frames_in_any_cut_arrive_the_same() {
    let node = Node::probe().start();
    let mut socket = WebSocket::open(&node, "probe/a");
    for byte in masked(FIN | TEXT, "ä slow client".as_bytes()) {
        socket.0.send([byte]);
    }
    assert_eq!(socket.next_text(), "ä slow client");
    let burst: Vec<u8> = (0..50_u8).flat_map(|n| masked(FIN | BINARY, &[n])).collect();
    socket.0.send(burst);
    for n in 0..50_u8 {
        assert_eq!(socket.frame().expect("a frame"), frame(BINARY, [n]));
    }
}

#[test]
fn messages_sent_at_once_come_back_in_order_whatever_their_sizes() {
    let node = Node::probe().start();
    let mut socket = WebSocket::open(&node, "probe/a");
    let sizes = [0, 1, 125, 126, 1024, 1025, 3, 70_000, 1000, 1000, 1000, 1000, 1000, 9];
    let all = sizes.iter().zip(0..).cycle().take(5 * sizes.len());
    let all: Vec<_> = all.map(|(size, n)| frame(BINARY, vec![n; *size])).collect();
    socket
        .0
        .send(all.iter().flat_map(|one| masked(FIN | BINARY, &one.payload)).collect::<Vec<_>>());
    for sent in &all {
        assert_eq!(socket.frame().expect("a frame").payload.len(), sent.payload.len());
    }
    // A close behind several of them is heard behind them.
    let mut last: Vec<u8> = (0..5_u8).flat_map(|n| masked(FIN | BINARY, &[n])).collect();
    last.extend(masked(FIN | CLOSE, &1000_u16.to_be_bytes()));
    socket.0.send(last);
    for n in 0..5_u8 {
        assert_eq!(socket.frame().expect("a frame"), frame(BINARY, [n]));
    }
    assert_eq!(socket.closed().0, 1000);
    socket.ends();
}

#[test]
fn a_message_has_at_most_1_mib_in_one_frame_or_in_many() {
    let node = Node::probe().start();
    let whole = vec![b'x'; MIB];
    let mut socket = WebSocket::open(&node, "probe/a");
    socket.send(FIN | BINARY, &whole);
    assert_eq!(socket.frame().expect("a frame"), frame(BINARY, whole.clone()));
    socket.send(BINARY, &whole[1..]).send(FIN | CONTINUATION, b"x");
    assert_eq!(socket.frame().expect("a frame"), frame(BINARY, whole.clone()));

    // Refused by its head: the rest never has to come.
    socket.0.send([FIN | BINARY, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 1]);
    assert_eq!(socket.closed().0, 1009);
    socket.ends();

    let mut socket = WebSocket::open(&node, "probe/b");
    socket.send(BINARY, &whole).send(FIN | CONTINUATION, b"x");
    assert_eq!(socket.closed().0, 1009);
    socket.ends();
}

#[test]
fn what_breaks_the_protocol_closes_with_its_code() {
    let node = Node::probe().start();
    let mut unmasked = masked(FIN | TEXT, b"");
    unmasked[1] &= 0x7f;
    unmasked.truncate(2);
    for (what, bytes, code) in [
        ("no mask", unmasked, 1002),
        ("reserved bit 1", masked(FIN | 0x40 | TEXT, b"x"), 1002),
        ("reserved bit 2", masked(FIN | 0x20 | TEXT, b"x"), 1002),
        ("reserved bit 3", masked(FIN | 0x10 | PING, b"x"), 1002),
        ("reserved opcode", masked(FIN | 0x3, b"x"), 1002),
        ("reserved control opcode", masked(FIN | 0xf, b"x"), 1002),
        ("a ping in pieces", masked(PING, b"x"), 1002),
        ("a ping of 126 bytes", masked(FIN | PING, &[b'x'; 126]), 1002),
        ("a close of 126 bytes", masked(FIN | CLOSE, &[3; 126]), 1002),
        ("a continuation of nothing", masked(FIN | CONTINUATION, b"x"), 1002),
        (
            "a message within a message",
            [masked(TEXT, b"x"), masked(FIN | TEXT, b"y")].concat(),
            1002,
        ),
        ("half a close code", masked(FIN | CLOSE, b"\x03"), 1002),
        ("a text that is no UTF-8", masked(FIN | TEXT, b"\xff"), 1007),
        ("a text that ends within a character", masked(FIN | TEXT, b"\xe2\x82"), 1007),
        ("an overlong character", masked(FIN | TEXT, b"\xc0\x80"), 1007),
        ("a surrogate", masked(FIN | TEXT, b"\xed\xa0\x80"), 1007),
        ("a piece that is no UTF-8, before the last", masked(TEXT, b"a\xff"), 1007),
    ] {
        // Each at an actor of its own: others hear of the end of a socket.
        let mut socket = WebSocket::open(&node, &format!("probe/{}", what.replace(' ', "-")));
        socket.0.send(bytes);
        assert_eq!(socket.closed().0, code, "{what}");
        socket.ends();
    }
    WebSocket::open(&node, "probe/a").echoes("others go on");
}

#[test]
fn close_codes_that_no_peer_may_send_are_a_broken_protocol() {
    let node = Node::probe().start();
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, u16::MAX] {
        let mut socket = WebSocket::open(&node, &format!("probe/{code}"));
        socket.close(code, "");
        assert_eq!(socket.closed().0, 1002, "{code}");
        socket.ends();
    }
    for code in [1000, 1001, 1003, 1007, 1008, 1011, 1012, 1013, 3000, 4999] {
        let mut socket = WebSocket::open(&node, &format!("probe/{code}"));
        socket.close(code, "so");
        assert_eq!(socket.closed(), (code, "so".to_owned()));
        socket.ends();
    }
}

/// Whatever bytes come, the node stands, and a connection that breaks the protocol is told so.
#[test]
fn random_frames_never_hurt_the_node() {
    let node = Node::probe().start();
    let one = (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..200), any::<bool>());
    let frames = proptest::collection::vec(one, 1..12);
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    let ran = runner.run(&frames, |frames| {
        let mut socket = WebSocket::open(&node, "probe/fuzzed");
        for (first, payload, raw) in frames {
            let bytes = if raw { payload } else { masked(first, &payload) };
            if socket.0.try_send(bytes).is_err() {
                break;
            }
        }
        socket.0.finish_sending();
        let _ = socket.0.rest();
        Ok(())
    });
    ran.expect("no case fails");
    WebSocket::open(&node, "probe/a").echoes("still there");
}
