//! Whatever a guest's SQL is made of, the host's table, other files and the file's health are out of
//! its reach. `PROPTEST_CASES` says how many scripts are tried.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use wasmkeep_supervisors::ports::{Database, Databases, Meta, SqlError, SqlValue};

use super::*;

/// Where the SQL tries to write.
const STOLEN: &str = "/tmp/wasmkeep-stolen.db";

const COMPONENT: &str = "secret-component";

/// Whole statements with holes: `{n}` a name, `{e}` an expression, `{s}` a statement that selects.
const FORMS: &[&str] = &[
    "SELECT {e} FROM {n}",
    "SELECT * FROM {n}, {n}",
    "SELECT * FROM {n} WHERE {e} UNION ALL {s}",
    "WITH {n} AS ({s}) SELECT * FROM {n}",
    "WITH x AS MATERIALIZED (SELECT * FROM {n}) INSERT INTO {n} SELECT * FROM x",
    "INSERT INTO {n} VALUES ({e}, {e})",
    "INSERT INTO {n} {s}",
    "INSERT INTO {n} VALUES ('component', {e}) ON CONFLICT DO UPDATE SET v = {e}",
    "INSERT INTO {n} ({n}) VALUES ('rebuild')",
    "INSERT INTO {n} ({n}) VALUES ('integrity-check')",
    "REPLACE INTO {n} VALUES ({e}, {e}) RETURNING *",
    "UPDATE {n} SET v = {e}",
    "UPDATE {n} SET a = {e} FROM {n} AS other WHERE {e}",
    "DELETE FROM {n}",
    "DELETE FROM {n} WHERE {e} RETURNING *",
    "DROP TABLE IF EXISTS {n}",
    "DROP VIEW {n}",
    "DROP TRIGGER {n}",
    "DROP INDEX {n}",
    "CREATE TABLE {n} (k, v, a, b)",
    "CREATE TABLE {n} (k PRIMARY KEY, v REFERENCES {n} (k) ON DELETE CASCADE) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS {n} AS {s}",
    "CREATE TABLE {n} (a DEFAULT ({e}), b AS ({e}), CHECK ({e}))",
    "CREATE TEMP TABLE {n} (a)",
    "CREATE TEMPORARY VIEW {n} AS {s}",
    "CREATE TEMP TRIGGER {n} AFTER DELETE ON {n} BEGIN DELETE FROM {n}; END",
    "CREATE VIEW {n} AS {s}",
    "CREATE VIEW {n} (a, b) AS SELECT k, v FROM {n}",
    "CREATE TRIGGER {n} AFTER INSERT ON {n} BEGIN UPDATE {n} SET v = {e}; END",
    "CREATE TRIGGER {n} INSTEAD OF DELETE ON {n} BEGIN {s}; DELETE FROM {n}; END",
    "CREATE INDEX {n} ON {n} (a)",
    "CREATE UNIQUE INDEX {n} ON {n} ({e}) WHERE {e}",
    "CREATE VIRTUAL TABLE {n} USING fts5(k, v, content = {n})",
    "CREATE VIRTUAL TABLE {n} USING fts5(a, content_rowid = {n}, content = '_wk_meta')",
    "CREATE VIRTUAL TABLE {n} USING fts4(content={n}, a)",
    "CREATE VIRTUAL TABLE {n} USING fts3(a, tokenize={n})",
    "CREATE VIRTUAL TABLE {n} USING fts5vocab({n}, 'row')",
    "CREATE VIRTUAL TABLE {n} USING rtree(id, a, b, +c)",
    "CREATE VIRTUAL TABLE {n} USING {n}(a)",
    "CREATE VIRTUAL TABLE {n} USING dbstat",
    "ALTER TABLE {n} RENAME TO {n}",
    "ALTER TABLE {n} RENAME COLUMN a TO {n}",
    "ALTER TABLE {n} ADD COLUMN c DEFAULT ({e})",
    "ALTER TABLE {n} DROP COLUMN v",
    "ATTACH {e} AS {n}",
    "ATTACH DATABASE '/tmp/wasmkeep-stolen.db' AS {n}",
    "DETACH {n}",
    "VACUUM",
    "VACUUM INTO {e}",
    "ANALYZE {n}",
    "REINDEX {n}",
    "PRAGMA {n}",
    "PRAGMA {n} = {e}",
    "PRAGMA {n}({n})",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA {n}.wal_checkpoint(TRUNCATE)",
    "SELECT * FROM pragma_table_info({e})",
    "EXPLAIN {s}",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT {n}",
    "ROLLBACK TO {n}",
    "RELEASE {n}",
];

const NAMES: &[&str] = &[
    "_wk_meta",
    "_WK_Meta",
    "_wk_x",
    "_wk",
    "sqlite_autoindex__wk_meta_1",
    "t",
    "u",
    "f",
    "f_content",
    "f_data",
    "v",
    "k",
    "a",
    "sqlite_schema",
    "sqlite_master",
    "sqlite_temp_schema",
    "sqlite_sequence",
    "sqlite_dbpage",
    "dbstat",
    "pragma_table_list",
    "fts3tokenize",
    "max_page_count",
    "user_version",
    "synchronous",
    "foreign_keys",
    "temp_store",
    "rowid",
];

const SCHEMAS: &[&str] = &["", "", "", "main.", "temp.", "\"main\".", "other."];

const EXPRESSIONS: &[&str] = &[
    "1",
    "NULL",
    "a",
    "v",
    "*",
    "'secret-component'",
    "x'00ff'",
    "'/tmp/wasmkeep-stolen.db'",
    "'file:stolen?mode=memory'",
    "':memory:'",
    "'_wk_meta'",
    "(SELECT v FROM _wk_meta)",
    "(SELECT group_concat(v) FROM \"_wk_meta\")",
    "EXISTS (SELECT 1 FROM main._wk_meta WHERE v LIKE 's%')",
    "load_extension('x')",
    "fts3_tokenizer('simple')",
    "readfile('/etc/passwd')",
    "writefile('stolen', 'x')",
    "edit('x')",
    "zeroblob(100000)",
    "randomblob(5000)",
    "json_group_array(v)",
    "printf('%s', v)",
    "sqlite_compileoption_get(1)",
    "last_insert_rowid()",
];

/// The ways SQLite lets a name be written.
fn quoted(name: &str, quote: usize) -> String {
    match quote {
        0 => format!("\"{name}\""),
        1 => format!("[{name}]"),
        2 => format!("`{name}`"),
        3 => format!("'{name}'"),
        4 => format!("/**/{name}--\n"),
        5 => format!("\u{feff}{name}"),
        6 => name.to_uppercase(),
        _ => name.to_owned(),
    }
}

fn a_name() -> impl Strategy<Value = String> {
    (select(SCHEMAS), select(NAMES), 0..12usize)
        .prop_map(|(schema, name, quote)| format!("{schema}{}", quoted(name, quote)))
}

/// Fills the holes of a form, one after the other.
fn filled(form: &str, names: &[String], expressions: &[&str]) -> String {
    let (mut names, mut expressions) = (names.iter().cycle(), expressions.iter().cycle());
    let mut text = form.replace("{s}", "SELECT {e}, {e} FROM {n}");
    while let Some(at) = text.find('{') {
        let with = match text.get(at..at + 3) {
            Some("{n}") => names.next().expect("a name").as_str(),
            _ => *expressions.next().expect("an expression"),
        };
        text.replace_range(at..at + 3, with);
    }
    text
}

pub(super) fn a_statement() -> impl Strategy<Value = String> {
    let form = (
        select(FORMS),
        proptest::collection::vec(a_name(), 3),
        proptest::collection::vec(select(EXPRESSIONS), 2),
    );
    let form = form.prop_map(|(form, names, expressions)| filled(form, &names, &expressions));
    // Pieces of such statements, in an order nobody meant.
    let pieces = proptest::collection::vec((select(FORMS), a_name(), any::<(u8, u8)>()), 1..4);
    let pieces = pieces.prop_map(|pieces| {
        let cut = |(form, name, (from, to)): &(&str, String, (u8, u8))| {
            let words: Vec<&str> = form.split(' ').collect();
            let from = usize::from(*from) % words.len();
            let to = from + usize::from(*to) % (words.len() - from) + 1;
            filled(&words[from..to].join(" "), std::slice::from_ref(name), EXPRESSIONS)
        };
        pieces.iter().map(cut).collect::<Vec<_>>().join(" ")
    });
    prop_oneof![8 => form, 3 => pieces, 1 => ".{0,40}"]
}

/// The files below a folder. Their contents change, by right, and a WAL comes and goes.
fn files(folder: &Path) -> Vec<String> {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("read a folder") {
            let path = entry.expect("read a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.to_string_lossy().ends_with("-wal") {
                found.push(path.display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// What the host keeps in the file, and how its own table is declared.
fn of_the_host(path: &Path) -> BTreeMap<String, String> {
    let plain = rusqlite::Connection::open(path).expect("a connection");
    let mut read = BTreeMap::new();
    for sql in [
        "SELECT k, v FROM _wk_meta",
        "SELECT name, type || ' ' || ifnull(sql, '') FROM sqlite_schema
         WHERE lower(name) LIKE '%\\_wk\\_%' ESCAPE '\\' OR lower(name) = '_wk'",
    ] {
        let mut statement = plain.prepare(sql).expect("the host's table is there");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        read.extend(rows.expect("it reads").map(|row| row.expect("two texts")));
    }
    read
}

/// What is wrong with the file. A full-text index over a table that is not there, or one whose own
/// tables were written to, is the guest's business.
fn problems(path: &Path) -> Vec<String> {
    let plain = rusqlite::Connection::open(path).expect("a connection");
    let mut check = plain.prepare("PRAGMA integrity_check").expect("a pragma");
    let lines = check.query_map([], |row| row.get::<_, String>(0)).expect("it reads");
    let is_wrong = |line: &String| {
        line != "ok" && !line.contains("inverted index") && !line.to_lowercase().contains("rtree")
    };
    lines.map(|line| line.expect("a text")).filter(is_wrong).collect()
}

fn holds_the_secret(value: &SqlValue) -> bool {
    match value {
        SqlValue::Text(text) => text.contains(COMPONENT),
        SqlValue::Blob(bytes) => {
            bytes.windows(COMPONENT.len()).any(|window| window == COMPONENT.as_bytes())
        }
        _ => false,
    }
}

fn run(database: &mut LocalDatabase, sql: &str) -> Result<(), TestCaseError> {
    let params = vec![SqlValue::Integer(1); sql.matches('?').count()];
    let executed = database.exec(sql, params.clone());
    prop_assert!(!matches!(executed, Err(SqlError::Internal(_))), "{sql}: {executed:?}");
    match database.query(sql, params) {
        // What the script itself says is no secret.
        Ok(found) if !sql.contains(COMPONENT) => {
            let secret = found.rows.iter().flatten().find(|value| holds_the_secret(value));
            prop_assert!(secret.is_none(), "{sql}: {secret:?}");
        }
        Err(SqlError::Internal(why)) => prop_assert!(false, "{sql}: {why}"),
        _ => {}
    }
    Ok(())
}

#[test]
fn no_sql_reaches_beyond_the_guests_own_tables() {
    let node = Node::with(DatabaseConfig {
        sql_cpu_budget: Duration::from_millis(500),
        ..DatabaseConfig::default()
    });
    let defaults = ProptestConfig::default();
    let config = ProptestConfig { cases: defaults.cases * 2, ..defaults };
    let config = ProptestConfig { source_file: Some(file!()), ..config };
    let scripts = proptest::collection::vec(a_statement(), 1..16);
    let ran = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&scripts, |script| {
        ran.set(ran.get() + 1);
        stays_within(&node, &format!("a{}", ran.get()), &script)
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

fn stays_within(node: &Node, name: &str, script: &[String]) -> Result<(), TestCaseError> {
    let mut database = node.open(name);
    database.set_meta(Meta::InitComponent, Some(COMPONENT)).expect("the host writes");
    database.run_ok("CREATE TABLE t (a, v)");
    database.run_ok("INSERT INTO t VALUES ('a', 1)");
    database.run_ok("CREATE VIRTUAL TABLE f USING fts5(a)");
    Box::new(database).close().expect("it closes");
    let host = of_the_host(&node.path(name));
    prop_assert!(host.values().any(|value| value == COMPONENT));

    let mut database = node.open(name);
    let before = files(node.directory.path());
    for sql in script {
        run(&mut database, sql)?;
    }
    prop_assert_eq!(files(node.directory.path()), before);
    database.end_event().expect("a whole database");
    database.begin_event(in_30_s());
    prop_assert_eq!(database.meta(Meta::InitComponent), Ok(Some(COMPONENT.to_owned())));
    Box::new(database).close().expect("it closes");

    prop_assert_eq!(of_the_host(&node.path(name)), host);
    let mut database = node.open(name);
    prop_assert_eq!(database.verify(), Ok(true));
    drop(database);
    let problems = problems(&node.path(name));
    prop_assert!(problems.is_empty(), "{problems:?}");
    let stolen = [STOLEN, "stolen"].iter().any(|path| Path::new(path).exists());
    prop_assert!(!stolen);
    node.databases.remove(&address(name)).expect("it goes");
    Ok(())
}
