use wasmkeep_supervisors::ports::{ConstraintKind, Database, RowSet, SqlError, SqlValue};

use super::*;

fn text(value: &str) -> SqlValue {
    SqlValue::Text(value.into())
}

#[test]
fn every_kind_of_value_comes_back_as_it_went_in() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
    let values = [
        SqlValue::Null,
        SqlValue::Integer(i64::MIN),
        SqlValue::Real(-0.5),
        text(""),
        text("e\u{301}漢\u{1f600}"),
        text("a\0b"),
        SqlValue::Blob(vec![]),
        SqlValue::Blob(vec![0, 255, 0]),
    ];
    for value in &values {
        let insert = "INSERT INTO t (v) VALUES (?)";
        assert_eq!(database.exec(insert, vec![value.clone()]), Ok(1));
    }
    let stored = database.query("SELECT v FROM t ORDER BY id", vec![]).expect("the rows");
    assert_eq!(stored.columns, ["v"]);
    assert_eq!(stored.rows, values.map(|value| vec![value]).to_vec());
    let nan = database.query("SELECT ?", vec![SqlValue::Real(f64::NAN)]).expect("a row");
    assert_eq!(nan.rows, [[SqlValue::Null]]);
}

#[test]
fn text_that_is_not_utf_8_comes_as_a_blob() {
    let node = Node::new();
    let mut database = node.open("a");
    assert_eq!(
        database.rows("SELECT CAST(x'61ff62' AS TEXT)"),
        [[SqlValue::Blob(vec![0x61, 0xff, 0x62])]]
    );
    // Such text reaches the authorizer, error texts and column names too.
    database.rows("SELECT * FROM pragma_table_info(CAST(x'ff' AS TEXT))");
    assert!(matches!(database.run_err("SELECT json(CAST(x'ff' AS TEXT))"), SqlError::Invalid(_)));
    database.run_ok("CREATE TABLE t (a)");
    database.run_ok(
        "CREATE TRIGGER fail BEFORE INSERT ON t \
         BEGIN SELECT RAISE(ABORT, CAST(x'ff' AS TEXT)); END",
    );
    assert!(matches!(
        database.run_err("INSERT INTO t VALUES (1)"),
        SqlError::Constraint { kind: ConstraintKind::Other, .. }
    ));
}

#[test]
fn one_call_runs_one_statement() {
    let node = Node::new();
    let mut database = node.open("a");
    for good in
        ["SELECT 1;", " ;; SELECT 1 ;; -- done", "SELECT 1 /* b */ ; /* open", "\u{feff}SELECT 1"]
    {
        assert_eq!(database.query(good, vec![]).expect(good).rows.len(), 1, "{good}");
    }
    for bad in ["", ";", " -- nothing", "SELECT 1; SELECT 2", "SELECT 1; nonsense", "SELECT 1\0; x"]
    {
        for error in [
            database.query(bad, vec![]).map(drop).expect_err(bad),
            database.exec(bad, vec![]).map(drop).expect_err(bad),
        ] {
            assert!(matches!(error, SqlError::Invalid(_)), "{bad}: {error}");
        }
    }
    // One frame of recursion each would end the process.
    let many = "SELECT 1;".repeat(100_000);
    assert!(matches!(database.run_err(&many), SqlError::Invalid(_)));
    let long = format!("SELECT '{}'", "x".repeat(1024 * 1024));
    assert!(is_quota(&database.run_err(&long)));
    let deep = format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000));
    assert!(matches!(database.run_err(&deep), SqlError::Invalid(_)));
}

#[test]
fn parameters_are_counted() {
    let node = Node::new();
    let mut database = node.open("a");
    let ask = |database: &mut LocalDatabase, sql: &str, count: usize| {
        database.query(sql, vec![SqlValue::Integer(7); count])
    };
    assert!(ask(&mut database, "SELECT ?, ?", 2).is_ok());
    assert!(ask(&mut database, "SELECT ?1, ?1", 1).is_ok());
    assert!(ask(&mut database, "SELECT :a, @b, $c", 3).is_ok());
    for count in [1, 3] {
        let error = ask(&mut database, "SELECT ?, ?", count).expect_err("a wrong count");
        let SqlError::Invalid(why) = error else { panic!("{error}") };
        assert!(why.contains('2') && why.contains(&count.to_string()), "{why}");
    }
    assert!(ask(&mut database, "SELECT ?40000", 1).is_err());
}

#[test]
fn exec_counts_the_rows_its_own_statement_changed() {
    let node = Node::new();
    let mut database = node.open("a");
    let counts = [
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, v)", 0),
        ("INSERT INTO t (v) VALUES (1), (2), (3)", 3),
        ("SELECT * FROM t", 0),
        ("CREATE INDEX i ON t (v)", 0),
        ("UPDATE t SET v = v + 1 WHERE id > 1", 2),
        ("UPDATE t SET v = 0 WHERE id = 99", 0),
        ("BEGIN", 0),
        ("INSERT INTO t (v) VALUES (9) RETURNING id", 1),
        ("COMMIT", 0),
        ("CREATE TABLE log (n)", 0),
        ("CREATE TRIGGER tr AFTER DELETE ON t BEGIN INSERT INTO log VALUES (1), (2); END", 0),
        ("DELETE FROM t WHERE id = 1", 1),
        ("CREATE TABLE copy AS SELECT * FROM t", 0),
        ("CREATE VIEW w AS SELECT * FROM t", 0),
        ("CREATE TRIGGER wi INSTEAD OF INSERT ON w BEGIN INSERT INTO log VALUES (NEW.id); END", 0),
        ("INSERT INTO w (id, v) VALUES (50, 1)", 0),
        ("CREATE VIRTUAL TABLE f USING fts5(x)", 0),
        ("INSERT INTO f VALUES ('a'), ('b')", 2),
        ("DROP TABLE f", 0),
        ("INSERT OR IGNORE INTO t (id) VALUES (2)", 0),
        ("REPLACE INTO t (id, v) VALUES (2, 2)", 1),
        ("DELETE FROM log", 3),
        ("EXPLAIN DELETE FROM t", 0),
        ("ANALYZE", 0),
        ("REINDEX", 0),
        ("DROP TABLE t", 0),
    ];
    for (sql, changed) in counts {
        assert_eq!(database.run_ok(sql), changed, "{sql}");
    }
}

#[test]
fn query_reads_and_writes_with_returning() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
    let inserted = database.query("INSERT INTO t (v) VALUES (1), (2) RETURNING id, v AS w", vec![]);
    let one = SqlValue::Integer(1);
    let two = SqlValue::Integer(2);
    assert_eq!(
        inserted,
        Ok(RowSet {
            columns: vec!["id".into(), "w".into()],
            rows: vec![vec![one.clone(), one], vec![two.clone(), two]],
        })
    );
    assert_eq!(database.rows("UPDATE t SET v = 9 WHERE id = 99 RETURNING id").len(), 0);
    assert_eq!(database.rows("EXPLAIN QUERY PLAN DELETE FROM t WHERE v = 1").len(), 1);
    assert_eq!(database.rows("PRAGMA table_info(t)").len(), 2);
    for sql in [
        "INSERT INTO t (v) VALUES (3)",
        "CREATE TABLE u (a)",
        "DROP TABLE t",
        "BEGIN",
        "SAVEPOINT s",
        "COMMIT",
        "ROLLBACK",
        "END",
        "RELEASE s",
        "ANALYZE",
    ] {
        let error = database.query(sql, vec![]).expect_err(sql);
        assert!(is_refused(&error), "{sql}: {error}");
    }
    // Known from exec, it is refused all the same.
    database.run_ok("BEGIN");
    database.run_ok("ROLLBACK");
    assert!(is_refused(&database.query("BEGIN", vec![]).expect_err("BEGIN in query")));
    assert!(!database.in_transaction());
    assert_eq!(database.integer("SELECT count(*) FROM t"), 2);
}

#[test]
fn a_returning_write_whose_rows_are_too_large_changes_nothing() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
    let large = "INSERT INTO t (v) SELECT zeroblob(10000000) FROM (SELECT 1 UNION SELECT 2) \
                 RETURNING v";
    assert!(is_quota(&database.query(large, vec![]).expect_err("20 MB")));
    assert!(!database.in_transaction());
    assert_eq!(database.integer("SELECT count(*) FROM t"), 0);
    database.run_ok("BEGIN");
    database.run_ok("INSERT INTO t (v) VALUES (1)");
    assert!(is_quota(&database.query(large, vec![]).expect_err("20 MB")));
    assert!(database.in_transaction());
    database.run_ok("COMMIT");
    assert_eq!(database.integer("SELECT count(*) FROM t"), 1);
}

#[test]
fn a_returning_write_keeps_the_constraints() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE p (id INTEGER PRIMARY KEY)");
    database
        .run_ok("CREATE TABLE c (p INTEGER REFERENCES p DEFERRABLE INITIALLY DEFERRED, u UNIQUE)");
    let insert = |database: &mut LocalDatabase, sql: &str| database.query(sql, vec![]);
    let orphan = insert(&mut database, "INSERT INTO c VALUES (1, 1) RETURNING p");
    let kind = |result: Result<RowSet, SqlError>| match result {
        Err(SqlError::Constraint { kind, .. }) => kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(orphan), ConstraintKind::ForeignKey);
    assert!(!database.in_transaction());
    assert_eq!(database.integer("SELECT count(*) FROM c"), 0);
    database.run_ok("BEGIN");
    // Deferred, so it is the COMMIT that fails.
    assert!(insert(&mut database, "INSERT INTO c VALUES (1, 1) RETURNING p").is_ok());
    let twice = insert(&mut database, "INSERT INTO c VALUES (1, 1) RETURNING p");
    assert_eq!(kind(twice), ConstraintKind::Unique);
    assert!(matches!(
        database.run_err("COMMIT"),
        SqlError::Constraint { kind: ConstraintKind::ForeignKey, .. }
    ));
    assert!(database.in_transaction());
    database.run_ok("INSERT INTO p VALUES (1)");
    database.run_ok("COMMIT");
    database.run_ok("BEGIN");
    let gone = insert(&mut database, "INSERT OR ROLLBACK INTO c VALUES (1, 1) RETURNING p");
    let Err(SqlError::Constraint { message, .. }) = gone else { panic!("{gone:?}") };
    assert!(message.contains("rolled back"), "{message}");
    assert!(!database.in_transaction());
}

#[test]
fn constraints_say_their_kind_and_words() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE p (id INTEGER PRIMARY KEY)");
    database.run_ok(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE, n NOT NULL DEFAULT 0, \
         c CHECK (c > 0), f REFERENCES p, i INT)",
    );
    database.run_ok("CREATE TABLE s (i INT) STRICT");
    database.run_ok("CREATE TABLE w (k TEXT PRIMARY KEY) WITHOUT ROWID");
    database.run_ok("INSERT INTO t (id, u) VALUES (1, 1)");
    database.run_ok("INSERT INTO w VALUES ('a')");
    for (sql, kind, words) in [
        ("INSERT INTO t (u) VALUES (1)", ConstraintKind::Unique, "t.u"),
        ("INSERT INTO t (id) VALUES (1)", ConstraintKind::PrimaryKey, "t.id"),
        ("INSERT INTO w VALUES ('a')", ConstraintKind::PrimaryKey, "w.k"),
        ("INSERT INTO t (n) VALUES (NULL)", ConstraintKind::NotNull, "t.n"),
        ("INSERT INTO t (c) VALUES (0)", ConstraintKind::Check, "c > 0"),
        ("INSERT INTO t (f) VALUES (9)", ConstraintKind::ForeignKey, "FOREIGN KEY"),
        ("INSERT INTO s VALUES ('x')", ConstraintKind::Other, "s.i"),
    ] {
        match database.run_err(sql) {
            SqlError::Constraint { kind: found, message } => {
                assert_eq!(found, kind, "{sql}");
                assert!(message.contains(words), "{sql}: {message}");
            }
            other => panic!("{sql}: {other}"),
        }
    }
    assert!(matches!(database.run_err("SELECT * FROM nowhere"), SqlError::Invalid(_)));
    assert!(matches!(database.run_err("SELEKT 1"), SqlError::Invalid(_)));
    assert!(matches!(database.run_err("INSERT INTO t (id) VALUES ('x')"), SqlError::Invalid(_)));
}

#[test]
fn a_transaction_spans_calls_and_ends_with_its_event() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (v)");
    database.run_ok("BEGIN IMMEDIATE");
    database.run_ok("INSERT INTO t VALUES (1)");
    database.run_ok("SAVEPOINT s");
    database.run_ok("INSERT INTO t VALUES (2)");
    database.run_ok("ROLLBACK TO s");
    database.run_ok("COMMIT");
    assert_eq!(database.integer("SELECT sum(v) FROM t"), 1);
    assert_eq!(database.end_event(), Ok(false));
    database.begin_event(in_30_s());
    database.run_ok("BEGIN");
    database.run_ok("DELETE FROM t");
    assert!(database.in_transaction());
    assert_eq!(database.end_event(), Ok(true));
    database.begin_event(in_30_s());
    assert!(!database.in_transaction());
    assert_eq!(database.integer("SELECT count(*) FROM t"), 1);
}

#[test]
fn before_a_sync_a_transaction_takes_only_its_commit() {
    let node = Node::new();
    let mut database = node.open("a");
    assert_eq!(database.exec_before_sync("CREATE TABLE t (v)", vec![]), Ok(0));
    assert_eq!(database.exec_before_sync("INSERT INTO t VALUES (1)", vec![]), Ok(1));
    database.run_ok("BEGIN");
    database.run_ok("SAVEPOINT s");
    for sql in [
        "INSERT INTO t VALUES (2)",
        "SELECT 1",
        "ROLLBACK",
        "RELEASE s",
        "SAVEPOINT u",
        "EXPLAIN COMMIT",
        "COMMIT; SELECT 1",
    ] {
        let error = database.exec_before_sync(sql, vec![]).expect_err(sql);
        let refused = is_refused(&error) || matches!(error, SqlError::Invalid(_));
        assert!(refused, "{sql}: {error}");
        assert!(database.in_transaction(), "{sql}");
    }
    assert_eq!(database.exec_before_sync(" /* all */ END TRANSACTION ;", vec![]), Ok(0));
    assert!(!database.in_transaction());
    assert_eq!(database.integer("SELECT count(*) FROM t"), 1);
}

#[test]
fn a_cached_statement_sees_a_changed_schema() {
    let node = Node::new();
    let mut database = node.open("a");
    database.run_ok("CREATE TABLE t (a)");
    database.run_ok("INSERT INTO t VALUES (1)");
    let all = "SELECT * FROM t";
    assert_eq!(database.query(all, vec![]).expect("rows").columns, ["a"]);
    database.run_ok("ALTER TABLE t ADD COLUMN b DEFAULT 2");
    let again = database.query(all, vec![]).expect("rows");
    assert_eq!(again.columns, ["a", "b"]);
    assert_eq!(again.rows, [[SqlValue::Integer(1), SqlValue::Integer(2)]]);
    database.run_ok("DROP TABLE t");
    assert!(matches!(database.query(all, vec![]), Err(SqlError::Invalid(_))));
    for n in 0..100 {
        database.run_ok(&format!("SELECT {n}"));
    }
}

#[test]
fn values_and_results_have_a_size() {
    let node = Node::new();
    let mut database = node.open("a");
    let mib16 = 16 * 1024 * 1024;
    let largest = SqlValue::Blob(vec![1; mib16]);
    database.run_ok("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
    let insert = "INSERT INTO t (v) VALUES (?)";
    assert_eq!(database.exec(insert, vec![largest]), Ok(1));
    let larger = SqlValue::Blob(vec![1; mib16 + 1]);
    assert!(is_quota(&database.exec(insert, vec![larger]).expect_err("over 16 MiB")));
    assert!(is_quota(&database.run_err("SELECT zeroblob(17000000)")));
    assert!(is_quota(&database.run_err("INSERT INTO t (v) VALUES (zeroblob(17000000))")));
    // A result counts what it takes beside the bytes.
    assert!(is_quota(&database.query("SELECT v FROM t", vec![]).expect_err("16 MiB and more")));
    assert_eq!(database.rows("SELECT substr(v, 1, 16000000) FROM t").len(), 1);
    let nulls = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2200000) \
                 SELECT NULL FROM n";
    // In databases of their own: together they would use up the CPU of one event on a slow machine.
    let mut database = node.open("b");
    assert!(is_quota(&database.query(nulls, vec![]).expect_err("too many values")));
    let mut database = node.open("c");
    assert_eq!(database.run_ok(nulls), 0);
}
