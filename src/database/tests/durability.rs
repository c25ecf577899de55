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

#[tokio::test]
async fn a_sync_beside_the_writer_is_of_the_wal_alone_and_only_once_the_rest_is_durable() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    assert!(database.sync_beside().is_none(), "the file is not durable yet");
    database.sync().expect("a working disk");
    synced();
    database.run_ok("INSERT INTO t VALUES (1)");
    let beside = database.sync_beside().expect("it is the WAL alone");
    database.run_ok("INSERT INTO t VALUES (2)");
    beside.await.expect("a working disk");
    assert_eq!(synced(), [0, 1, 0]);
    database.sync().expect("a working disk");
    assert_eq!(synced(), [0, 1, 0], "the second row was written after it began");
    database.sync().expect("a working disk");
    assert_eq!(synced(), [0, 0, 0]);
}

/// An event may be cut off while it waits. Its write is not durable because the next one is told so.
#[tokio::test]
async fn a_sync_beside_for_which_nobody_waited_counts_as_what_it_was() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.sync().expect("a working disk");
    database.run_ok("INSERT INTO t VALUES (1)");
    faults::FAIL.set(Some(File::Wal));
    drop(database.sync_beside().expect("it is the WAL alone"));
    faults::FAIL.set(None);
    assert!(database.sync_beside().is_none(), "what it was about is in doubt");
    synced();
    database.sync().expect("a working disk");
    assert_ne!(synced(), [0, 0, 0], "nothing was committed since, and it is not durable");
    let left = std::fs::metadata(node.wal("a")).expect("a WAL").len();
    assert_eq!(left, 0, "it was written anew, into the file");
}

#[test]
fn what_a_rest_left_unsynced_is_synced_by_the_next_durable_write() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.sync().expect("a working disk");
    database.run_ok("INSERT INTO t VALUES (1)");
    synced();
    assert!(database.rest());
    Box::new(database).close().expect("the rest closes it");
    assert_eq!(synced(), [0, 0, 0], "a rest costs no fsync");
    let mut database = node.open("a");
    database.sync().expect("a working disk");
    let [main, wal, _] = synced();
    assert_eq!((main, wal), (1, 1));
    assert_eq!(database.integer("SELECT count(*) FROM t"), 1);
}

#[test]
fn a_captured_database_stays_open_while_its_actor_rests() {
    let node = Node::with(super::history::captured());
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    assert!(!database.rest());
    assert_eq!(database.integer("SELECT count(*) FROM t"), 0);
}

#[test]
fn a_database_with_a_long_log_stays_open_while_its_actor_rests() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    assert!(database.rest(), "a short log is read again in no time");
    database.run_ok("INSERT INTO t VALUES (zeroblob(5000000))");
    assert!(!database.rest(), "its length makes fsyncs fast");
    assert_eq!(database.end_event(), Ok(false));
    assert!(!database.rest(), "the log is empty now, and as long");
    assert_eq!(database.integer("SELECT count(*) FROM t"), 1);
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
    let long = length();
    synced();
    assert_eq!(database.end_event(), Ok(false));
    assert_eq!(length(), long, "a file that does not grow is synced sooner");
    assert_eq!(synced(), [0, 1, 0], "beside SQLite's own: the blank header, before frames go over");
    assert_eq!(std::fs::read(node.wal("a")).expect("a WAL")[..32], [0; 32]);
    database.begin_event(in_30_s());
    database.run_ok("INSERT INTO t VALUES (1)");
    database.sync().expect("a working disk");
    drop(database);
    let mut database = node.open("a");
    assert_eq!(database.integer("SELECT count(*) FROM t"), rows + 1);
    assert_eq!(database.text("PRAGMA integrity_check"), "ok");
}

#[test]
fn a_wal_that_one_event_made_very_long_is_cut() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.run_ok("INSERT INTO t VALUES (zeroblob(12000000))");
    assert!(database.hooks.wal_frames.get() > 2048);
    assert_eq!(database.end_event(), Ok(false));
    assert_eq!(std::fs::metadata(node.wal("a")).expect("a WAL").len(), 0);
}

/// Opens a database with its WAL as a power cut may leave them: of what was written since the last
/// fsync, any blocks are there and any are not.
fn after_power_cut(file: &[u8], wal: &[u8]) -> (i64, String) {
    let node = Node::new();
    drop(node.open("a"));
    std::fs::write(node.path("a"), file).expect("the file");
    std::fs::write(node.wal("a"), wal).expect("the WAL");
    let mut database = node.open("a");
    let last = database.integer("SELECT max(n) FROM t");
    let torn = database.integer("SELECT count(DISTINCT n) FROM t") != 1;
    (last, if torn { "torn".into() } else { database.text("PRAGMA integrity_check") })
}

/// Every row is rewritten by each commit, so pages of two commits beside one another are seen.
#[test]
fn a_power_cut_while_a_wal_is_written_over_leaves_one_commit_and_never_parts_of_two() {
    const BLOCK: usize = 512;
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (n, pad)");
    for _ in 0..40 {
        database.run_ok("INSERT INTO t VALUES (0, zeroblob(3000))");
    }
    database.sync().expect("a working disk");
    while database.hooks.wal_frames.get() < 1024 {
        database.run_ok("UPDATE t SET n = n + 1");
    }
    let moved = database.integer("SELECT max(n) FROM t");
    let read = |path: std::path::PathBuf| std::fs::read(path).expect("a file");
    let header = read(node.wal("a"))[..32].to_vec();
    database.end_event().expect("a working disk");
    let (file, old) = (read(node.path("a")), read(node.wal("a")));
    database.begin_event(in_30_s());
    for _ in 0..3 {
        database.run_ok("UPDATE t SET n = n + 1");
    }
    assert_eq!(read(node.path("a")), file, "only the WAL was written");
    let new = read(node.wal("a"));
    assert_eq!(new.len(), old.len());
    let blocks: Vec<usize> = (0..new.len().div_ceil(BLOCK)).collect();
    let mut random = Random(7);
    for round in 0..200 {
        let mut wal = old.clone();
        // A share of the blocks that differs from round to round, and the header now and then.
        let kept = 1 + round % 99;
        for block in &blocks {
            if random.below(100) < kept || (*block == 0 && round % 2 == 0) {
                let range = block * BLOCK..new.len().min((block + 1) * BLOCK);
                wal[range.clone()].copy_from_slice(&new[range]);
            }
        }
        let (last, sound) = after_power_cut(&file, &wal);
        assert_eq!(sound, "ok", "round {round}");
        assert!((moved..=moved + 3).contains(&last), "round {round}: {last}");
    }
    // With the header it had, old frames come back as far as they are not written over.
    let mut wal = old;
    wal[..32].copy_from_slice(&header);
    let half = wal.len() / 2;
    wal[half..].fill(0);
    let (last, _) = after_power_cut(&file, &wal);
    assert!(last < moved, "this test would not see it: {last}");
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
