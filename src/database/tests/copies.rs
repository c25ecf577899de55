//! Which files are trusted, and what becomes of those that are not.

use std::os::unix::fs::FileExt;

use wasmkeep_supervisors::history::{Base, ObjectHash, PAGE_BYTES, Position, Sidecar, Written};
use wasmkeep_supervisors::ports::{Database, Databases, LocalFiles};

use super::super::sync::faults;
use super::history::captured;
use super::*;

fn head(seq: u64) -> Base {
    Base { at: Position::new(1, seq).expect("from 1"), hash: ObjectHash([seq as u8; 32]) }
}

/// A closed file that is trusted to be at `head(1)`.
fn closed() -> Node {
    let node = Node::with(captured());
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.end_event().expect("a working disk");
    database.capturing().expect("captured").capture().expect("it captures");
    Box::new(database).close_at(head(1)).expect("a working disk");
    assert_eq!(node.databases.trusted(&address("a")), Ok(Some(head(1))));
    assert!(!node.wal("a").exists());
    node
}

fn is_trusted(node: &Node) -> bool {
    node.databases.trusted(&address("a")).expect("a working disk").is_some()
}

fn sidecar(node: &Node) -> std::path::PathBuf {
    node.path("a").with_extension("pos")
}

#[test]
fn an_opening_ends_the_trust_and_a_crash_leaves_none() {
    let node = closed();
    let database = node.open("a");
    assert!(!sidecar(&node).exists() && !is_trusted(&node));
    drop(database);
    assert!(!is_trusted(&node));
    let mut database = node.open("a");
    database.run_ok("INSERT INTO t VALUES (1)");
    // What is not captured is not in the bucket, whatever is said.
    Box::new(database).close_at(head(2)).expect("a working disk");
    assert!(!is_trusted(&node));
}

/// A node that left its cluster changes files as well.
#[test]
fn an_opening_without_capture_ends_the_trust_too() {
    let Node { databases, directory } = closed();
    drop(databases);
    let databases = super::databases(&directory.path().join("data"), patient());
    drop(databases.open(&address("a")).expect("it opens"));
    let node = Node { databases, directory };
    assert!(!sidecar(&node).exists() && !is_trusted(&node));
}

#[test]
fn a_file_that_changed_or_has_a_log_is_not_trusted() {
    let node = closed();
    std::fs::write(node.wal("a"), b"").expect("it writes");
    assert!(is_trusted(&node), "an empty log says nothing");
    std::fs::write(node.wal("a"), b"x").expect("it writes");
    assert!(!is_trusted(&node));
    std::fs::remove_file(node.wal("a")).expect("it goes");
    assert!(is_trusted(&node));
    let (file, other) = (node.path("a"), node.path("a").with_extension("other"));
    // While the first is there the second has another inode.
    std::fs::copy(&file, &other).expect("a copy");
    std::fs::remove_file(&file).expect("it goes");
    assert!(!is_trusted(&node), "no file");
    std::fs::rename(other, file).expect("it moves");
    assert!(!is_trusted(&node), "another file");
}

#[test]
fn a_damaged_sidecar_or_one_of_another_boot_is_not_believed() {
    let node = closed();
    let text = std::fs::read_to_string(sidecar(&node)).expect("it reads");
    let said = Sidecar::decode(text.as_bytes()).expect("a sidecar");
    for bent in [text.replace("1 1 ", "1 2 "), text[..text.len() - 1].into(), String::new()] {
        std::fs::write(sidecar(&node), bent).expect("it writes");
        assert!(!is_trusted(&node));
    }
    let other_boot = Sidecar { written: Written::Under("another".into()), ..said.clone() };
    std::fs::write(sidecar(&node), other_boot.encode()).expect("it writes");
    assert!(!is_trusted(&node));
    let synced = Sidecar { written: Written::Synced, ..said };
    std::fs::write(sidecar(&node), synced.encode()).expect("it writes");
    assert!(is_trusted(&node));
}

/// A power cut must not bring a sidecar back beside a file that changed since.
#[test]
fn a_sidecar_that_outlives_a_power_cut_is_gone_for_good_before_the_file_is_used() {
    let node = closed();
    let text = std::fs::read(sidecar(&node)).expect("it reads");
    let said = Sidecar::decode(&text).expect("a sidecar");
    faults::SYNCED.set([0; 3]);
    drop(node.open("a"));
    assert_eq!(faults::SYNCED.get(), [0; 3], "one of this boot costs no sync");
    let synced = Sidecar { written: Written::Synced, ..said };
    std::fs::write(sidecar(&node), synced.encode()).expect("it writes");
    faults::SYNCED.set([0; 3]);
    drop(node.open("a"));
    assert_eq!(faults::SYNCED.get(), [0, 0, 1]);
    std::fs::write(sidecar(&node), synced.encode()).expect("it writes");
    faults::FAIL_DIRECTORY.set(true);
    assert!(node.databases.open(&address("a")).is_err(), "the folder could not be synced");
    faults::FAIL_DIRECTORY.set(false);
    assert!(node.databases.open(&address("a")).is_err(), "another sync would say nothing");
    assert!(sidecar(&node).exists(), "or the next server would not know");
}

#[test]
fn capturing_syncs_nothing() {
    let node = Node::with(captured());
    faults::SYNCED.set([0; 3]);
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    for _ in 0..100 {
        database.run_ok("INSERT INTO t VALUES (randomblob(50000))");
    }
    database.capturing().expect("captured").capture().expect("it captures");
    database.end_event().expect("a working disk");
    assert_eq!(std::fs::metadata(node.wal("a")).expect("a WAL").len(), 0);
    Box::new(database).close_at(head(1)).expect("a working disk");
    assert_eq!(faults::SYNCED.get(), [0; 3]);
    assert!(is_trusted(&node));
}

#[test]
fn a_large_file_is_synced_before_it_is_trusted() {
    let node = closed();
    let database = node.open("a");
    // Sparse, so the test is quick; SQLite has no business past its last page.
    let file = std::fs::File::options().write(true).open(node.path("a")).expect("it opens");
    file.set_len(65 * 1024 * 1024).expect("it grows");
    faults::SYNCED.set([0; 3]);
    Box::new(database).close_at(head(1)).expect("a working disk");
    assert_eq!(faults::SYNCED.get(), [1, 0, 0]);
    let text = std::fs::read(sidecar(&node)).expect("it reads");
    assert_eq!(Sidecar::decode(&text).map(|said| said.written), Ok(Written::Synced));
}

#[test]
fn a_restore_takes_the_files_place_and_keeps_the_one_before() {
    let node = closed();
    let file = std::fs::read(node.path("a")).expect("it reads");
    std::fs::write(node.wal("a"), b"an old log").expect("it writes");
    let mut image = node.databases.restore(&address("a")).expect("an image begins");
    image.write(1, &[1; PAGE_BYTES]).expect("it writes");
    image.write(3, &[3; PAGE_BYTES]).expect("it writes");
    assert_eq!(std::fs::read(node.path("a")).expect("it reads"), file, "not before it is whole");
    image.finish(3, head(9)).expect("it finishes");
    let restored = std::fs::read(node.path("a")).expect("it reads");
    assert_eq!(restored.len(), 3 * PAGE_BYTES);
    assert_eq!((restored[0], restored[PAGE_BYTES], restored[2 * PAGE_BYTES]), (1, 0, 3));
    let replaced = node.path("a").with_extension("db.replaced");
    assert_eq!(std::fs::read(&replaced).expect("it reads"), file);
    let replaced_wal = super::super::sync::wal_path(&replaced);
    assert_eq!(std::fs::read(&replaced_wal).expect("it reads"), b"an old log");
    assert!(!node.wal("a").exists());
    assert_eq!(node.databases.trusted(&address("a")), Ok(Some(head(9))), "nobody used it since");
    // One is kept: without its log, when it had none.
    let image = node.databases.restore(&address("a")).expect("an image begins");
    image.finish(0, head(9)).expect("it finishes");
    assert!(!is_trusted(&node));
    assert!(!node.databases.has_file(&address("a")) && !replaced_wal.exists());
    assert_eq!(std::fs::read(&replaced).expect("it reads"), restored);
    assert!(!node.path("a").with_extension("restore").exists());
    node.databases.remove(&address("a")).expect("it goes");
    assert!(!replaced.exists(), "a deleted actor leaves nothing");
}

#[test]
fn an_image_that_is_not_finished_leaves_what_was() {
    let node = closed();
    let image = node.databases.restore(&address("a")).expect("an image begins");
    let path = node.path("a").with_extension("restore");
    let file = std::fs::File::options().write(true).open(&path).expect("it is there");
    file.write_all_at(b"half", 0).expect("it writes");
    drop(image);
    assert!(!path.exists() && is_trusted(&node));
    node.databases.set_aside(&address("a")).expect("it moves");
    assert!(!node.path("a").exists() && !is_trusted(&node));
}

/// What a crash may leave of a file that is being set aside.
#[test]
fn a_file_that_is_set_aside_keeps_its_log_wherever_a_crash_comes() {
    let file = |path: &std::path::Path| std::fs::read(path).ok().map(|bytes| bytes[0]);
    for (what, database, wal, kept, kept_wal, left) in [
        ("nothing has happened", Some(2), Some(2), Some(1), Some(1), (Some(2), Some(2))),
        ("the kept log is removed", Some(2), Some(2), Some(1), None, (Some(2), Some(2))),
        ("the database is moved", None, Some(2), Some(2), None, (Some(2), Some(2))),
        ("all is moved", None, None, Some(2), Some(2), (Some(2), Some(2))),
        ("it has no log", Some(2), None, Some(1), Some(1), (Some(2), None)),
        ("a log of nobody's is there", None, Some(3), Some(1), Some(1), (Some(1), Some(1))),
        ("nothing is there but that", None, Some(3), None, None, (None, None)),
    ] {
        let node = Node::with(captured());
        drop(node.open("a"));
        let (path, kept_path) = (node.path("a"), node.path("a").with_extension("db.replaced"));
        let kept_wal_path = super::super::sync::wal_path(&kept_path);
        for (path, holds) in [
            (&path, database),
            (&node.wal("a"), wal),
            (&kept_path, kept),
            (&kept_wal_path, kept_wal),
        ] {
            match holds {
                Some(byte) => std::fs::write(path, [byte]).expect("it writes"),
                None => _ = std::fs::remove_file(path),
            }
        }
        node.databases.set_aside(&address("a")).expect("a working disk");
        assert_eq!((file(&kept_path), file(&kept_wal_path)), left, "{what}");
        assert!(!path.exists() && !node.wal("a").exists(), "{what}");
    }
}

fn adoptable(node: &Node) -> bool {
    node.databases.adoptable(&address("a")).expect("a working disk")
}

#[test]
fn only_a_file_of_a_node_without_a_bucket_begins_a_history() {
    let node = Node::with(captured());
    assert!(!adoptable(&node), "there is no file");
    let mut database = node.open("a");
    assert!(!adoptable(&node), "nothing is written yet");
    database.run_ok("CREATE TABLE t (v)");
    drop(database);
    assert!(!adoptable(&node), "a crash leaves it");

    // The node leaves its cluster: what the file is from here on is its own.
    let Node { databases, directory } = node;
    drop(databases);
    let databases = super::databases(&directory.path().join("data"), patient());
    let mut database = databases.open_file(&address("a")).expect("it opens");
    database.run_ok("INSERT INTO t VALUES (1)");
    Box::new(database).close().expect("a working disk");
    let node = Node { databases, directory };
    assert!(adoptable(&node));

    // And is adopted in another one: still its own until that is known to have worked.
    let Node { databases, directory } = node;
    drop(databases);
    let databases = super::databases(&directory.path().join("data"), captured());
    let node = Node { databases, directory };
    let mut database = node.open("a");
    let capturing = database.capturing().expect("captured");
    capturing.capture_whole();
    let whole = capturing.capture().expect("it captures").expect("every page");
    assert!(whole.is_whole && adoptable(&node));
    capturing.adopted().expect("it writes");
    let mark = capturing.capture().expect("it captures").expect("a commit");
    assert_eq!(mark.changed, [1]);
    assert_eq!(database.integer("SELECT v FROM t"), 1);
    Box::new(database).close_at(head(1)).expect("a working disk");
    assert!(!adoptable(&node) && is_trusted(&node));
}
