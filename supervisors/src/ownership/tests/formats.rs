use std::path::Path;

use proptest::prelude::*;

use super::super::rules::{Next, generation_above, next};
use super::*;

fn record(holder: Holder) -> OwnerRecord {
    OwnerRecord {
        generation: generation(12),
        holder,
        nonce: "00112233445566aa".parse().expect("a nonce"),
        deploy_seq: 345,
        name: ActorName::parse("Zoë 1").expect("a legal name"),
    }
}

fn held(node: &str) -> OwnerRecord {
    record(Holder::Held { node: id(node), session: Session::from_bytes(*b"a session's id..") })
}

fn free(next: Option<&str>) -> OwnerRecord {
    record(Holder::Free { next: next.map(id) })
}

/// Set, the test writes files that are not there yet.
const WRITE: &str = "WASMKEEP_WRITE_GOLDEN";

#[test]
fn every_record_ever_written_is_read() {
    for (name, record) in [
        ("owner-held-1.txt", held("n1")),
        ("owner-free-1.txt", free(None)),
        ("owner-next-1.txt", free(Some("n2"))),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
        if std::env::var_os(WRITE).is_some() && !path.exists() {
            std::fs::write(&path, record.encode()).expect("it writes");
        }
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(OwnerRecord::decode(&bytes), Ok(record.clone()), "{name}");
        assert_eq!(bytes, record.encode(), "{name}: this build writes another");
    }
}

#[test]
fn a_record_that_is_none_is_refused() {
    let text = String::from_utf8(held("n1").encode().to_vec()).expect("text");
    assert!(OwnerRecord::decode(format!("{text}and more\n").as_bytes()).is_ok());
    let newer = text.replace("owner 1", "owner 2");
    assert_eq!(OwnerRecord::decode(newer.as_bytes()), Err(OwnerRecordError::Newer(2)));
    for (wrong, line) in [
        (text.replace("wasmkeep owner", "wasmkeep node"), 1),
        (text.replace("owner 1", "owner 0"), 1),
        (text.replace("owner 1", "owner 01"), 1),
        (text.replace("\n12\n", "\n0\n"), 2),
        (text.replace("\n12\n", "\n+12\n"), 2),
        (text.replace("n1 6120", "n1 612"), 3),
        (text.replace("n1 6120", "N1 6120"), 3),
        (text.replace("held", "free"), 4),
        (text.replace("held", "kept"), 4),
        (text.replace("next -", "next n2"), 4),
        (text.replace("next -", "next"), 5),
        (text.replace("next -", "next N2"), 5),
        (text.replace("00112233445566aa", "00112233445566AA"), 6),
        (text.replace("\n345\n", "\n0345\n"), 7),
        (text.replace("Zo%C3%AB%201", "Zo%c3%ab%201"), 8),
        (text.replace("Zo%C3%AB%201\n", "Zo%C3%AB%201"), 8),
        (text.replace("Zo%C3%AB%201", ""), 8),
    ] {
        let decoded = OwnerRecord::decode(wrong.as_bytes());
        let is_there =
            matches!(decoded, Err(OwnerRecordError::Line { line: at, .. }) if at == line);
        assert!(is_there, "{wrong}: {decoded:?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        generation in 1..u64::MAX,
        session: [u8; 16],
        nonce: u64,
        deploy_seq: u64,
        name in "[^/\\x00-\\x1f\\x7f-\\x9f]{3,30}",
        form in 0..3,
    ) {
        let holder = match form {
            0 => Holder::Held { node: id("n1"), session: Session::from_bytes(session) },
            1 => Holder::Free { next: Some(id("n-2")) },
            _ => Holder::Free { next: None },
        };
        let record = OwnerRecord {
            generation: Generation::new(generation).expect("from 1"),
            holder,
            nonce: format!("{nonce:016x}").parse().expect("a nonce"),
            deploy_seq,
            name: ActorName::parse(&name).expect("a legal name"),
        };
        prop_assert_eq!(OwnerRecord::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn no_bytes_make_the_reader_fall(bytes: Vec<u8>, cut in 0_usize..200, at in 0_usize..200, byte: u8) {
        let _ = OwnerRecord::decode(&bytes);
        let mut ours = held("n1").encode().to_vec();
        ours.truncate(cut);
        let _ = OwnerRecord::decode(&ours);
        let mut ours = held("n1").encode().to_vec();
        if let Some(place) = ours.get_mut(at) {
            *place = byte;
        }
        if let Ok(read) = OwnerRecord::decode(&ours) {
            // A line cut in two makes one that is ignored.
            prop_assert!(ours.starts_with(&read.encode()));
        }
    }
}

#[test]
fn what_a_node_may_do_with_a_record() {
    let session = Session::from_bytes(*b"a session's id..");
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let take = Next::TakeIfVoid { node: id("n2"), session };
    for (seen, age, may) in [
        (None, None, Next::Create),
        (Some(free(None)), seconds(0), Next::Acquire),
        (Some(free(Some("n1"))), seconds(0), Next::Acquire),
        (Some(free(Some("n2"))), seconds(9), Next::HandedTo(id("n2"))),
        (Some(free(Some("n2"))), seconds(10), Next::Acquire),
        (Some(free(Some("n2"))), None, Next::Acquire),
        (Some(held("n1")), seconds(0), Next::Acquire),
        (Some(held("n2")), seconds(0), take.clone()),
        (Some(held("n2")), seconds(100_000), take),
    ] {
        let me = (&id("n1"), session);
        assert_eq!(next(seen.as_ref(), me, age), may, "{seen:?} {age:?}");
    }
    let of_another = (&id("n1"), Session::from_bytes(*b"another session."));
    let asks = Next::TakeIfVoid { node: id("n1"), session };
    assert_eq!(next(Some(&held("n1")), of_another, None), asks);
}

#[test]
fn a_generation_is_above_the_record_and_the_history() {
    let some = |number| Generation::new(number);
    for (record, history, next) in [
        (None, None, some(1)),
        (None, some(4), some(5)),
        (some(3), None, some(4)),
        (some(3), some(4), some(5)),
        (some(7), some(4), some(8)),
        (some(u64::MAX), None, None),
    ] {
        assert_eq!(generation_above(record, history), next);
    }
}

#[test]
fn a_key_is_the_actors_own() {
    let long = ActorName::parse(&"é".repeat(100)).expect("a legal name");
    let long = owner_key(&Address { name: long, ..address() }, &App::default_app());
    assert!(long.len() < 400 && crate::bucket::check_key(&long).is_ok());
    assert_eq!(key(), "state/default/default/owners/cart/752031");
}
