//! One file for each lease ever written, in `tests/golden`. They are read by every build, and never
//! changed. `WASMKEEP_WRITE_GOLDEN` set, the test writes those that are not there yet.

use std::path::Path;

use super::*;

fn golden(name: &str, ours: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
    if std::env::var_os("WASMKEEP_WRITE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, ours).expect("it writes");
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_lease_ever_written_is_read() {
    let app = |app: &str, classes: &[&str]| Serves {
        tenant: Tenant::parse("acme").expect("a legal name"),
        app: App::parse(app).expect("a legal name"),
        classes: classes.iter().map(|class| Class::parse(class).expect("a legal class")).collect(),
    };
    let nonce = "0123456789abcdef".parse().expect("a nonce");
    let live = LeaseRecord {
        serves: vec![app("shop", &["cart", "user"]), app("blog", &[])],
        features: vec!["front".into(), "ends".into()],
        nonce,
        ..a_lease(0xab, LeaseState::Live)
    };
    let bare = LeaseRecord {
        address: String::new(),
        key: [0; 32],
        serves: vec![],
        version: String::new(),
        features: vec![],
        beat: 0,
        load: Load::default(),
        ..live.clone()
    };
    for (name, lease) in [
        ("live-1.node", live.clone()),
        ("draining-1.node", LeaseRecord { state: LeaseState::Draining, ..live.clone() }),
        ("released-1.node", LeaseRecord { state: LeaseState::Released, ..live }),
        ("fenced-1.node", LeaseRecord { state: fenced(), ..bare }),
    ] {
        let ours = lease.encode();
        let bytes = golden(name, &ours);
        assert_eq!(LeaseRecord::decode(&bytes), Ok(lease), "{name}");
        assert_eq!(bytes, ours, "{name}: this build writes another");
    }
}
