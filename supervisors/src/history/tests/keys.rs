use proptest::prelude::*;

use super::*;

#[test]
fn a_key_is_written_as_the_page_on_the_bucket_says() {
    let prefix = prefix();
    assert_eq!(prefix.as_str(), "state/default/default/history/cart/752d31/");
    assert_eq!(
        prefix.key(ObjectKey::Segment(at(1, 2))),
        "state/default/default/history/cart/752d31/fffffffffffffffe-fffffffffffffffd.seg"
    );
    let merged = ObjectKey::Merged { at: at(3, 70), from: 7 };
    assert_eq!(merged.to_string(), "fffffffffffffffc-ffffffffffffffb9.mrg-fffffffffffffff8");
    assert_eq!(ObjectKey::Snapshot(at(3, 70)).to_string(), "fffffffffffffffc-ffffffffffffffb9.snp");
}

#[test]
fn what_is_no_key_of_the_history_is_none() {
    let prefix = prefix();
    let good = prefix.key(ObjectKey::Segment(at(1, 2)));
    assert_eq!(prefix.object(&good), Some(ObjectKey::Segment(at(1, 2))));
    for wrong in [
        "",
        "fffffffffffffffe-fffffffffffffffd.seg",
        "state/default/default/history/cart/752d32/fffffffffffffffe-fffffffffffffffd.seg",
        "state/default/default/history/cart/752d31/fffffffffffffffe-fffffffffffffffd.SEG",
        "state/default/default/history/cart/752d31/FFFFFFFFFFFFFFFE-fffffffffffffffd.seg",
        "state/default/default/history/cart/752d31/+ffffffffffffffe-fffffffffffffffd.seg",
        "state/default/default/history/cart/752d31/fffffffffffffffe-fffffffffffffffd.seg2",
        "state/default/default/history/cart/752d31/ffffffffffffffff-fffffffffffffffd.seg",
        "state/default/default/history/cart/752d31/fffffffffffffffe-ffffffffffffffff.snp",
        "state/default/default/history/cart/752d31/fffffffffffffffe-ffffffffffffffb9.mrg-",
        "state/default/default/history/cart/752d31/fffffffffffffffe-ffffffffffffffb9.mrg-ffffffffffffffb9",
        "state/default/default/history/cart/752d31/fffffffffffffffe-ffffffffffffffb9.mrg-ffffffffffffffff",
        "state/default/default/history/cart/752d31/fffffffffffffffé-fffffffffffffffd.seg",
    ] {
        assert_eq!(prefix.object(wrong), None, "{wrong}");
    }
}

fn a_key() -> impl Strategy<Value = ObjectKey> {
    let number = || prop_oneof![1..300_u64, 1..=u64::MAX, (u64::MAX - 300)..=u64::MAX];
    (number(), number(), 0..3, any::<u64>()).prop_map(|(generation, seq, kind, from)| {
        let at = at(generation, seq);
        match kind {
            0 if seq > 1 => ObjectKey::Merged { at, from: 1 + from % (seq - 1) },
            1 => ObjectKey::Snapshot(at),
            _ => ObjectKey::Segment(at),
        }
    })
}

proptest! {
    #[test]
    fn a_key_is_read_back_and_no_longer_than_a_bucket_allows(key in a_key(), name in "\\PC{1,60}") {
        prop_assert_eq!(ObjectKey::parse(&key.to_string()), Some(key));
        let name = name.replace('/', ":").repeat(2);
        let Ok(name) = ActorName::parse(&name) else { return Ok(()) };
        let long = |text: &str| text.repeat(64);
        let address = Address {
            tenant: Tenant::parse(&long("t")).expect("64 letters"),
            class: Class::parse(&long("c")).expect("64 letters"),
            name,
        };
        let prefix = HistoryPrefix::new(&address, &App::parse(&long("a")).expect("64 letters"));
        let whole = prefix.key(key);
        prop_assert!(whole.len() < 1000);
        prop_assert_eq!(prefix.object(&whole), Some(key));
    }

    #[test]
    fn a_bucket_lists_keys_in_our_order_which_is_newest_first(one in a_key(), other in a_key()) {
        prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
        if one.at() != other.at() {
            prop_assert_eq!(one < other, one.at() > other.at());
        }
    }

    #[test]
    fn any_text_is_a_key_or_none(text in "[0-9a-f]{15,17}-[0-9a-f]{15,17}(\\.(seg|snp|mrg-[0-9a-f]{15,17}))?|.{0,50}") {
        if let Some(key) = ObjectKey::parse(&text) {
            prop_assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn a_position_is_read_back_and_nothing_else_is_one(generation in 1..u64::MAX, seq in 1..u64::MAX, text in "[0-9.+]{0,8}") {
        let at = at(generation, seq);
        prop_assert_eq!(at.to_string().parse(), Ok(at));
        if let Ok(position) = text.parse::<Position>() {
            prop_assert_eq!(position.to_string(), text);
        }
    }
}
