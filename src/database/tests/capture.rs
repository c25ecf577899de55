//! What is captured, shipped and restored is the file, byte for byte, at every position.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use wasmkeep_supervisors::history::{Base, PAGE_BYTES};
use wasmkeep_supervisors::ports::{Database, Latched, LocalFiles, Meta, SqlError};

use super::history::{History, captured, checkpointed, is_sound};
use super::workload::{SCHEMA, WRITES};
use super::*;

/// The states a history must give back.
#[derive(Default)]
struct States(Vec<(Base, Vec<u8>)>);

impl States {
    /// Ships what the event did, and remembers the file as it is now.
    fn ship(&mut self, node: &Node, database: &mut LocalDatabase, history: &mut History) {
        if history.ship(database).is_some() {
            let head = history.progress.head().expect("it was shipped");
            self.0.push((head, checkpointed(&node.path("a"))));
        }
    }

    /// Each is restored, from whatever the history has.
    fn check(&self, history: &History, what: &str) {
        for (head, file) in &self.0 {
            let image = history.image(head.at);
            assert!(image == *file, "{what}: the image at {} is not the file", head.at);
        }
        if let Some((head, file)) = self.0.last() {
            let other = Node::with(captured());
            let restored = history.restore(head.at, &other.databases);
            assert_eq!(restored, *head);
            assert!(std::fs::read(other.path("a")).expect("a file") == *file, "{what}");
            assert!(is_sound(file), "{what}");
        }
    }
}

const MORE: [&str; 14] = [
    "INSERT INTO t (a) VALUES (zeroblob(20000))",
    "INSERT INTO t (a) SELECT randomblob(9000) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9))",
    "CREATE TABLE IF NOT EXISTS more (k PRIMARY KEY, v) WITHOUT ROWID",
    "INSERT OR REPLACE INTO more VALUES (random() % 50, randomblob(700))",
    "ALTER TABLE more ADD COLUMN w DEFAULT 7",
    "ALTER TABLE more DROP COLUMN w",
    "CREATE INDEX IF NOT EXISTS more_v ON more (v)",
    "DROP INDEX IF EXISTS more_v",
    "DROP TABLE IF EXISTS more",
    "CREATE VIEW IF NOT EXISTS seen AS SELECT a FROM t",
    "DELETE FROM t WHERE length(a) > 5000",
    "INSERT INTO f (f) VALUES ('optimize')",
    "DELETE FROM t",
    "ANALYZE",
];

const CONTROLS: [&str; 6] =
    ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "RELEASE s", "ROLLBACK TO s"];

fn event(random: &mut Random, database: &mut LocalDatabase) {
    database.begin_event(in_30_s());
    for _ in 0..1 + random.below(7) {
        let sql = match random.below(10) {
            0 | 1 => random.pick(&CONTROLS),
            2..=4 => random.pick(&MORE),
            _ => random.pick(&WRITES),
        };
        let params = sql.contains("?2").then(|| [random.below(100), random.below(100)]);
        let params = params.into_iter().flatten().map(|value| SqlValue::Integer(value as i64));
        let wrong = database.exec(sql, params.collect()).err();
        assert!(!matches!(wrong, Some(SqlError::Internal(_))), "{sql}: {wrong:?}");
    }
    // More than the page cache holds, in one transaction: pages spill into the WAL early.
    if random.below(12) == 0 {
        let _ = database.exec("BEGIN", vec![]);
        for _ in 0..30 {
            database.run_ok("INSERT INTO log (what) VALUES (randomblob(60000))");
        }
        let end = random.pick(&["COMMIT", "ROLLBACK", "ROLLBACK"]);
        let _ = database.exec(end, vec![]);
        let _ = database.exec("DELETE FROM log WHERE length(what) > 50000 AND n % 2", vec![]);
    }
    if random.below(5) == 0 {
        let value = random.below(1000).to_string();
        database.set_meta(Meta::Alarm, Some(&value)).expect("the host writes");
    }
}

fn work(seed: u64) {
    let mut random = Random(seed);
    let node = Node::with(captured());
    let (mut history, mut states) = (History::new(), States::default());
    let mut database = node.open("a");
    SCHEMA.iter().for_each(|sql| _ = database.run_ok(sql));
    // A snapshot that is read while the actor goes on.
    let mut latched: Option<(Base, Box<dyn Latched>)> = None;
    for step in 0..30 {
        let what = format!("{seed}.{step}");
        event(&mut random, &mut database);
        if random.below(4) == 0 {
            // Inside an event, as a durable statement does.
            states.ship(&node, &mut database, &mut history);
            if !database.in_transaction() {
                event(&mut random, &mut database);
            }
        }
        database.end_event().expect("a working disk");
        states.ship(&node, &mut database, &mut history);
        let head = history.progress.head().expect("something was shipped");
        if random.below(3) == 0
            && let Some((at, pages)) = latched.take()
        {
            history.snapshot(at, pages.as_ref());
        }
        let capturing = database.capturing().expect("it is captured");
        match random.below(10) {
            0 if latched.is_none() => {
                latched = capturing.latch().expect("a working disk").map(|pages| (head, pages));
                assert!(latched.is_some(), "{what}");
            }
            1 if latched.is_none() => {
                let pages = capturing.latch().expect("a working disk").expect("all is captured");
                history.merge(pages.as_ref());
            }
            2 => {
                let vacuumed = capturing.vacuum_if_sparse().expect("a working disk");
                if vacuumed {
                    states.ship(&node, &mut database, &mut history);
                }
            }
            3 => {
                // Hibernation and waking; sometimes on another node.
                if let Some((at, pages)) = latched.take() {
                    history.snapshot(at, pages.as_ref());
                }
                Box::new(database).close_at(head).expect("a working disk");
                assert_eq!(node.databases.trusted(&address("a")), Ok(Some(head)), "{what}");
                history.next_hold();
                if random.below(2) == 0 {
                    history.restore(head.at, &node.databases);
                }
                database = node.open("a");
                assert_eq!(node.databases.trusted(&address("a")), Ok(None), "{what}");
            }
            _ => {}
        }
    }
    drop(latched);
    states.check(&history, &format!("seed {seed}"));
    assert!(states.0.len() > 20, "{seed}: {}", states.0.len());
}

#[test]
fn every_position_restores_to_the_file_as_it_was() {
    for seed in 0..8 {
        work(seed);
    }
}

#[test]
fn whatever_the_sql_is_captures_restore_to_the_file() {
    let defaults = ProptestConfig::default();
    let config = ProptestConfig { cases: defaults.cases / 8, ..defaults };
    let config = ProptestConfig { source_file: Some(file!()), ..config };
    let events =
        proptest::collection::vec(proptest::collection::vec(random_sql::a_statement(), 1..8), 1..5);
    let shipped = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&events, |events| {
        let node = Node::with(captured());
        let (mut history, mut states) = (History::new(), States::default());
        let mut database = node.open("a");
        database.run_ok("CREATE TABLE t (a, v)");
        for sql in events.iter().flatten() {
            let _ = database.exec(sql, vec![SqlValue::Integer(1); sql.matches('?').count()]);
        }
        for event in &events {
            database.begin_event(in_30_s());
            for sql in event {
                let _ = database.query(sql, vec![SqlValue::Integer(1); sql.matches('?').count()]);
            }
            database.end_event().expect("a whole database");
            states.ship(&node, &mut database, &mut history);
        }
        for (head, file) in &states.0 {
            prop_assert!(history.image(head.at) == *file, "at {}", head.at);
        }
        shipped.set(shipped.get() + states.0.len());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(shipped.get() > 20, "{}", shipped.get());
}

#[test]
fn nothing_leaves_the_log_before_it_is_captured() {
    let node = Node::with(captured());
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    for _ in 0..100 {
        database.run_ok("INSERT INTO t VALUES (randomblob(50000))");
    }
    let before = std::fs::read(node.path("a")).expect("a file");
    database.end_event().expect("a working disk");
    assert!(std::fs::read(node.path("a")).expect("a file") == before, "it was not captured");
    let capturing = database.capturing().expect("it is captured");
    assert!(capturing.latch().expect("a working disk").is_none());
    assert_eq!(capturing.vacuum_if_sparse(), Ok(false));
    assert!(capturing.capture().expect("it captures").is_some_and(|all| all.changed.len() > 1000));
    let mut page = vec![0; PAGE_BYTES];
    capturing.read_captured(1, &mut page).expect("page 1 is among them");
    assert!(page.starts_with(b"SQLite format 3\0"));
    assert_eq!(capturing.capture(), Ok(None));
    capturing.read_captured(1, &mut page).expect_err("that was the capture before");
}

#[test]
fn a_log_that_began_anew_by_itself_is_told_and_not_passed_over() {
    let node = Node::with(captured());
    let mut database = node.open("a");
    for sql in ["CREATE TABLE t (v)", "CREATE TABLE u (v)"] {
        database.run_ok(sql);
    }
    let capturing = database.capturing().expect("captured");
    let before = capturing.capture().expect("it captures").expect("two commits").frames;
    super::super::sync::checkpoint_unsynced(&database.connection).expect("a checkpoint");
    // As many frames as before, so that the number alone would say that nothing happened.
    database.run_ok("INSERT INTO t VALUES (1)");
    while database.hooks.wal_frames.get() < before {
        database.run_ok("INSERT INTO t VALUES (1)");
    }
    assert_eq!(database.hooks.wal_frames.get(), before);
    assert!(database.capturing().expect("captured").capture().is_err());
    database.run_err("INSERT INTO t VALUES (1)");
}

#[test]
fn a_long_log_goes_into_the_file_once_captured_and_not_while_a_snapshot_reads_it() {
    let node = Node::with(captured());
    let (mut history, mut states) = (History::new(), States::default());
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    states.ship(&node, &mut database, &mut history);
    let wal = || std::fs::metadata(node.wal("a")).map_or(0, |found| found.len());
    let head = history.progress.head().expect("it was shipped");
    let latched = database.capturing().expect("it is captured").latch();
    let latched = latched.expect("a working disk").expect("all is captured");
    for _ in 0..100 {
        database.run_ok("INSERT INTO t VALUES (randomblob(50000))");
    }
    states.ship(&node, &mut database, &mut history);
    database.end_event().expect("a working disk");
    assert!(wal() > 4 * 1024 * 1024, "the file must not change under the snapshot");
    history.snapshot(head, latched.as_ref());
    drop(latched);
    database.end_event().expect("a working disk");
    assert_eq!(wal(), 0);
    states.check(&history, "after a snapshot of a while ago");
    assert_eq!(history.image(head.at).len(), 2 * PAGE_BYTES);
}

#[test]
fn a_sparse_database_is_written_anew_and_shipped_whole() {
    let node = Node::with(captured());
    let (mut history, mut states) = (History::new(), States::default());
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    for _ in 0..200 {
        database.run_ok("INSERT INTO t VALUES (randomblob(50000))");
    }
    states.ship(&node, &mut database, &mut history);
    assert_eq!(database.capturing().expect("captured").vacuum_if_sparse(), Ok(false));
    database.run_ok("DELETE FROM t WHERE rowid > 20");
    states.ship(&node, &mut database, &mut history);
    assert_eq!(database.capturing().expect("captured").vacuum_if_sparse(), Ok(true));
    let all = history.ship(&mut database).expect("all of it");
    assert!(all.is_whole && all.db_pages < 400, "{}", all.db_pages);
    let head = history.progress.head().expect("it was shipped");
    states.0.push((head, checkpointed(&node.path("a"))));
    database.begin_event(in_30_s());
    database.run_ok("INSERT INTO t VALUES (1)");
    states.ship(&node, &mut database, &mut history);
    states.check(&history, "after a vacuum");
    // What guests may not do is refused as before.
    assert!(is_refused(&database.run_err("VACUUM")));
    assert!(is_refused(&database.run_err("ATTACH 'x' AS y")));
}

#[test]
fn a_file_of_before_is_captured_whole_its_log_included() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.run_ok("INSERT INTO t VALUES (7)");
    Box::new(database).close().expect("a working disk");
    assert!(node.wal("a").exists());
    let Node { databases, directory } = node;
    drop(databases);
    let databases = super::databases(&directory.path().join("data"), captured());
    let node = Node { databases, directory };
    let (mut history, mut states) = (History::new(), States::default());
    let mut database = node.open("a");
    database.capturing().expect("captured").capture_whole();
    states.ship(&node, &mut database, &mut history);
    database.run_ok("INSERT INTO t VALUES (8)");
    states.ship(&node, &mut database, &mut history);
    states.check(&history, "an adopted file");
    assert_eq!(states.0.len(), 2);
}

#[test]
fn with_a_snapshot_older_objects_may_go_and_it_restores_the_same() {
    let node = Node::with(captured());
    let (mut history, mut states) = (History::new(), States::default());
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    for value in 0..6 {
        database.run_ok(&format!("INSERT INTO t VALUES (zeroblob({}))", value * 3000));
        states.ship(&node, &mut database, &mut history);
    }
    let head = history.progress.head().expect("it was shipped");
    let latched = database.capturing().expect("captured").latch();
    history.snapshot(head, latched.expect("a working disk").expect("captured").as_ref());
    history.collect(head);
    assert_eq!(history.objects.len(), 2, "the snapshot and its segment");
    database.run_ok("DELETE FROM t WHERE length(v) > 4000");
    states.ship(&node, &mut database, &mut history);
    let kept = states.0.split_off(5);
    States(kept).check(&history, "after a collection");
}

#[test]
fn a_database_that_is_not_captured_has_nothing_of_this() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    assert!(database.capturing().is_none());
    Box::new(database).close().expect("a working disk");
    assert_eq!(node.databases.trusted(&address("a")), Ok(None));
    assert!(!node.path("a").with_extension("pos").exists());
}
