use std::time::Duration;

use wasmkeep_supervisors::ports::{Database, Meta, SqlError, SqlValue};

use super::*;

const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                       SELECT count(*) FROM n";

fn numbers(count: u32) -> String {
    format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count})")
}

fn quota_text(error: SqlError) -> String {
    match error {
        SqlError::QuotaExceeded(text) => text,
        other => panic!("{other}"),
    }
}

fn short_cpu() -> DatabaseConfig {
    DatabaseConfig { sql_cpu_budget: Duration::from_millis(50), ..DatabaseConfig::default() }
}

#[test]
fn sql_past_its_cpu_stops_and_no_more_runs_in_the_event() {
    let node = Node::with(short_cpu());
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    let started = std::time::Instant::now();
    let why = quota_text(database.run_err(ENDLESS));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(why.contains("50ms of CPU"), "{why}");
    for later in ["SELECT 1", "INSERT INTO t VALUES (1)", "BEGIN"] {
        assert!(is_quota(&database.run_err(later)), "{later}");
    }
    assert_eq!(database.end_event(), Ok(false));
    database.begin_event(in_30_s());
    assert_eq!(database.run_ok("INSERT INTO t VALUES (1)"), 1);
}

#[test]
fn cpu_is_counted_over_all_statements_of_an_event() {
    let node = Node::with(short_cpu());
    let mut database = node.open("a");
    let some = format!("{} SELECT count(*) FROM n", numbers(50_000));
    let ran = (0..1_000).take_while(|_| database.exec(&some, vec![]).is_ok()).count();
    assert!((1..200).contains(&ran), "{ran}");
}

#[test]
fn an_interrupted_write_is_undone_and_says_what_became_of_the_transaction() {
    let node = Node::with(short_cpu());
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    let endless = format!("INSERT INTO t {}", ENDLESS.replace("count(*)", "i"));
    assert!(is_quota(&database.run_err(&endless)));
    database.end_event().expect("a whole database");
    database.begin_event(in_30_s());
    assert_eq!(database.integer("SELECT count(*) FROM t"), 0);
    database.run_ok("BEGIN");
    database.run_ok("INSERT INTO t VALUES (1)");
    let why = quota_text(database.run_err(&endless));
    assert!(why.contains("transaction was rolled back"), "{why}");
    assert!(!database.in_transaction());
    assert_eq!(database.end_event(), Ok(false));
    database.begin_event(in_30_s());
    assert_eq!(database.integer("SELECT count(*) FROM t"), 0);
    // A read that is stopped takes nothing with it.
    database.run_ok("BEGIN");
    database.run_ok("INSERT INTO t VALUES (1)");
    let why = quota_text(database.run_err(ENDLESS));
    assert!(!why.contains("rolled back"), "{why}");
    assert!(database.in_transaction());
    assert_eq!(database.end_event(), Ok(true));
}

#[test]
fn sql_ends_with_its_event() {
    let node = Node::new();
    let mut database = node.open("a");
    database.begin_event(Instant::now() + Duration::from_millis(100));
    let why = quota_text(database.run_err(ENDLESS));
    assert!(why.contains("time is over"), "{why}");
    assert!(is_quota(&database.run_err("SELECT 1")));
    database.begin_event(in_30_s());
    database.run_ok("SELECT 1");
}

#[test]
fn an_event_writes_no_more_than_its_budget() {
    let written = 8 * 1024 * 1024;
    let config = DatabaseConfig { event_written_bytes_max: written, ..patient() };
    let node = Node::with(config);
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
    // One statement that passes it is undone.
    let large = format!("{} INSERT INTO t (v) SELECT randomblob(4000) FROM n", numbers(5_000));
    let why = quota_text(database.run_err(&large));
    assert!(why.contains("8 MiB"), "{why}");
    assert_eq!(database.integer("SELECT count(*) FROM t"), 0);
    assert!(is_quota(&database.run_err("INSERT INTO t (v) VALUES (1)")));
    assert!(is_quota(&database.run_err("CREATE TABLE u (a)")));
    database.end_event().expect("a whole database");
    database.begin_event(in_30_s());
    // Many that pass it together: the last one that ran is kept, reads and the end still work.
    database.run_ok("BEGIN");
    let one = "INSERT INTO t (v) VALUES (randomblob(4000))";
    let ran = (0..5_000).take_while(|_| database.exec(one, vec![]).is_ok()).count();
    assert!((1_500..3_500).contains(&ran), "{ran}");
    assert!(database.in_transaction());
    assert!(is_quota(&database.run_err("DELETE FROM t")));
    assert_eq!(database.integer("SELECT count(*) FROM t"), ran as i64);
    database.run_ok("SAVEPOINT s");
    database.run_ok("RELEASE s");
    database.run_ok("COMMIT");
    assert_eq!(database.integer("SELECT count(*) FROM t"), ran as i64);
    database.end_event().expect("a whole database");
    database.begin_event(in_30_s());
    // Rewrites of the same pages count.
    let ran = (0..5_000)
        .take_while(|_| database.exec("UPDATE t SET v = random() WHERE id = 1", vec![]).is_ok())
        .count();
    assert!((1_000..3_000).contains(&ran), "{ran}");
    database.run_ok("BEGIN");
    database.run_ok("ROLLBACK");
}

#[test]
fn memory_of_sql_has_a_bound() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.run_ok("INSERT INTO t VALUES (1)");
    let sort = format!(
        "{} SELECT count(*) FROM (SELECT randomblob(1000000) AS b FROM n ORDER BY b)",
        numbers(2_000)
    );
    let why = quota_text(database.run_err(&sort));
    assert!(why.contains("memory"), "{why}");
    assert_eq!(database.integer("SELECT v FROM t"), 1);
    database.run_ok("BEGIN");
    database.run_ok("INSERT INTO t VALUES (2)");
    let insert = format!("INSERT INTO t {}", sort.replace("count(*)", "length(b)"));
    let why = quota_text(database.run_err(&insert));
    assert!(why.contains("memory"), "{why}");
    let rolled_back = why.contains("rolled back");
    assert_eq!(database.in_transaction(), !rolled_back);
    database.end_event().expect("a whole database");
    database.begin_event(in_30_s());
    assert_eq!(database.integer("SELECT count(*) FROM t"), 1);
    assert_eq!(database.text("PRAGMA integrity_check"), "ok");
}

#[test]
fn a_full_database_still_reads_and_deletes() {
    let bytes = 1024 * 1024;
    let node = Node::with(DatabaseConfig { bytes_max: bytes, ..patient() });
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
    database.run_ok("CREATE TABLE filler (v)");
    let insert = "INSERT INTO t (v) VALUES (randomblob(10000))";
    let ran = (0..200).take_while(|_| database.exec(insert, vec![]).is_ok()).count();
    assert!((60..110).contains(&ran), "{ran}");
    let why = quota_text(database.run_err(insert));
    assert!(why.contains("1 MiB"), "{why}");
    assert_eq!(database.integer("SELECT count(*) FROM t"), ran as i64);
    // The host has room of its own.
    database.set_meta(Meta::InitComponent, Some(&"c".repeat(64))).expect("room for the host");
    assert!(is_quota(&database.run_err(insert)));
    database.run_ok("UPDATE t SET v = 1 WHERE id < 5");
    database.run_ok(insert);
    database.run_ok("DELETE FROM t");
    database.run_ok(insert);
    database.run_ok("DROP TABLE t");
    database.run_ok("CREATE TABLE u (v)");
    // In a transaction the error says when the transaction is gone.
    database.run_ok("BEGIN");
    database.run_ok("INSERT INTO filler VALUES (1)");
    let large = format!("{} INSERT INTO u SELECT randomblob(10000) FROM n", numbers(200));
    let why = quota_text(database.run_err(&large));
    assert_eq!(database.in_transaction(), !why.contains("rolled back"), "{why}");
    database.end_event().expect("a whole database");
    database.begin_event(in_30_s());
    assert_eq!(database.text("PRAGMA integrity_check"), "ok");
}

#[test]
fn the_host_is_not_stopped_by_the_guests_budgets() {
    let node = Node::with(short_cpu());
    let mut database = node.open("a");
    assert!(is_quota(&database.run_err(ENDLESS)));
    database.set_meta(Meta::InitComponent, Some("c")).expect("the host writes");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("c".into())));
    assert_eq!(database.end_event(), Ok(false));
}

#[test]
fn the_statement_cache_is_no_way_round_the_sandbox() {
    let node = Node::new();
    let mut database = node.open("a");
    database.set_meta(Meta::InitComponent, Some("c")).expect("the host writes");
    database.meta(Meta::InitComponent).expect("the host reads");
    for sql in ["SELECT v FROM _wk_meta WHERE k = ?1", "SELECT k, v FROM _wk_meta"] {
        let params = vec![SqlValue::Text("name".into()); sql.matches('?').count()];
        assert!(is_refused(&database.query(sql, params).expect_err(sql)), "{sql}");
    }
}
