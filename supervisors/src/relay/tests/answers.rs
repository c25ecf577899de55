use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::address::NodeId;
use crate::event::{REASONS, Ran, Reason, Refusal};
use crate::limits::RELAY_ANSWER_BYTES_MAX;
use crate::relay::base64;
use crate::relay::{Answer, HopError, HopRefused};

fn and_back(answer: &Answer) -> Answer {
    Answer::decode(answer.encode().expect("it fits").as_bytes()).expect("it was written here")
}

#[test]
fn a_refusal_is_the_same_on_the_node_that_passes_it_on() {
    for row in &REASONS {
        for ran in [Ran::NotRun, Ran::Ran, Ran::Unknown] {
            let plain = Refusal { reason: row.reason, ran, detail: None };
            let more = plain.clone().with_detail("\"as\r\nthe actor\" said \u{1f600}");
            let empty = plain.clone().with_detail("");
            for refusal in [plain, more, empty] {
                let answer = Answer::Refused(refusal);
                assert_eq!(and_back(&answer), answer);
            }
        }
    }
}

#[test]
fn an_actors_answer_keeps_every_header_as_it_was_written() {
    let header = |name: &'static str, value: &'static [u8]| {
        (Bytes::from_static(name.as_bytes()), Bytes::from_static(value))
    };
    let headers = vec![
        header("set-cookie", b"a=1"),
        header("set-cookie", b"b=2"),
        header("X-Case", b" \xff "),
        header("connection", b"close"),
        header("x-split", b"a\r\nb: c"),
    ];
    for answer in [
        Answer::Reply { status: 200, headers },
        Answer::Reply { status: 999, headers: Vec::new() },
        Answer::Elsewhere(NodeId::parse("n-2").expect("a node")),
        Answer::NotTaken(HopRefused::Stranger),
        Answer::NotTaken(HopRefused::NotUnderstood),
    ] {
        assert_eq!(and_back(&answer), answer);
        let text = answer.encode().expect("it fits");
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text} is one header");
    }
}

#[test]
fn a_reason_that_only_a_newer_node_knows_keeps_what_matters() {
    for (ran, expected, reason) in [
        ("not-run", Ran::NotRun, Reason::Unavailable),
        ("ran", Ran::Ran, Reason::HostFault),
        ("of-tomorrow", Ran::Unknown, Reason::OwnerLost),
    ] {
        assert_eq!(Ran::of_word(ran), expected);
        assert_eq!(Reason::of_word("of-tomorrow", expected), reason);
    }
}

#[test]
fn an_answer_too_large_for_a_head_is_not_written() {
    let value = Bytes::from(vec![b'x'; RELAY_ANSWER_BYTES_MAX]);
    let answer = Answer::Reply { status: 200, headers: vec![(Bytes::from_static(b"x"), value)] };
    assert_eq!(answer.encode(), Err(HopError::TooLarge));
}

#[test]
fn what_is_no_answer_is_not_taken_for_one() {
    for (wrong, error) in [
        ("", HopError::OtherVersion),
        ("2.AA", HopError::OtherVersion),
        ("1.", HopError::Malformed),
        ("1.AMgA", HopError::Malformed),
        ("1.CQ", HopError::Malformed),
    ] {
        assert_eq!(Answer::decode(wrong.as_bytes()), Err(error), "{wrong}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let mut text = String::from("1.");
        base64::encode(&bytes, &mut text);
        if let Ok(answer) = Answer::decode(text.as_bytes()) {
            prop_assert_eq!(and_back(&answer), answer);
        }
    }
}
