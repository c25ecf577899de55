use super::super::sidecar::Files;
use super::*;

const BOOT: &str = "6f5fc2e6-1c8c-4a4d-9a35-d8f6a9e0c001";

pub(super) fn a_sidecar(written: Written) -> Sidecar {
    let head = Base { at: at(12, 345), hash: ObjectHash([0xab; 32]) };
    Sidecar { written, head, bytes: 8192, inode: 77 }
}

fn files() -> Files<'static> {
    Files { boot_id: BOOT, bytes: 8192, inode: 77, wal_bytes: 0 }
}

#[test]
fn a_sidecar_is_read_back() {
    for written in [Written::Synced, Written::Under(BOOT.into())] {
        let sidecar = a_sidecar(written);
        assert_eq!(Sidecar::decode(sidecar.encode().as_bytes()), Ok(sidecar));
    }
    let newer = a_sidecar(Written::Synced).encode().replace("pos 1", "pos 2");
    assert_eq!(Sidecar::decode(newer.as_bytes()), Err(SidecarError::Newer("2".into())));
}

#[test]
fn a_file_is_trusted_only_as_it_was_closed() {
    let sidecar = a_sidecar(Written::Under(BOOT.into()));
    assert_eq!(sidecar.trust(files()), Ok(sidecar.head));
    assert_eq!(
        sidecar.trust(Files { boot_id: "another", ..files() }),
        Err(SidecarError::OtherBoot)
    );
    assert_eq!(sidecar.trust(Files { wal_bytes: 1, ..files() }), Err(SidecarError::Wal));
    for found in [Files { bytes: 4096, ..files() }, Files { inode: 78, ..files() }] {
        assert!(matches!(sidecar.trust(found), Err(SidecarError::OtherFile(_))));
    }
    let synced = a_sidecar(Written::Synced);
    assert_eq!(synced.trust(Files { boot_id: "another", ..files() }), Ok(synced.head));
    assert_eq!(synced.trust(Files { wal_bytes: 9, ..files() }), Err(SidecarError::Wal));
}
