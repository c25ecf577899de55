use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;
use wasmkeep_supervisors::ports::{Database, Databases, Meta, OpenError};

use super::super::DataDirError;
use super::*;

fn open_data_dir(path: &std::path::Path) -> Result<DataDir, DataDirError> {
    DataDir::open(path)
}

#[test]
fn a_data_directory_is_one_servers() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("deep/data");
    let first = open_data_dir(&path).expect("it opens");
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let error = open_data_dir(&path).expect_err("it is in use").to_string();
    assert!(error.contains("another wasmkeep server"), "{error}");
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    assert!(error.contains("deep/data"), "{error}");
    drop(first);
    open_data_dir(&path).expect("it opens again");
}

#[test]
fn a_data_directory_says_its_format() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    drop(open_data_dir(&path).expect("it opens"));
    let format = path.join("format");
    let read = || std::fs::read_to_string(&format).expect("the format");
    assert_eq!(read(), "wasmkeep data 1\n");
    std::fs::write(path.join("format.tmp"), "half").expect("a file");
    drop(open_data_dir(&path).expect("it opens"));
    assert!(!path.join("format.tmp").exists());
    std::fs::write(&format, "wasmkeep data 2\n").expect("a file");
    let error = open_data_dir(&path).expect_err("too new").to_string();
    assert!(error.contains("newer wasmkeep"), "{error}");
    for foreign in ["something else", "wasmkeep data x", "", "wasmkeep data 0"] {
        std::fs::write(&format, foreign).expect("a file");
        let error = open_data_dir(&path).expect_err("foreign");
        assert!(matches!(error, DataDirError::Foreign { .. }), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&format).expect("untouched"), "wasmkeep data 0");
}

#[test]
fn a_data_directory_may_be_a_link_or_hold_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let volume = directory.path().join("volume");
    let link = directory.path().join("link");
    std::fs::create_dir_all(volume.join("elsewhere")).expect("directories");
    std::os::unix::fs::symlink(volume.join("elsewhere"), volume.join("state")).expect("a link");
    std::os::unix::fs::symlink(&volume, &link).expect("a link");
    let databases = databases(&link, patient());
    let mut database = databases.open_file(&address("a")).expect("it opens");
    database.run_ok("CREATE TABLE t (v)");
    database.sync().expect("a working disk");
    assert!(volume.join("elsewhere/default/default/counter").is_dir());
}

#[test]
fn every_name_has_its_own_file() {
    let node = Node::new();
    let long = "x".repeat(256);
    let names = ["a", "A", "é", "e\u{301}", "..a", "file:a?mode=memory", "a'b", "%00", &long];
    for name in names {
        let mut database = node.open(name);
        database.run_ok("CREATE TABLE t (v)");
        database.set_meta(Meta::InitComponent, Some(name)).expect("the host writes");
        Box::new(database).close().expect("it closes");
    }
    let node = node.restart();
    for name in names {
        assert!(node.databases.has_file(&address(name)), "{name}");
        let mut database = node.open(name);
        assert_eq!(database.meta(Meta::InitComponent), Ok(Some(name.into())));
    }
    assert!(!node.databases.has_file(&address("b")));
    assert!(node.path("a").ends_with("state/default/default/counter/ca/61.db"));
}

#[test]
fn what_the_host_keeps_commits_with_the_guests_transaction() {
    let node = Node::new();
    let mut database = node.open("a");
    assert_eq!(database.meta(Meta::InitComponent), Ok(None));
    database.run_ok("BEGIN");
    database.run_ok("CREATE TABLE t (v)");
    database.set_meta(Meta::InitComponent, Some("one")).expect("the host writes");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("one".into())));
    assert_eq!(database.end_event(), Ok(true));
    assert_eq!(database.meta(Meta::InitComponent), Ok(None));
    database.begin_event(in_30_s());
    database.set_meta(Meta::InitComponent, Some("one")).expect("the host writes");
    Box::new(database).close().expect("it closes");
    let mut database = node.open("a");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("one".into())));
    database.run_ok("BEGIN");
    database.set_meta(Meta::InitComponent, Some("two")).expect("the host writes");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("two".into())));
    database.run_ok("ROLLBACK");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("one".into())));
}

#[test]
fn another_actors_file_is_refused() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.set_meta(Meta::InitComponent, Some("c")).expect("the host writes");
    Box::new(database).close().expect("it closes");
    let to = node.path("b");
    std::fs::create_dir_all(to.parent().expect("a directory")).expect("a directory");
    std::fs::copy(node.path("a"), &to).expect("a copy");
    std::fs::copy(node.wal("a"), node.wal("b")).expect("a copy");
    match node.databases.open_file(&address("b")) {
        Err(OpenError::Damaged { cause, .. }) => assert!(cause.contains("name"), "{cause}"),
        other => panic!("{:?}", other.map(drop)),
    }
    // As is one of a format this build does not know.
    let plain = Connection::open(node.path("a")).expect("a plain connection");
    plain.execute("UPDATE _wk_meta SET v = '2' WHERE k = 'format'", []).expect("a write");
    drop(plain);
    match node.databases.open_file(&address("a")) {
        Err(OpenError::Damaged { cause, .. }) => assert!(cause.contains("newer"), "{cause}"),
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn a_file_that_is_no_database_is_damaged() {
    let node = Node::new();
    let path = node.path("a");
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(&path, "not a database at all".repeat(1_000)).expect("a file");
    assert!(node.databases.has_file(&address("a")));
    match node.databases.open_file(&address("a")) {
        Err(OpenError::Damaged { path: named, .. }) => {
            assert_eq!(named, path.display().to_string());
        }
        other => panic!("{:?}", other.map(drop)),
    }
    // A file that was made and not written yet is a new database.
    std::fs::write(&path, "").expect("a file");
    node.open("a").run_ok("CREATE TABLE t (v)");
    // What cannot be opened for now is no damage.
    let path = node.path("b");
    std::fs::create_dir_all(&path).expect("a directory");
    let failed = node.databases.open_file(&address("b"));
    assert!(matches!(failed, Err(OpenError::Failed(_))), "{:?}", failed.map(drop));
}

#[test]
fn actors_without_a_file_are_remembered() {
    let node = Node::new();
    let (a, b) = (address("a"), address("b"));
    assert_eq!(node.databases.fileless_init(&a), Ok(None));
    node.databases.set_fileless_init(&a, "one").expect("the index writes");
    node.databases.set_fileless_init(&a, "two").expect("the index writes");
    node.databases.set_fileless_init(&b, "one").expect("the index writes");
    let node = node.restart();
    assert_eq!(node.databases.fileless_init(&a), Ok(Some("two".into())));
    assert!(!node.databases.has_file(&a));
    node.databases.remove(&a).expect("it is removed");
    assert_eq!(node.databases.fileless_init(&a), Ok(None));
    assert_eq!(node.databases.fileless_init(&b), Ok(Some("one".into())));
}

#[test]
fn a_first_file_takes_over_what_the_index_knew() {
    let node = Node::new();
    let a = address("a");
    node.databases.set_fileless_init(&a, "one").expect("the index writes");
    let mut database = node.open("a");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("one".into())));
    drop(database);
    assert_eq!(node.databases.fileless_init(&a), Ok(None));
    assert_eq!(node.open("a").meta(Meta::InitComponent), Ok(Some("one".into())));
    // Also when the server was killed between making the file and writing to it.
    let path = node.path("b");
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, "").expect("a file");
    node.databases.set_fileless_init(&address("b"), "one").expect("the index writes");
    assert_eq!(node.open("b").meta(Meta::InitComponent), Ok(Some("one".into())));
}

#[test]
fn removing_takes_everything_and_may_be_repeated() {
    let node = Node::new();
    let a = address("a");
    node.databases.remove(&a).expect("nothing to remove");
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.set_meta(Meta::InitComponent, Some("c")).expect("the host writes");
    drop(database);
    assert!(node.path("a").exists() && node.wal("a").exists());
    super::super::sync::faults::SYNCED.set([0; 3]);
    node.databases.remove(&a).expect("it is removed");
    assert_eq!(super::super::sync::faults::SYNCED.get()[2], 1, "the folder is synced");
    assert!(!node.path("a").exists() && !node.wal("a").exists());
    assert!(!node.databases.has_file(&a));
    node.databases.remove(&a).expect("nothing is left");
    let mut database = node.open("a");
    assert_eq!(database.meta(Meta::InitComponent), Ok(None));
    assert_eq!(database.integer("SELECT count(*) FROM sqlite_schema"), 0);
}

#[test]
fn a_failed_removal_is_tried_again() {
    use super::super::sync::faults;
    let node = Node::new();
    drop(node.open("a"));
    faults::FAIL_DIRECTORY.set(true);
    node.databases.remove(&address("a")).expect_err("the disk is on fire");
    node.databases.remove(&address("a")).expect_err("the disk is on fire");
    faults::FAIL_DIRECTORY.set(false);
    node.databases.remove(&address("a")).expect("it is removed");
}

#[test]
fn a_wal_that_outlived_its_database_is_not_taken_for_the_next_ones() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE old (v)");
    drop(database);
    std::fs::remove_file(node.path("a")).expect("the file goes, and its WAL stays");
    let mut database = node.open("a");
    assert_eq!(database.integer("SELECT count(*) FROM sqlite_schema"), 0);
}

#[test]
fn a_damaged_index_is_named_at_the_start() {
    let node = Node::new();
    for n in 0..2_000 {
        node.databases.set_fileless_init(&address(&format!("actor-{n}")), "c").expect("a row");
    }
    let Node { databases, directory } = node;
    drop(databases);
    let path = directory.path().join("data");
    let index = path.join("index.db");
    let plain = Connection::open(&index).expect("a plain connection");
    plain.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
    drop(plain);
    let whole = std::fs::read(&index).expect("the index");
    let mut torn = whole.clone();
    let middle = whole.len() / 2 / 4096 * 4096;
    torn[middle..middle + 4096].fill(0xa5);
    for damaged in [b"no database".repeat(1_000), torn] {
        std::fs::write(&index, &damaged).expect("a file");
        let error = open_data_dir(&path).expect_err("damaged").to_string();
        assert!(error.contains("index.db"), "{error}");
    }
    std::fs::write(&index, whole).expect("a file");
    open_data_dir(&path).expect("it opens");
}

#[test]
fn a_database_that_rests_gives_back_its_pages_and_answers_as_before() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100)
                INSERT INTO t (v) SELECT randomblob(2000) FROM n";
    database.run_ok(rows);
    database.end_event().expect("a whole database");
    let sum = "SELECT sum(length(v)) FROM t";
    assert_eq!(database.integer(sum), 200_000);
    let before = cache_bytes(&database);
    database.rest();
    let after = cache_bytes(&database);
    assert!(before > 200_000 && after < before / 4, "{before} bytes of pages, then {after}");
    database.begin_event(in_30_s());
    assert_eq!(database.integer(sum), 200_000);
    database.run_ok("DELETE FROM t WHERE id > 50");
    database.rest();
    assert_eq!(database.integer("SELECT count(*) FROM t"), 50, "between two statements, too");
}

/// Memory that the connection has for pages.
fn cache_bytes(database: &LocalDatabase) -> i32 {
    // SAFETY: the connection is open and used by this thread only.
    unsafe {
        super::super::budget::counter(
            database.connection.handle(),
            rusqlite::ffi::SQLITE_DBSTATUS_CACHE_USED,
        )
    }
}
