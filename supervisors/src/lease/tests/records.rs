//! The lines of a lease, those that nobody wrote too.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

fn decode(text: &str) -> Result<LeaseRecord, LeaseRecordError> {
    LeaseRecord::decode(text.as_bytes())
}

fn a_text() -> String {
    String::from_utf8(a_lease(1, LeaseState::Live).encode().to_vec()).expect("text")
}

#[test]
fn a_lease_is_thirteen_lines_and_further_ones_are_ignored() {
    let text = a_text();
    assert_eq!(text.lines().count(), 13);
    let lease = decode(&text).expect("a lease");
    assert_eq!(lease, a_lease(1, LeaseState::Live));
    assert_eq!(decode(&format!("{text}something new\nand more")), Ok(lease));
}

#[test]
fn a_newer_lease_is_told_from_what_is_none() {
    let newer = a_text().replace("node 1\n", "node 2\n");
    assert_eq!(decode(&newer), Err(LeaseRecordError::Newer(2)));
    for foreign in ["", "x", "wasmkeep owner 1\n", "wasmkeep node 0\n", "wasmkeep node 01\n"] {
        assert!(
            matches!(
                decode(foreign),
                Err(LeaseRecordError::Foreign | LeaseRecordError::Line { line: 1, .. })
            ),
            "{foreign:?}"
        );
    }
    assert_eq!(LeaseRecord::decode(&[b'x'; 70_000]), Err(LeaseRecordError::TooLong));
    assert_eq!(LeaseRecord::decode(b"wasmkeep node 1\n\xff\n"), Err(LeaseRecordError::Foreign));
}

#[test]
fn a_wrong_line_is_named() {
    let text = a_text();
    let wrong: [(usize, &[&str]); 12] = [
        (2, &["N1", "", "n1 "]),
        (3, &["0", "0123456789ABCDEF0123456789abcdef"]),
        (4, &["", "dead", "fenced", "fenced n2", "fenced N expired", "live "]),
        (5, &["-1", "03", "+3", "99999999999999999999"]),
        (6, &["", "0123"]),
        (7, &["", " a", "a\u{7}", "a\tb"]),
        (8, &["", "zz", "é"]),
        (9, &["", "a", "a/b", "a/b ", "a/b C", "a/b c,", "a/b c d/e", "/ c"]),
        (10, &["", "\u{202e}"]),
        (11, &["", "a  b", "é", "a -"]),
        (12, &["", "1", "1 2 3", "1  2", "a b"]),
        (13, &["1 2", "1 2 3 4"]),
    ];
    for (line, texts) in wrong {
        for wrong in texts {
            let mut lines: Vec<&str> = text.lines().collect();
            lines[line - 1] = wrong;
            let bent = lines.join("\n") + "\n";
            let error = decode(&bent).expect_err(wrong);
            assert!(
                matches!(error, LeaseRecordError::Line { line: named, .. } if named == line),
                "{wrong:?}: {error}"
            );
        }
    }
    assert!(decode(text.trim_end()).is_err(), "the last line is cut");
}

#[test]
fn whatever_a_node_tells_of_itself_is_one_line() {
    let lease = LeaseRecord {
        address: "a\nreleased\n\u{202e}".into(),
        version: "  v\t1 ".into(),
        features: vec!["a b".into(), String::new(), "-".into(), "front".into()],
        state: LeaseState::Fenced { by: node("n2"), reason: "é".repeat(1000) },
        ..a_lease(1, LeaseState::Live)
    };
    let read = LeaseRecord::decode(&lease.encode()).expect("a lease");
    assert_eq!(read.address, "a\\u{a}released\\u{a}\\u{202e}");
    assert_eq!((read.version.as_str(), read.features), ("v 1", vec!["front".to_owned()]));
    let LeaseState::Fenced { reason, .. } = read.state else { panic!("it is fenced") };
    assert_eq!(reason, "é".repeat(128));
}

#[test]
fn who_watches_goes_by_the_larger_numbers() {
    let lease = |ttl, grace| LeaseRecord {
        ttl: Duration::from_secs(ttl),
        grace: Duration::from_secs(grace),
        ..a_lease(1, LeaseState::Live)
    };
    assert_eq!(lease(1, 1).suspect_after(), LEASE_TTL);
    assert_eq!(lease(1, 1).expired_after(), LEASE_TTL + LEASE_GRACE);
    assert_eq!(lease(60, 30).suspect_after(), Duration::from_secs(60));
    assert_eq!(lease(60, 1).expired_after(), Duration::from_secs(65));
    let forever = LeaseRecord { ttl: Duration::MAX, ..lease(1, 1) };
    assert_eq!(forever.expired_after(), Duration::MAX);
}

#[test]
fn keys_are_of_nodes_and_back() {
    assert_eq!(lease_key(&node("n1")), KEY);
    assert_eq!(node_of_key(KEY), Some(node("n1")));
    for key in ["nodes/", "nodes/N", "nodes/a/b", "state/n1", "n1"] {
        assert_eq!(node_of_key(key), None, "{key}");
    }
}

fn cases(cases: u32) -> ProptestConfig {
    let defaults = ProptestConfig::default();
    ProptestConfig { cases: defaults.cases * cases, source_file: Some(file!()), ..defaults }
}

proptest! {
    #![proptest_config(cases(4))]

    #[test]
    fn any_bytes_are_a_lease_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = LeaseRecord::decode(&bytes);
        let _ = LeaseRecord::decode(&[b"wasmkeep node 1\n", bytes.as_slice()].concat());
    }

    #[test]
    fn what_is_read_is_what_would_be_written(
        bends in prop::collection::vec((any::<Index>(), "[ -~\n\u{e9}]"), 1..4),
    ) {
        let mut text: Vec<char> = a_text().chars().collect();
        for (at, with) in bends {
            let at = at.index(text.len());
            text.splice(at..=at, with.chars());
        }
        let text: String = text.into_iter().collect();
        if let Ok(lease) = decode(&text) {
            let again = lease.encode();
            prop_assert_eq!(&text.as_bytes()[..again.len()], &again[..]);
        }
    }

    #[test]
    fn any_texts_are_read_back(address in any::<String>(), reason in any::<String>(), feature in any::<String>()) {
        let lease = LeaseRecord {
            address,
            state: LeaseState::Fenced { by: node("n2"), reason },
            features: vec![feature],
            ..a_lease(1, LeaseState::Live)
        };
        let bytes = lease.encode();
        let read = LeaseRecord::decode(&bytes).expect("a lease");
        prop_assert_eq!(read.encode(), bytes);
    }
}
