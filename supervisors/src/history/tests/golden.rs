//! One file for each format ever written, in `tests/golden`. Every build reads all of them, and
//! what it writes today is the newest. Files there are never changed, only added to.

use std::path::{Path, PathBuf};

use super::*;

/// Set, the test writes files that are not there yet.
const WRITE: &str = "WASMKEEP_WRITE_GOLDEN";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name)
}

/// The bytes of a file that this build would write as `ours`.
fn golden(name: &str, ours: &[u8]) -> Vec<u8> {
    let path = path(name);
    if std::env::var_os(WRITE).is_some() && !path.exists() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, ours).expect("it writes");
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn described() -> [(&'static str, Description, Image); 6] {
    let base = Some(Base { at: at(3, 6), hash: ObjectHash([0x36; 32]) });
    let segment = ObjectHash([0x37; 32]);
    let session = *b"a session's id..";
    let wall_ms = 1_796_000_000_123;
    let meta =
        || Meta::from([("alarm".into(), "1796000060000".into()), ("format".into(), "1".into())]);
    let one = Image::from([(1, 0x11)]);
    let three = Image::from([(1, 0x11), (2, 0x22), (3, 0x33)]);
    let with = |description| Description { session, wall_ms, ..description };
    [
        (
            "delta-1.seg",
            Description { meta: meta(), ..with(delta(at(3, 7), base, 300, 4)) },
            Image::from([(1, 0x11), (200, 0xc8), (300, 0x2c)]),
        ),
        ("full-1.seg", with(full(at(3, 7), base, 3, None)), three.clone()),
        ("reset-1.seg", with(reset(at(3, 7), base, 1)), one),
        ("fence-1.seg", with(fence(at(3, 7), base, 300)), Image::new()),
        (
            "merged-1.mrg",
            with(merged(this(at(3, 70), segment), 7, base, 300, None)),
            Image::from([(2, 0x22), (300, 0x2c)]),
        ),
        ("snapshot-1.snp", with(snapshot(this(at(3, 7), segment), 3, Some(at(2, 1)))), three),
    ]
}

#[test]
fn every_object_ever_written_is_read() {
    for (name, description, image) in described() {
        let mut description = description;
        if description.kind == Kind::Snapshot {
            description.meta =
                snapshot(this(at(3, 7), ObjectHash([0x37; 32])), 3, Some(at(2, 1))).meta;
        }
        let (ours, _) = object(&description, &image);
        let bytes = golden(name, &ours);
        let read = Object::check_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.description, description, "{name}");
        let mut pages = Image::new();
        let take = |page, bytes: &[u8]| {
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{name}");
            pages.insert(page, bytes[0]);
            Ok::<_, std::convert::Infallible>(())
        };
        read.pages_of(&bytes, take).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(pages, image, "{name}");
        // Compressed bytes may differ with a newer zstd; head and meta may not.
        let head = read.body().start as usize;
        assert_eq!(bytes[..head], ours[..head], "{name}: this build writes another head");
    }
}

#[test]
fn every_sidecar_ever_written_is_read() {
    let head = Base { at: at(12, 345), hash: ObjectHash([0xab; 32]) };
    let boot = "6f5fc2e6-1c8c-4a4d-9a35-d8f6a9e0c001";
    for (name, written) in
        [("boot-1.pos", Written::Under(boot.into())), ("synced-1.pos", Written::Synced)]
    {
        let sidecar = Sidecar { written, head, bytes: 8192, inode: 77 };
        let ours = sidecar.encode();
        let bytes = golden(name, ours.as_bytes());
        assert_eq!(Sidecar::decode(&bytes), Ok(sidecar), "{name}");
        assert_eq!(bytes, ours.into_bytes(), "{name}: this build writes another");
    }
}
