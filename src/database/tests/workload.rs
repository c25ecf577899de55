//! Random work, compared with a plain SQLite in memory that is never closed, killed or bounded.

use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};
use wasmkeep_supervisors::ports::{Database, SqlValue};

use super::*;

impl Random {
    pub(super) fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.below(among.len() as u64) as usize]
    }
}

pub(super) const SCHEMA: [&str; 6] = [
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b UNIQUE, c CHECK (c IS NULL OR c >= 0))",
    "CREATE TABLE log (n INTEGER PRIMARY KEY, what)",
    "CREATE INDEX i ON t (a, c)",
    "CREATE TRIGGER tr AFTER DELETE ON t BEGIN INSERT INTO log (what) VALUES (OLD.id); END",
    "CREATE VIRTUAL TABLE f USING fts5(body)",
    "CREATE VIRTUAL TABLE r USING rtree(id, low, high)",
];

pub(super) const WRITES: [&str; 14] = [
    "INSERT INTO t (a, b, c) VALUES (?1, ?2, ?1)",
    "INSERT INTO t (a, b) VALUES (?1, ?2) ON CONFLICT (b) DO UPDATE SET a = excluded.a",
    "INSERT OR IGNORE INTO t (id, a, b) VALUES (?1, 'x', ?2)",
    "REPLACE INTO t (id, a, b, c) VALUES (?1, zeroblob(3000), ?2, 1)",
    "UPDATE t SET a = a || 'y', c = ?1 WHERE id % 7 = ?2 % 7",
    "UPDATE t SET c = ?1 - 50 WHERE id = ?2",
    "DELETE FROM t WHERE id = ?1 OR b = ?2",
    "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY id LIMIT ?1 % 4) AND ?2 > 80",
    "INSERT INTO f (rowid, body) VALUES (?1, 'word' || ?2 || ' other word' || ?1 % 10)",
    "DELETE FROM f WHERE rowid = ?1 AND ?2 > 0",
    "INSERT OR REPLACE INTO r VALUES (?1, ?2, ?2 + 1)",
    "INSERT INTO log (what) SELECT a FROM t WHERE c > ?1 AND id < ?2",
    "INSERT INTO t (a, b) SELECT a, b + 1000 + ?1 FROM t WHERE ?2 > 90 LIMIT 3",
    "CREATE INDEX IF NOT EXISTS extra ON t (c) WHERE ?1 IS NULL AND ?2",
];

const READS: [&str; 6] = [
    "SELECT * FROM t ORDER BY id",
    "SELECT count(*), sum(n) FROM log",
    "SELECT a, count(*) FROM t GROUP BY a ORDER BY 1, 2",
    "SELECT rowid, body FROM f WHERE f MATCH 'word1 OR word2' ORDER BY rowid",
    "SELECT id FROM r WHERE low > 40 ORDER BY id",
    "SELECT id, sum(c) OVER (ORDER BY id) FROM t ORDER BY id",
];

/// What a statement did: rows changed, or that it failed.
fn plainly(plain: &Connection, sql: &str, params: [i64; 2]) -> Result<u64, ()> {
    let mut statement = plain.prepare_cached(sql).map_err(drop)?;
    let count = statement.parameter_count();
    statement.execute(rusqlite::params_from_iter(&params[..count])).map(|n| n as u64).map_err(drop)
}

fn plain_rows(plain: &Connection, sql: &str) -> Vec<Vec<SqlValue>> {
    let mut statement = plain.prepare_cached(sql).expect("SQL");
    let width = statement.column_count();
    let mut rows = statement.query([]).expect("rows");
    let mut all = vec![];
    while let Some(row) = rows.next().expect("a row") {
        let value = |column| match row.get_ref(column).expect("a value") {
            ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
            other => match Value::try_from(other).expect("a value") {
                Value::Null => SqlValue::Null,
                Value::Integer(value) => SqlValue::Integer(value),
                Value::Real(value) => SqlValue::Real(value),
                Value::Blob(value) => SqlValue::Blob(value),
                Value::Text(value) => SqlValue::Text(value),
            },
        };
        all.push((0..width).map(value).collect());
    }
    all
}

fn work(seed: u64) {
    let mut random = Random(seed);
    let node = Node::new();
    let mut database = node.open("a");
    let plain = Connection::open_in_memory().expect("a connection");
    for sql in SCHEMA {
        database.run_ok(sql);
        plain.execute_batch(sql).expect(sql);
    }
    let mut done = 0;
    for step in 0..600 {
        match random.below(20) {
            0 => {
                let control = random.pick(&[
                    "BEGIN",
                    "COMMIT",
                    "ROLLBACK",
                    "SAVEPOINT s",
                    "RELEASE s",
                    "ROLLBACK TO s",
                ]);
                let ours = database.exec(control, vec![]).is_ok();
                assert_eq!(ours, plain.execute_batch(control).is_ok(), "{seed}.{step} {control}");
            }
            1 => {
                let was_open = !plain.is_autocommit();
                assert_eq!(database.end_event(), Ok(was_open), "{seed}.{step}");
                if was_open {
                    plain.execute_batch("ROLLBACK").expect("a rollback");
                }
                database.begin_event(in_30_s());
                match random.below(6) {
                    0 => Box::new(database).close().expect("it closes"),
                    1 => drop(database),
                    2 => {
                        database.sync().expect("a working disk");
                        continue;
                    }
                    _ => continue,
                }
                database = node.open("a");
            }
            2 | 3 => {
                let sql = random.pick(&READS);
                assert_eq!(database.rows(sql), plain_rows(&plain, sql), "{seed}.{step} {sql}");
            }
            _ => {
                let sql = random.pick(&WRITES);
                let params = [random.below(100) as i64, random.below(100) as i64];
                let count = if sql.starts_with("CREATE") { 0 } else { 2 };
                let sql = &if count == 0 {
                    sql.replace("?1", "1").replace("?2", "1")
                } else {
                    sql.into()
                };
                let ours = database
                    .exec(sql, params[..count].iter().map(|p| SqlValue::Integer(*p)).collect());
                let theirs = plainly(&plain, sql, params);
                assert_eq!(
                    ours.is_ok(),
                    theirs.is_ok(),
                    "{seed}.{step} {sql} {params:?}: {ours:?}"
                );
                done += u32::from(ours.is_ok());
                if count > 0 && ours.is_ok() {
                    assert_eq!(ours.ok(), theirs.ok(), "{seed}.{step} {sql} {params:?}");
                }
            }
        }
        assert_eq!(database.in_transaction(), !plain.is_autocommit(), "{seed}.{step}");
    }
    for sql in READS {
        assert_eq!(database.rows(sql), plain_rows(&plain, sql), "{seed} {sql}");
    }
    assert_eq!(database.text("PRAGMA integrity_check"), "ok");
    assert!(done > 200, "{seed}: {done}");
}

#[test]
fn random_work_leaves_what_plain_sqlite_has() {
    drop(Node::new());
    for seed in 0..12 {
        work(seed);
    }
}

#[test]
fn many_actors_work_at_once_on_a_runtime() {
    let node = Arc::new(Node::new());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let actors: Vec<_> = (0..8)
        .map(|n| {
            let node = Arc::clone(&node);
            runtime.spawn(async move {
                let name = format!("actor-{n}");
                for round in 0..3 {
                    let mut database = node.open(&name);
                    database.run_ok("CREATE TABLE IF NOT EXISTS t (v)");
                    for _ in 0..40 {
                        database.run_ok("INSERT INTO t VALUES (zeroblob(50000))");
                        tokio::task::yield_now().await;
                    }
                    database.sync().expect("a working disk");
                    database.end_event().expect("a working disk");
                    database.begin_event(in_30_s());
                    assert_eq!(database.integer("SELECT count(*) FROM t"), 40 * (round + 1));
                    Box::new(database).close().expect("a working disk");
                }
            })
        })
        .collect();
    for actor in actors {
        runtime.block_on(actor).expect("no panic");
    }
}
