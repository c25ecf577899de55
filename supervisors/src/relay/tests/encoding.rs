use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::address::{ActorName, Address, Class, Tenant};
use crate::event::{CallChain, Caller, Header, OpenRequest, RequestHead};
use crate::limits::{CALL_HEAD_BYTES_MAX, HEAD_BYTES_MAX, RELAY_HEAD_BYTES_MAX, RELAY_HOPS_MAX};
use crate::ports::Hops;
use crate::relay::{Carried, Hop, HopError, decode_actors, encode_actors};

fn actor(class: &str, name: &str) -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse(class).expect("a class"),
        name: ActorName::parse(name).expect("a name"),
    }
}

fn header(name: &'static str, value: &'static [u8]) -> Header {
    (Bytes::from_static(name.as_bytes()), Bytes::from_static(value))
}

fn request() -> Hop {
    let chain = CallChain::of(vec![actor("cart", "u-1"), actor("room", "a b")]);
    Hop {
        hops: Hops::NONE.one_more().expect("the first"),
        address: actor("room", "café x"),
        caller: Caller::Actor(chain.expect("it has actors")),
        carried: Carried::Request(RequestHead {
            method: "PATCH".into(),
            path: "/a%2Fb?c=d e\u{e9}".into(),
            authority: "example.org:8080".into(),
            headers: vec![
                header("host", b"example.org:8080"),
                header("x-wasmkeep-kv-durable", b"1"),
                header("x-twice", b"1"),
                header("x-twice", b" \xff, 2"),
                header("connection", b"close"),
                header("x-empty", b""),
            ],
        }),
    }
}

fn shown(hop: &Hop) -> String {
    format!("{hop:?}")
}

fn and_back(hop: &Hop) -> Hop {
    Hop::decode(hop.encode().expect("it fits").as_bytes()).expect("it was written here")
}

#[test]
fn an_event_is_the_same_on_the_other_node() {
    let request = request();
    let front = Address::of_the_front(Tenant::default_tenant());
    let socket = Hop {
        caller: Caller::Front(front),
        carried: Carried::Socket(OpenRequest {
            path: "/ws".into(),
            headers: vec![header("upgrade", b"websocket")],
        }),
        ..request.clone()
    };
    let alarm = Hop { caller: Caller::Outside, carried: Carried::Alarm, ..request.clone() };
    for hop in [request, socket, alarm] {
        assert_eq!(shown(&and_back(&hop)), shown(&hop));
        let text = hop.encode().expect("it fits");
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text} is one header");
    }
}

#[test]
fn the_bytes_of_an_alarm_are_those_of_the_first_release() {
    let hop = Hop {
        hops: Hops::counted(2).expect("few"),
        address: actor("cart", "u"),
        caller: Caller::Outside,
        carried: Carried::Alarm,
    };
    let written = "1.AgcAAABkZWZhdWx0BAAAAGNhcnQBAAAAdQAB";
    assert_eq!(hop.encode().as_deref(), Ok(written));
    let later = "1.AgcAAABkZWZhdWx0BAAAAGNhcnQBAAAAdQABbW9yZQ";
    assert_eq!(Hop::decode(later.as_bytes()).map(|hop| shown(&hop)), Ok(shown(&hop)));
}

#[test]
fn what_is_no_hop_is_told_apart_and_never_taken() {
    let refused = |text: &[u8]| Hop::decode(text).expect_err("it is no hop");
    assert_eq!(refused(b""), HopError::OtherVersion);
    assert_eq!(refused(b"2.AgcA"), HopError::OtherVersion);
    assert_eq!(refused(b"1."), HopError::Malformed);
    assert_eq!(refused(b"1.%%%%"), HopError::Malformed);
    assert_eq!(refused(&vec![b'1'; RELAY_HEAD_BYTES_MAX + 1]), HopError::TooLarge);
    // The hops of the alarm above, and its kind of caller.
    assert_eq!(refused(b"1.BAcAAABkZWZhdWx0BAAAAGNhcnQBAAAAdQAB"), HopError::TooManyHops);
    assert_eq!(refused(b"1.AgcAAABkZWZhdWx0BAAAAGNhcnQBAAAAdQkB"), HopError::Malformed);
    let whole = request().encode().expect("it fits");
    for end in 0..whole.len() {
        Hop::decode(&whole.as_bytes()[..end]).expect_err("it breaks off");
    }
}

#[test]
fn a_count_of_things_that_are_not_there_takes_no_memory() {
    let hop = Hop { caller: Caller::Outside, ..request() };
    let mut bytes = hop.encode().expect("it fits").into_bytes();
    bytes.truncate(60);
    for byte in 40..60 {
        let mut wrong = bytes.clone();
        wrong[byte..].fill(b'_');
        Hop::decode(&wrong).expect_err("it promises what does not follow");
    }
}

#[test]
fn the_largest_head_of_a_client_fits_and_an_endless_chain_does_not() {
    let mut hop = request();
    let Carried::Request(head) = &mut hop.carried else { panic!("a request") };
    head.headers = vec![(Bytes::from_static(b"x"), vec![0xff; HEAD_BYTES_MAX].into())];
    assert_eq!(shown(&and_back(&hop)), shown(&hop));

    let link = actor("a", &"x".repeat(200));
    let mut deep = request();
    let count = RELAY_HEAD_BYTES_MAX / 200;
    deep.caller = Caller::Actor(CallChain::of(vec![link; count]).expect("a chain"));
    assert_eq!(deep.encode(), Err(HopError::TooLarge));
    const { assert!(CALL_HEAD_BYTES_MAX < HEAD_BYTES_MAX) };
}

#[test]
fn an_event_goes_over_so_many_hops_and_no_more() {
    let mut hops = Hops::NONE;
    for count in 1..=RELAY_HOPS_MAX {
        hops = hops.one_more().expect("within the limit");
        assert_eq!(hops.count(), count);
    }
    assert_eq!(hops.one_more(), None);
    assert_eq!(Hops::counted(u8::MAX), None);
}

#[test]
fn actors_are_listed_one_a_line() {
    let actors = vec![actor("room", "a b\u{e9}%"), actor("cart", "u-1")];
    let text = encode_actors(&actors);
    assert_eq!(text, "default/room/a%20b%C3%A9%25\ndefault/cart/u-1\n");
    assert_eq!(decode_actors(&text), Ok(actors));
    assert_eq!(decode_actors(b""), Ok(Vec::new()));
    for wrong in
        ["x", "default/room", "default/room/a/b", "default/Room/a", "\n", "default/_front/main"]
    {
        assert_eq!(decode_actors(wrong.as_bytes()), Err(HopError::Malformed), "{wrong}");
    }
    assert_eq!(decode_actors(b"\xff"), Err(HopError::Malformed));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..300)) {
        let mut text = String::from("1.");
        crate::relay::base64::encode(&bytes, &mut text);
        if let Ok(hop) = Hop::decode(text.as_bytes()) {
            prop_assert_eq!(shown(&and_back(&hop)), shown(&hop));
        }
        let _ = Hop::decode(&bytes);
        let _ = decode_actors(&bytes);
    }

    #[test]
    fn one_wrong_byte_never_panics(at in 0usize..400, byte in any::<u8>()) {
        let mut text = request().encode().expect("it fits").into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let _ = Hop::decode(&text);
    }
}
