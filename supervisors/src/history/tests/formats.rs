use proptest::prelude::*;

use super::super::pages::whole_count;
use super::*;

fn hash(byte: u8) -> ObjectHash {
    ObjectHash([byte; 32])
}

fn base(generation: u64, seq: u64) -> Option<Base> {
    Some(Base { at: at(generation, seq), hash: hash(7) })
}

fn pages_of(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let object = Object::check_bytes(bytes).expect("a whole object");
    let mut pages = Vec::new();
    let take = |page, bytes: &[u8]| {
        pages.push((page, bytes.to_vec()));
        Ok::<_, std::convert::Infallible>(())
    };
    object.pages_of(bytes, take).expect("a body as the head says");
    pages
}

prop_compose! {
    /// Pages with bytes that compress and bytes that do not.
    fn some_pages()(db_pages in 1..2000_u32, seeds in prop::collection::btree_map(1..2000_u32, any::<u64>(), 1..40))
        -> (u32, BTreeMap<u32, Vec<u8>>) {
        let fits = seeds.into_iter().filter(|(page, _)| *page <= db_pages);
        let mut pages: BTreeMap<u32, Vec<u8>> = fits.map(|(page, seed)| (page, filled(seed))).collect();
        pages.entry(1).or_insert_with(|| filled(3));
        (db_pages, pages)
    }
}

fn filled(seed: u64) -> Vec<u8> {
    if seed.is_multiple_of(2) {
        return vec![(seed >> 8) as u8; PAGE_BYTES];
    }
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(PAGE_BYTES).collect()
}

fn encoded(description: &Description, pages: &BTreeMap<u32, Vec<u8>>) -> (Vec<u8>, ObjectHash) {
    let mut bytes = Vec::new();
    let read = |page: u32, to: &mut [u8]| {
        to.copy_from_slice(&pages[&page]);
        Ok::<_, std::convert::Infallible>(())
    };
    let hash = encode(description, pages.keys().copied(), read, &mut bytes).expect("it encodes");
    (bytes, hash)
}

proptest! {
    #[test]
    fn an_object_gives_back_what_went_into_it(
        (db_pages, pages) in some_pages(),
        (generation, seq, frames, wall_ms) in (2..9_u64, 1..9_u64, any::<u32>(), any::<u64>()),
        session in any::<[u8; 16]>(),
        meta in prop::collection::btree_map("[a-z_]{1,9}", "[^\\p{Cc}]{0,9}", 0..4),
    ) {
        let at = at(generation, seq);
        let base = if seq > 1 { base(generation, seq - 1) } else { base(generation - 1, 5) };
        let description =
            Description { session, wall_ms, meta, ..delta(at, base, db_pages, frames) };
        let (bytes, hash) = encoded(&description, &pages);
        let object = Object::check_bytes(&bytes).expect("a whole object");
        prop_assert_eq!(&object.description, &description);
        prop_assert_eq!(object.hash, hash);
        prop_assert_eq!(object.page_count() as usize, pages.len());
        prop_assert_eq!(pages_of(&bytes), pages.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_set_of_pages_is_a_set(pages in prop::collection::vec(any::<u32>(), 0..60)) {
        let mut set = PageSet::default();
        let mut plain = std::collections::BTreeSet::new();
        for page in pages {
            prop_assert_eq!(set.insert(page), plain.insert(page));
            prop_assert!(set.contains(page));
        }
        prop_assert_eq!(set.len() as usize, plain.len());
        prop_assert!(set.iter().eq(plain));
    }
}

#[test]
fn an_object_larger_than_a_frame_is_written_and_read_in_pieces() {
    let pages: BTreeMap<u32, Vec<u8>> =
        (1..=2500).map(|page| (page, filled(u64::from(page)))).collect();
    let (bytes, _) = encoded(&full(at(1, 1), None, 2500, None), &pages);
    assert!(bytes.len() > 4 * 1024 * 1024);
    assert_eq!(pages_of(&bytes).len(), 2500);
}

#[test]
fn every_kind_is_told_by_its_key_and_needs_what_it_needs() {
    let snapshot = snapshot(this(at(2, 3), hash(1)), 1, Some(at(1, 9)));
    let merged = merged(this(at(2, 3), hash(1)), 2, base(2, 1), 1, None);
    let kinds = [
        (delta(at(2, 3), base(2, 2), 1, 4), "fffffffffffffffd-fffffffffffffffc.seg"),
        (full(at(2, 1), base(1, 2), 1, None), "fffffffffffffffd-fffffffffffffffe.seg"),
        (reset(at(2, 1), None, 1), "fffffffffffffffd-fffffffffffffffe.seg"),
        (merged, "fffffffffffffffd-fffffffffffffffc.mrg-fffffffffffffffd"),
        (snapshot, "fffffffffffffffd-fffffffffffffffc.snp"),
    ];
    for (description, key) in kinds {
        let (bytes, hash) = object(&description, &Image::from([(1, 9)]));
        let read = Object::check_bytes(&bytes).expect("a whole object");
        assert_eq!((&read.description, read.hash), (&description, hash));
        assert_eq!(description.key().to_string(), key);
    }
    let fence = fence(at(2, 1), base(1, 2), 77);
    let (bytes, _) = object(&fence, &Image::new());
    assert_eq!(Object::check_bytes(&bytes).map(|read| read.description), Ok(fence));
    assert_eq!(bytes.len(), 192);
    assert_eq!(snapshot_reset(&bytes), None);
}

fn snapshot_reset(bytes: &[u8]) -> Option<Position> {
    Object::check_bytes(bytes).expect("a whole object").description.reset()
}

#[test]
fn an_object_that_cannot_be_is_not_written() {
    let one = Image::from([(1, 9)]);
    let two = Image::from([(1, 9), (2, 9)]);
    let gap = Image::from([(2, 9)]);
    let wrong = [
        (delta(at(2, 3), base(2, 1), 1, 1), &one, "base"),
        (delta(at(2, 3), base(3, 1), 1, 1), &one, "base"),
        (delta(at(2, 3), None, 1, 1), &one, "base"),
        (delta(at(2, 3), base(1, 4), 1, 1), &one, "base"),
        (delta(at(2, 1), base(2, 1), 1, 1), &one, "base"),
        (delta(at(2, 3), base(2, 2), 1, 1), &two, "page number"),
        (delta(at(2, 3), base(2, 2), 1, 1), &Image::new(), "number of pages"),
        (full(at(2, 3), base(2, 2), 2, None), &gap, "number of pages"),
        (fence(at(2, 3), base(2, 2), 2), &gap, "number of pages"),
        (merged(this(at(2, 3), hash(1)), 3, base(2, 2), 1, None), &one, "first seq"),
        (merged(this(at(2, 3), hash(1)), 1, base(2, 2), 1, None), &one, "base"),
        (
            Description { stands_for: None, ..snapshot(this(at(2, 3), hash(1)), 1, None) },
            &one,
            "hash",
        ),
        (
            Description { base: base(2, 2), ..snapshot(this(at(2, 3), hash(1)), 1, None) },
            &one,
            "base",
        ),
        (Description { stands_for: Some(hash(1)), ..full(at(2, 1), None, 1, None) }, &one, "hash"),
        (Description { from: 2, ..full(at(2, 1), None, 1, None) }, &one, "first seq"),
        (
            Description {
                meta: Meta::from([("A".into(), "b".into())]),
                ..full(at(2, 1), None, 1, None)
            },
            &one,
            "meta",
        ),
        (
            Description {
                meta: Meta::from([("a".into(), "b\n".into())]),
                ..full(at(2, 1), None, 1, None)
            },
            &one,
            "meta",
        ),
        (
            Description {
                meta: Meta::from([("a".into(), "b".repeat(4096))]),
                ..full(at(2, 1), None, 1, None)
            },
            &one,
            "meta",
        ),
    ];
    for (description, pages, what) in wrong {
        let read = |page: u32, to: &mut [u8]| {
            to.fill(pages[&page]);
            Ok::<_, std::convert::Infallible>(())
        };
        let error = encode(&description, pages.keys().copied(), read, Vec::new()).err();
        let error = error.unwrap_or_else(|| panic!("{description:?}: it was written")).to_string();
        assert!(error.contains(what), "{description:?}: {error}");
    }
}

#[test]
fn the_page_of_the_lock_byte_is_in_no_object_and_missed_by_none() {
    let whole: Vec<u32> = whole_pages(LOCK_PAGE + 2).skip(LOCK_PAGE as usize - 2).collect();
    assert_eq!(whole, [LOCK_PAGE - 1, LOCK_PAGE + 1, LOCK_PAGE + 2]);
    let read = |_: u32, _: &mut [u8]| Ok::<_, std::convert::Infallible>(());
    let description = delta(at(1, 1), None, LOCK_PAGE + 2, 1);
    let written = encode(&description, [LOCK_PAGE].into_iter(), read, Vec::new());
    assert!(matches!(
        written,
        Err(EncodeError::Wrong(ObjectError::Field { field: "page number", .. }))
    ));
    for pages in [0, 1, LOCK_PAGE - 1, LOCK_PAGE, LOCK_PAGE + 1] {
        assert_eq!(whole_count(pages) as usize, whole_pages(pages).count(), "{pages}");
    }
}
