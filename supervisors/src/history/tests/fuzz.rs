//! Bytes that nobody wrote, and bytes that were bent on the way. A decoder takes them or says what
//! is wrong; it neither panics nor takes memory beyond what they justify.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Everything a restore would do with an object's bytes.
fn use_all(bytes: &[u8]) -> Result<(Object, u32), String> {
    let object = Object::check_bytes(bytes).map_err(|error| error.to_string())?;
    let mut pages = 0;
    let body = object.body();
    let body = &bytes[body.start as usize..body.end as usize];
    let mut assembly = Assembly::default();
    let count = |_: u32, page: &[u8]| {
        pages += u32::from(page.len() == PAGE_BYTES);
        Ok::<_, std::convert::Infallible>(())
    };
    assembly.apply(&object, body, count).map_err(|error| error.to_string())?;
    Ok((object, pages))
}

fn an_object() -> (Vec<u8>, ObjectHash) {
    let base = Some(Base { at: at(2, 2), hash: ObjectHash([5; 32]) });
    let meta = Meta::from([("alarm".into(), "12".into()), ("format".into(), "1".into())]);
    let description = Description { meta, session: [3; 16], ..delta(at(2, 3), base, 900, 7) };
    object(&description, &Image::from([(1, 1), (2, 0), (130, 4), (899, 9)]))
}

/// As a writer that means harm would: the hash fits.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len().saturating_sub(32);
    let hash = blake3::hash(&bytes[..body]);
    bytes.truncate(body);
    bytes.extend(hash.as_bytes());
    bytes
}

#[test]
fn an_object_cut_anywhere_is_refused_and_so_is_one_with_more() {
    let (bytes, _) = an_object();
    assert!(use_all(&bytes).is_ok());
    for length in 0..bytes.len() {
        assert!(use_all(&bytes[..length]).is_err(), "cut to {length}");
        assert!(use_all(&resealed(bytes[..length].to_vec())).is_err(), "cut to {length}, sealed");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(use_all(&longer).is_err());
    for more in 1..40 {
        let mut longer = bytes[..bytes.len() - 32].to_vec();
        longer.resize(longer.len() + more + 32, 0);
        assert!(use_all(&resealed(longer)).is_err(), "{more} more, sealed");
    }
}

#[test]
fn every_bit_of_an_object_counts() {
    let (bytes, _) = an_object();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bent = bytes.clone();
            bent[at] ^= 1 << bit;
            assert!(use_all(&bent).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let (mut bytes, _) = an_object();
    bytes[4] = 2;
    assert!(matches!(Object::check_bytes(&bytes), Err(ObjectError::Newer { .. })));
    bytes[0] = b'X';
    assert!(matches!(Object::check_bytes(&bytes), Err(ObjectError::Foreign { .. })));
}

#[test]
fn a_body_that_claims_much_takes_little_memory() {
    let (bytes, _) = object(&delta(at(1, 1), None, 1, 1), &Image::from([(1, 0)]));
    // A page far out: the set of pages must not be sized by its number.
    let mut far = bytes.clone();
    far[136..140].copy_from_slice(&u32::MAX.to_le_bytes());
    let (object, pages) = use_all(&resealed(far)).expect("a legal object");
    assert_eq!((object.description.db_pages, pages), (u32::MAX, 1));
    // Many pages claimed, one there.
    let mut many = bytes;
    many[136..140].copy_from_slice(&u32::MAX.to_le_bytes());
    many[140..144].copy_from_slice(&1_000_000_u32.to_le_bytes());
    many[152..160].copy_from_slice(&4_097_000_000_u64.to_le_bytes());
    let error = use_all(&resealed(many)).expect_err("pages are missing");
    assert!(error.contains("body"), "{error}");
}

fn cases(cases: u32) -> ProptestConfig {
    let defaults = ProptestConfig::default();
    ProptestConfig { cases: defaults.cases * cases, source_file: Some(file!()), ..defaults }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn any_bytes_are_an_object_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), named in any::<bool>()) {
        let bytes = if named { [b"WKS1\x01", bytes.as_slice()].concat() } else { bytes };
        let _ = use_all(&bytes);
        let _ = use_all(&resealed(bytes));
    }

    #[test]
    fn a_bent_object_that_is_sealed_anew_is_sound_or_refused(
        bends in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        in_head in any::<bool>(),
    ) {
        let (mut bytes, _) = an_object();
        let length = if in_head { 200 } else { bytes.len() };
        for (at, byte) in bends {
            bytes[at.index(length)] = byte;
        }
        if let Ok((object, pages)) = use_all(&resealed(bytes)) {
            prop_assert_eq!(object.page_count(), pages);
            prop_assert!(object.page_count() <= object.description.db_pages);
            let Description { base, at, .. } = object.description;
            prop_assert!(base.is_none_or(|base| base.at < at));
        }
    }

    #[test]
    fn any_text_is_a_sidecar_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "wasmkeep pos 1\n(synced|[a-f0-9-]{0,8})\n[0-9 a-f]{0,80}\n[0-9 ]{0,9}\n[0-9a-f]{0,66}\n?") {
        for bytes in [bytes, text.into_bytes()] {
            if let Ok(sidecar) = Sidecar::decode(&bytes) {
                prop_assert_eq!(sidecar.encode().into_bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_bent_sidecar_is_refused(at in any::<Index>(), bit in 0..8_u8, cut in any::<Index>()) {
        let bytes = sidecar::a_sidecar(Written::Synced).encode().into_bytes();
        let mut bent = bytes.clone();
        bent[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(Sidecar::decode(&bent).is_err());
        prop_assert!(Sidecar::decode(&bytes[..cut.index(bytes.len())]).is_err());
    }
}
