//! Every form of SQL the sandbox is about, on a real connection.

use wasmkeep_supervisors::ports::{Database, Meta, SqlError, SqlValue};

use super::super::sandbox::host_name_in;
use super::*;

/// In this order, on one database.
const ALLOWED: &[&str] = &[
    "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b INT DEFAULT (1 + 1))",
    "CREATE TABLE main.child (id INTEGER PRIMARY KEY, t REFERENCES t (id) ON DELETE CASCADE)",
    "CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID",
    "CREATE TABLE s (i INT) STRICT",
    "CREATE TABLE g (a, b AS (a * 2), c AS (a * 3) STORED)",
    "CREATE TABLE copy AS SELECT 1 AS x, 'y' AS y",
    "CREATE TABLE wk_meta (a)",
    "CREATE TABLE my_wk_table (a DEFAULT 'x_wk_y')",
    "CREATE TABLE dynamic (a, b)",
    "CREATE INDEX i ON t (a)",
    "CREATE UNIQUE INDEX ie ON t (lower(a), b) WHERE b > 5",
    "CREATE VIEW v AS SELECT a, b FROM t WHERE b > 0",
    "CREATE TRIGGER tr AFTER INSERT ON t WHEN NEW.b > 9 BEGIN INSERT INTO copy VALUES (NEW.b, NEW.a); END",
    "CREATE TRIGGER vi INSTEAD OF INSERT ON v BEGIN INSERT INTO t (a, b) VALUES (NEW.a, NEW.b); END",
    "INSERT INTO t (a, b) VALUES ('one', 10), ('two', 2)",
    "INSERT INTO v (a, b) VALUES ('three', 3)",
    "INSERT INTO child (t) SELECT id FROM t",
    "INSERT INTO w VALUES ('k', 1) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
    "REPLACE INTO w VALUES ('k', 2)",
    "UPDATE t SET b = b + 1 FROM w WHERE w.v = 2",
    "DELETE FROM t WHERE id = (SELECT max(id) FROM t)",
    "SELECT * FROM t JOIN child ON child.t = t.id LEFT JOIN w ON 1",
    "SELECT count(*), sum(b) OVER (ORDER BY id) FROM t",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10) SELECT * FROM n",
    "SELECT * FROM json_each('[1, 2]'), json_tree('{\"a\": 1}')",
    "SELECT json_object('a', 1) ->> '$.a', jsonb('[1]')",
    "SELECT printf('%d', 1), date('now'), random(), randomblob(4), hex(zeroblob(4)), sqlite_version()",
    "SELECT last_insert_rowid(), changes(), total_changes()",
    "SELECT name, sql FROM sqlite_schema",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_sequence",
    "ALTER TABLE t ADD COLUMN c",
    "ALTER TABLE t RENAME COLUMN c TO d",
    "ALTER TABLE t DROP COLUMN d",
    "ALTER TABLE dynamic RENAME TO renamed",
    "CREATE VIRTUAL TABLE f5 USING fts5(title, body, tokenize = 'porter unicode61', prefix = '2 3')",
    "INSERT INTO f5 VALUES ('hello world', 'a body'), ('bye', 'world')",
    "SELECT highlight(f5, 0, '<', '>'), bm25(f5), snippet(f5, 1, '', '', '', 5) FROM f5 WHERE f5 MATCH 'world' ORDER BY rank",
    "INSERT INTO f5 (f5) VALUES ('optimize')",
    "INSERT INTO f5 (f5, rank) VALUES ('integrity-check', 1)",
    "DELETE FROM f5 WHERE rowid = 1",
    "CREATE VIRTUAL TABLE fe USING fts5(a, content = 't', content_rowid = 'id')",
    "INSERT INTO fe (fe) VALUES ('rebuild')",
    "SELECT * FROM fe WHERE fe MATCH 'one OR two'",
    "CREATE VIRTUAL TABLE trigram USING fts5(a, tokenize = 'trigram')",
    "CREATE VIRTUAL TABLE f4 USING fts4(a, tokenize = porter)",
    "INSERT INTO f4 VALUES ('running water')",
    "SELECT snippet(f4), offsets(f4), matchinfo(f4) FROM f4 WHERE f4 MATCH 'run'",
    "INSERT INTO f4 (f4) VALUES ('optimize')",
    "CREATE VIRTUAL TABLE f3 USING fts3(a)",
    "CREATE VIRTUAL TABLE r USING rtree(id, minx, maxx, +note)",
    "INSERT INTO r VALUES (1, 0, 1, 'n')",
    "SELECT * FROM r WHERE minx >= 0 AND maxx <= 2",
    "CREATE VIRTUAL TABLE ri USING rtree_i32(id, minx, maxx)",
    "SELECT rtreecheck('r')",
    "ANALYZE",
    "ANALYZE t",
    "SELECT * FROM sqlite_stat1",
    "REINDEX",
    "REINDEX t",
    "REINDEX i",
    "PRAGMA page_count",
    "PRAGMA main.page_count",
    "PRAGMA user_version",
    "PRAGMA foreign_keys",
    "PRAGMA table_info(t)",
    "PRAGMA TABLE_INFO = t",
    "PRAGMA index_list('t')",
    "PRAGMA table_list",
    "PRAGMA foreign_key_check",
    "PRAGMA quick_check",
    "PRAGMA integrity_check",
    "SELECT * FROM pragma_table_info('t')",
    "SELECT m.name, p.name FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS p WHERE m.name = 't'",
    "SELECT * FROM pragma_table_list",
    "EXPLAIN SELECT * FROM t",
    "EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 'x'",
    "BEGIN",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "RELEASE s",
    "COMMIT",
    "BEGIN EXCLUSIVE",
    "ROLLBACK",
    "DROP TRIGGER tr",
    "DROP VIEW v",
    "DROP INDEX i",
    "DROP TABLE f5",
    "DROP TABLE f4",
    "DROP TABLE r",
    "DROP TABLE child",
    "DROP TABLE t",
];

/// What the sandbox refuses.
const REFUSED: &[&str] = &[
    // Another database.
    "ATTACH ':memory:' AS other",
    "ATTACH '/tmp/x.db' AS other",
    "ATTACH ?1 AS other",
    "DETACH main",
    "VACUUM",
    "VACUUM main",
    "VACUUM INTO '/tmp/x.db'",
    // Anything temporary.
    "CREATE TEMP TABLE x (a)",
    "CREATE TEMPORARY TABLE x AS SELECT 1",
    "CREATE TABLE temp.x (a)",
    "CREATE TEMP VIEW x AS SELECT 1",
    "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE temp.x USING fts5(a)",
    "DROP TABLE temp.x_not_there",
    // Pragmas that change something, reach files, or are not known.
    "PRAGMA journal_mode",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA user_version = 5",
    "PRAGMA user_version(5)",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA defer_foreign_keys = ON",
    "PRAGMA writable_schema = ON",
    "PRAGMA trusted_schema = ON",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = NORMAL",
    "PRAGMA max_page_count = 1000000000",
    "PRAGMA main.max_page_count = 1000000000",
    "PRAGMA cache_size = 100000",
    "PRAGMA cache_spill = 0",
    "PRAGMA mmap_size = 100000000",
    "PRAGMA temp_store = FILE",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA data_store_directory = '/tmp'",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA wal_autocheckpoint = 1",
    "PRAGMA encoding = 'UTF-16'",
    "PRAGMA page_size = 512",
    "PRAGMA auto_vacuum = FULL",
    "PRAGMA incremental_vacuum",
    "PRAGMA secure_delete = ON",
    "PRAGMA query_only = ON",
    "PRAGMA recursive_triggers = ON",
    "PRAGMA legacy_alter_table = ON",
    "PRAGMA case_sensitive_like = ON",
    "PRAGMA count_changes = ON",
    "PRAGMA reverse_unordered_selects = ON",
    "PRAGMA hard_heap_limit = 1",
    "PRAGMA soft_heap_limit = 1",
    "PRAGMA busy_timeout = 1",
    "PRAGMA threads = 8",
    "PRAGMA shrink_memory",
    "PRAGMA optimize",
    "PRAGMA analysis_limit = 1",
    "PRAGMA schema_version = 1",
    "PRAGMA application_id = 1",
    "PRAGMA database_list",
    "PRAGMA compile_options",
    "PRAGMA function_list",
    "PRAGMA module_list",
    "PRAGMA lock_status",
    "PRAGMA integrity_check(t)",
    "PRAGMA temp.table_info(t)",
    "PRAGMA table_info",
    "SELECT * FROM pragma_journal_mode",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_integrity_check('t')",
    "SELECT * FROM pragma_table_info('t', 'temp')",
    // Modules and functions that are not SQL.
    "CREATE VIRTUAL TABLE x USING fts5vocab('f', 'row')",
    "CREATE VIRTUAL TABLE x USING fts4aux(f)",
    "CREATE VIRTUAL TABLE x USING fts3tokenize('simple')",
    "SELECT * FROM fts3tokenize('a b')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts3_tokenizer('simple', x'0000000000000000')",
    "SELECT sqlite_log(1, 'x')",
    // The host's names.
    "SELECT * FROM _wk_meta",
    "SELECT 1 FROM _wk_meta",
    "SELECT count(*) FROM _wk_meta",
    "SELECT count(*) FROM main._WK_META",
    "SELECT * FROM \"_wk_meta\" LIMIT 0",
    "SELECT EXISTS (SELECT 1 FROM _wk_meta)",
    "SELECT t.a FROM t NATURAL JOIN _wk_meta",
    "WITH x AS (SELECT v FROM _wk_meta) SELECT * FROM x",
    "SELECT * FROM t WHERE a IN _wk_meta",
    "EXPLAIN SELECT * FROM _wk_meta",
    "INSERT INTO _wk_meta VALUES ('a', 'b')",
    "REPLACE INTO _wk_meta VALUES ('name', 'other')",
    "UPDATE _wk_meta SET v = 'x'",
    "DELETE FROM _wk_meta",
    "DELETE FROM _wk_meta WHERE 0",
    "INSERT INTO t (a) SELECT v FROM _wk_meta",
    "UPDATE t SET a = m.v FROM _wk_meta AS m",
    "DROP TABLE _wk_meta",
    "DROP TABLE IF EXISTS _wk_meta",
    "ALTER TABLE _wk_meta RENAME TO mine",
    "ALTER TABLE _wk_meta ADD COLUMN x",
    "ALTER TABLE _wk_meta RENAME COLUMN v TO w",
    "ALTER TABLE _wk_meta DROP COLUMN v",
    "CREATE INDEX x ON _wk_meta (v)",
    "CREATE TRIGGER x AFTER INSERT ON _wk_meta BEGIN DELETE FROM t; END",
    "CREATE TABLE x AS SELECT * FROM _wk_meta",
    "CREATE VIEW x AS SELECT * FROM _wk_meta",
    "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM _wk_meta; END",
    "CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO t (a) SELECT v FROM _wk_meta; END",
    "CREATE TABLE x (a REFERENCES _wk_meta)",
    "CREATE TABLE x (a, FOREIGN KEY (a) REFERENCES [_Wk_meta] (k) ON DELETE RESTRICT)",
    "CREATE VIRTUAL TABLE x USING fts5(k, v, content = '_wk_meta')",
    "CREATE VIRTUAL TABLE x USING fts5(k, v, content='_wk_meta', content_rowid=k)",
    "CREATE VIRTUAL TABLE x USING fts4(content=\"_wk_meta\", k, v)",
    "CREATE TABLE _wk_mine (a)",
    "CREATE TABLE _WK_MINE (a)",
    "CREATE TABLE IF NOT EXISTS _wk_meta (a)",
    "CREATE TABLE \"_wk_mine\" AS SELECT 1",
    "CREATE VIEW _wk_mine AS SELECT 1",
    "CREATE INDEX _wk_mine ON t (a)",
    "CREATE TRIGGER _wk_mine AFTER INSERT ON t BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE _wk_mine USING fts5(a)",
    "CREATE VIRTUAL TABLE _wk USING fts5(a)",
    "ALTER TABLE t RENAME TO _wk_mine",
    "ALTER TABLE t RENAME TO \"_WK_mine\"",
    "ALTER TABLE f RENAME TO _wk",
    "ALTER TABLE f RENAME TO '_WK'",
    // A byte order mark is a blank.
    "ALTER TABLE t RENAME TO \u{feff}_wk_mine",
    "CREATE TABLE x (a REFERENCES \u{feff}_wk_meta (k))",
    "CREATE VIEW x AS SELECT * FROM \u{feff}_wk_meta",
    "PRAGMA table_info(_wk_meta)",
    "PRAGMA table_xinfo('_wk_meta')",
    "PRAGMA index_list(_wk_meta)",
    "PRAGMA index_info(sqlite_autoindex__wk_meta_1)",
    "PRAGMA foreign_key_list(_wk_meta)",
    "SELECT * FROM pragma_table_info('_wk_meta')",
    "SELECT p.* FROM sqlite_schema AS m, pragma_index_list(m.name) AS p WHERE m.type = 'table'",
];

/// What SQLite itself refuses, or does not know.
const IMPOSSIBLE: &[&str] = &[
    "INSERT INTO sqlite_schema VALUES ('table', 'x', 'x', 0, 'CREATE TABLE x (a)')",
    "UPDATE sqlite_schema SET sql = 'x'",
    "DELETE FROM sqlite_master",
    "DROP TABLE sqlite_schema",
    "CREATE TABLE sqlite_mine (a)",
    "INSERT INTO f_data VALUES (1, x'00')",
    "UPDATE f_content SET c0 = 'x'",
    "DELETE FROM f_config",
    "DROP TABLE f_idx",
    "SELECT load_extension('/tmp/x.so')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'x')",
    "SELECT edit('x')",
    "SELECT * FROM generate_series(1, 3)",
    "SELECT * FROM dbstat",
    "SELECT * FROM sqlite_dbpage",
    "SELECT * FROM bytecode('SELECT 1')",
    "SELECT * FROM fsdir('/')",
    "SELECT * FROM zipfile('/tmp/x')",
    "CREATE VIRTUAL TABLE x USING dbstat",
    "CREATE VIRTUAL TABLE x USING csv(filename = '/etc/passwd')",
    "SELECT sqlite_offset(a) FROM t",
    "SELECT \"no such column\" FROM t",
    "SELECT sqlite_rename_table('main', 'table', 't', 'CREATE TABLE t (a)', 't', 'u', 0)",
    "SELECT * FROM pragma_user_version('5')",
    "SELECT * FROM f WHERE rtree MATCH 'x'",
];

fn with_tables(node: &Node) -> LocalDatabase {
    let mut database = node.open("secret-name");
    database.set_meta(Meta::InitComponent, Some("secret-component")).expect("the host writes");
    database.run_ok("CREATE TABLE t (a, b)");
    database.run_ok("INSERT INTO t VALUES ('a', 1)");
    database.run_ok("CREATE VIRTUAL TABLE f USING fts5(a)");
    database
}

#[test]
fn ordinary_sql_is_allowed() {
    let node = Node::new();
    let mut database = node.open("a");
    database.set_meta(Meta::InitComponent, Some("c")).expect("the host writes");
    for sql in ALLOWED {
        database.run_ok(sql);
    }
    assert_eq!(database.end_event(), Ok(false));
    Box::new(database).close().expect("it closes");
    let mut database = node.open("a");
    assert_eq!(database.text("PRAGMA integrity_check"), "ok");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("c".into())));
}

#[test]
fn what_reaches_beyond_the_guests_tables_is_refused_with_the_reason() {
    let node = Node::new();
    let mut database = with_tables(&node);
    let schema = database.rows("SELECT * FROM sqlite_schema ORDER BY name");
    let mut failed = vec![];
    for sql in REFUSED {
        let params = vec![SqlValue::Null; sql.matches('?').count()];
        for transaction in [false, true] {
            if transaction {
                database.run_ok("BEGIN");
            }
            match database.exec(sql, params.clone()) {
                Err(SqlError::NotAllowed(why)) => {
                    assert!(why.len() > 20 && !why.contains("not authorized"), "{sql}: {why}");
                }
                // SQLite looks at some before it asks.
                Err(SqlError::Invalid(why))
                    if why.contains("no such table: temp.")
                        || why.contains("from within a transaction") => {}
                other => failed.push(format!("{sql}: {other:?}")),
            }
            if database.in_transaction() {
                database.run_ok("ROLLBACK");
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    unchanged(&mut database, &schema);
}

#[test]
fn what_sqlite_does_not_know_here_stays_unknown() {
    let node = Node::new();
    let mut database = with_tables(&node);
    let schema = database.rows("SELECT * FROM sqlite_schema ORDER BY name");
    for sql in IMPOSSIBLE {
        let error = database.run_err(sql);
        assert!(matches!(error, SqlError::Invalid(_) | SqlError::NotAllowed(_)), "{sql}: {error}");
    }
    unchanged(&mut database, &schema);
}

fn unchanged(database: &mut LocalDatabase, schema: &[Vec<SqlValue>]) {
    assert_eq!(database.rows("SELECT * FROM sqlite_schema ORDER BY name"), schema);
    assert_eq!(database.rows("SELECT * FROM t").len(), 1);
    assert_eq!(database.text("PRAGMA integrity_check"), "ok");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("secret-component".into())));
    assert!(database.usable().is_ok());
}

/// Whatever a guest can read holds nothing of the host's rows.
#[test]
fn no_table_a_guest_can_read_holds_the_hosts_rows() {
    let node = Node::new();
    let mut database = with_tables(&node);
    for sql in [
        "ANALYZE",
        "ANALYZE _wk_meta",
        "ANALYZE main",
        "REINDEX",
        "REINDEX nocase",
        "REINDEX _wk_meta",
        "REINDEX sqlite_autoindex__wk_meta_1",
        "INSERT INTO f (f) VALUES ('optimize')",
    ] {
        let _ = database.exec(sql, vec![]);
    }
    let tables = database.rows("SELECT name FROM sqlite_schema WHERE type = 'table'");
    let mut read = 0;
    for row in tables {
        let [SqlValue::Text(table)] = row.as_slice() else { panic!("{row:?}") };
        let Ok(all) = database.query(&format!("SELECT * FROM \"{table}\""), vec![]) else {
            assert_eq!(table, "_wk_meta");
            continue;
        };
        read += 1;
        let bytes = format!("{:?}", all.rows);
        let secret = bytes.contains("secret") || bytes.contains("115, 101, 99, 114, 101, 116");
        assert!(!secret, "{table}: {bytes}");
    }
    assert!(read > 5, "{read}");
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("secret-component".into())));
}

/// A file whose schema was made elsewhere can hold what no guest could have created.
#[test]
fn views_and_triggers_over_the_hosts_table_do_not_help() {
    let node = Node::new();
    Box::new(with_tables(&node)).close().expect("it closes");
    let plain = rusqlite::Connection::open(node.path("secret-name")).expect("a connection");
    plain
        .execute_batch(
            "CREATE VIEW v AS SELECT * FROM _wk_meta;
             CREATE TRIGGER tr AFTER INSERT ON t BEGIN DELETE FROM _wk_meta; END;
             CREATE TABLE child (k REFERENCES _wk_meta (k));
             CREATE VIRTUAL TABLE fx USING fts5(k, content = '_wk_meta', content_rowid = 'v');
             PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .expect("the schema");
    drop(plain);
    let mut database = node.open("secret-name");
    for sql in [
        "SELECT * FROM v",
        "SELECT count(*) FROM v",
        "INSERT INTO t VALUES (1, 2)",
        "INSERT INTO child VALUES ('name')",
        "INSERT INTO fx (fx) VALUES ('rebuild')",
    ] {
        let error = database.run_err(sql);
        assert!(is_refused(&error), "{sql}: {error}");
    }
    assert_eq!(database.meta(Meta::InitComponent), Ok(Some("secret-component".into())));
}

#[test]
fn host_names_are_found_in_the_text() {
    for (sql, name) in [
        ("ALTER TABLE t RENAME TO _wk_a", Some("_wk_a")),
        ("ALTER TABLE t RENAME TO\"_WK_a b\"", Some("_WK_a")),
        ("_wk_", Some("_wk_")),
        ("ALTER TABLE f RENAME TO [_wk]", Some("_wk")),
        ("ALTER TABLE f RENAME TO _wk", Some("_wk")),
        ("ALTER TABLE f RENAME TO \u{feff}_wk_a", Some("_wk_a")),
        ("CREATE TABLE _wkx (a_wk)", None),
        ("CREATE TABLE my_wk_a (é_wk_b, x_wk_c)", None),
        ("CREATE TABLE a (b DEFAULT 'wk_')", None),
        ("é _wk_ü", Some("_wk_ü")),
    ] {
        assert_eq!(host_name_in(sql), name, "{sql}");
    }
}
