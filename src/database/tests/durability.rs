use wasmkeep_supervisors::ports::{Database, Databases, SqlError};

use wasmkeep_supervisors::time::Timestamp;

use super::super::sync::{File, faults};
use super::*;

fn synced() -> [u32; 3] {
    faults::SYNCED.replace([0; 3])
}

#[test]
fn the_first_sync_covers_the_file_and_its_folders_and_later_ones_the_wal() {
    let node = Node::new();
    let mut database = node.open("a");
    synced();
    database.run_ok("CREATE TABLE t (v)");
    database.run_ok("INSERT INTO t VALUES (1)");
    assert_eq!(synced(), [0, 0, 0], "exec asks for no fsync");
    database.sync().expect("a working disk");
    // The folder of the file, and the four above it whose entries may be new.
    assert_eq!(synced(), [1, 1, 5]);
    database.run_ok("INSERT INTO t VALUES (2)");
    database.sync().expect("a working disk");
    assert_eq!(synced(), [0, 1, 0]);
    database.sync().expect("a working disk");
    database.run_ok("SELECT 1");
    database.sync().expect("a working disk");
    assert_eq!(synced(), [0, 0, 0], "nothing was committed in between");
    let mut other = node.open("b");
    other.run_ok("CREATE TABLE t (v)");
    synced();
    other.sync().expect("a working disk");
    let [main, wal, folders] = synced();
    assert_eq!((main, wal), (1, 1));
    assert!(folders <= 2, "the folders above are durable already: {folders}");
}

#[test]
fn a_wal_left_by_a_crash_is_synced_like_any_other() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    drop(database);
    let mut database = node.open("a");
    synced();
    database.sync().expect("a working disk");
    let [main, wal, _] = synced();
    assert_eq!((main, wal), (1, 1));
}

#[test]
fn a_failed_sync_is_not_tried_again() {
    for fault in [Some(File::Main), Some(File::Wal), None] {
        let node = Node::new();
        let mut database = node.open("a");
        database.run_ok("CREATE TABLE t (v)");
        database.run_ok("INSERT INTO t VALUES (1)");
        faults::FAIL.set(fault);
        faults::FAIL_DIRECTORY.set(fault.is_none());
        let failed = database.sync().expect_err("the disk is on fire");
        assert!(failed.to_string().contains("on fire"), "{failed}");
        faults::FAIL.set(None);
        faults::FAIL_DIRECTORY.set(false);
        synced();
        assert_eq!(database.sync().expect_err("given up"), failed);
        assert_eq!(synced(), [0, 0, 0]);
        for sql in ["SELECT 1", "INSERT INTO t VALUES (2)", "ROLLBACK"] {
            assert!(matches!(database.run_err(sql), SqlError::Internal(_)), "{sql}");
        }
        assert_eq!(database.end_event().expect_err("given up"), failed);
        assert_eq!(Box::new(database).close().expect_err("given up"), failed);
        // The next opening takes what is there.
        assert_eq!(node.open("a").integer("SELECT count(*) FROM t"), 1);
    }
}

#[test]
fn after_a_failed_sync_a_durable_write_rests_on_nothing_that_may_be_lost() {
    for file in [File::Main, File::Wal] {
        let node = Node::new();
        let mut database = node.open("a");
        database.run_ok("CREATE TABLE t (v)");
        database.run_ok("INSERT INTO t VALUES (1)");
        faults::FAIL.set(Some(file));
        database.sync().expect_err("the disk is on fire");
        faults::FAIL.set(None);
        drop(database);
        let mut database = node.open("a");
        database.run_ok("INSERT INTO t VALUES (2)");
        database.sync().expect("a working disk");
        let left = std::fs::metadata(node.wal("a")).expect("a WAL").len();
        assert_eq!(left, 0, "what the WAL held was written anew, into the file");
        database.run_ok("INSERT INTO t VALUES (3)");
        database.sync().expect("a working disk");
        let left = std::fs::metadata(node.wal("a")).expect("a WAL").len();
        assert!(left > 0, "once is enough");
        drop(database);
        assert_eq!(node.open("a").integer("SELECT count(*) FROM t"), 3);
    }
}

#[test]
fn a_folder_that_could_not_be_synced_stays_so_for_all_in_it() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    faults::FAIL_DIRECTORY.set(true);
    database.sync().expect_err("the disk is on fire");
    faults::FAIL_DIRECTORY.set(false);
    drop(database);
    let mut database = node.open("a");
    database.run_ok("INSERT INTO t VALUES (1)");
    let failed = database.sync().expect_err("another fsync would say nothing");
    assert!(failed.to_string().contains("on fire"), "{failed}");
}

#[test]
fn a_long_wal_is_moved_into_the_file_after_the_event() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    let length = || std::fs::metadata(node.wal("a")).expect("a WAL").len();
    while length() < 4 * 1024 * 1024 {
        database.run_ok("INSERT INTO t VALUES (zeroblob(100000))");
    }
    let rows = database.integer("SELECT count(*) FROM t");
    assert_eq!(database.end_event(), Ok(false));
    assert_eq!(length(), 0);
    database.begin_event(in_30_s());
    database.run_ok("INSERT INTO t VALUES (1)");
    database.sync().expect("a working disk");
    drop(database);
    let mut database = node.open("a");
    assert_eq!(database.integer("SELECT count(*) FROM t"), rows + 1);
    assert_eq!(database.text("PRAGMA integrity_check"), "ok");
}

#[test]
fn closing_leaves_the_file_and_at_most_a_short_wal() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    Box::new(database).close().expect("it closes");
    let length = std::fs::metadata(node.wal("a")).expect("a short WAL stays").len();
    assert!(length < 64 * 1024, "{length}");
    let mut database = node.open("a");
    while database.hooks.wal_frames.get() < 64 {
        database.run_ok("INSERT INTO t VALUES (zeroblob(10000))");
    }
    let rows = database.integer("SELECT count(*) FROM t");
    Box::new(database).close().expect("it closes");
    assert!(!node.wal("a").exists());
    let mut database = node.open("a");
    assert_eq!(database.integer("SELECT count(*) FROM t"), rows);
    Box::new(database).close().expect("it closes");
    assert!(!node.wal("a").exists(), "reading leaves nothing");
    let shared_memory = node.path("a").with_extension("db-shm");
    assert!(!shared_memory.exists());
}

#[test]
fn what_was_open_at_the_end_is_not_there_after() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.run_ok("BEGIN");
    database.run_ok("INSERT INTO t VALUES (1)");
    Box::new(database).close().expect("it closes");
    let mut database = node.open("a");
    assert_eq!(database.integer("SELECT count(*) FROM t"), 0);
    database.run_ok("BEGIN");
    database.run_ok("INSERT INTO t VALUES (1)");
    drop(database);
    assert_eq!(node.open("a").integer("SELECT count(*) FROM t"), 0);
}

#[test]
fn damage_is_met_as_such_and_never_as_an_answer() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    while database.hooks.wal_frames.get() < 200 {
        database.run_ok("INSERT INTO t VALUES (randomblob(10000))");
    }
    Box::new(database).close().expect("it closes");
    let mut bytes = std::fs::read(node.path("a")).expect("the file");
    let pages = bytes.len() / 4096;
    for page in 2..pages {
        bytes[page * 4096..page * 4096 + 100].fill(0xa5);
    }
    std::fs::write(node.path("a"), bytes).expect("the file");
    let mut database = node.open("a");
    let error = database.run_err("SELECT sum(length(v)) FROM t");
    assert!(matches!(error, SqlError::Internal(_)), "{error}");
    let error = database.run_err("SELECT 1");
    assert!(matches!(error, SqlError::Internal(_)), "{error}");
    assert!(database.end_event().is_err());
}

#[test]
fn an_index_that_failed_is_opened_anew_and_has_lost_nothing() {
    let node = Node::new();
    let address = address("a");
    let index = || node.databases.indexed_alarm(&address);
    node.databases.index_alarm(&address, Some(Timestamp(7))).expect("a working disk");
    faults::FAIL.set(Some(File::Wal));
    node.databases.sync_index().expect_err("the disk is on fire");
    faults::FAIL.set(None);
    assert_eq!(index(), Ok(Some(Timestamp(7))));
    node.databases.index_alarm(&address, None).expect("it works again");
    node.databases.sync_index().expect("and syncs");
    assert_eq!(index(), Ok(None));
}
