//! An actor's database: what statements do, what survives, what is refused.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::support::{Actor, Node};

const MIB: usize = 1024 * 1024;

fn exec(sql: &str) -> Json {
    json!({ "op": "exec", "sql": sql })
}

fn durable(sql: &str) -> Json {
    json!({ "op": "exec-durable", "sql": sql })
}

fn query(sql: &str) -> Json {
    json!({ "op": "query", "sql": sql })
}

/// The case of an error of the guest's storage.
#[track_caller]
fn case(result: &Json) -> &str {
    result["error"]["case"].as_str().unwrap_or_else(|| panic!("an error was due: {result}"))
}

#[track_caller]
fn succeed(results: &[Json]) {
    for (at, result) in results.iter().enumerate() {
        assert!(result["error"].is_null(), "step {at}: {result}");
    }
}

/// The rows of `t`, made by an event before.
fn rows_of_t(actor: &Actor) -> Json {
    actor.query("SELECT x FROM t ORDER BY rowid")
}

#[test]
fn statements_say_what_they_changed_and_what_they_found() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let results = actor.steps(json!([
        exec("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)"),
        { "op": "exec", "sql": "INSERT INTO t (x) VALUES (?), (?)", "params": ["one", "two"] },
        exec("UPDATE t SET x = x || '!'"),
        query("SELECT id, x AS what FROM t ORDER BY id"),
        query("INSERT INTO t (x) VALUES ('three') RETURNING id"),
        { "op": "query", "sql": "SELECT count(*) FROM t WHERE id > ?", "params": [1] },
        exec("DELETE FROM t WHERE id = 99"),
        exec("DELETE FROM t"),
        query("SELECT * FROM t"),
    ]));
    let expected = json!([
        { "changed": 0 },
        { "changed": 2 },
        { "changed": 2 },
        { "columns": ["id", "what"], "rows": [[1, "one!"], [2, "two!"]] },
        { "columns": ["id"], "rows": [[3]] },
        { "columns": ["count(*)"], "rows": [[2]] },
        { "changed": 0 },
        { "changed": 3 },
        { "columns": ["id", "x"], "rows": [] },
    ]);
    assert_eq!(json!(results), expected);
}

#[test]
fn values_of_every_type_come_back_as_they_went_in() {
    let node = Node::probe().start();
    let values = json!([
        null, 0, -1, i64::MAX, i64::MIN, 0.5, -1e300, "", "text", "Ω 🦀 é", "a\u{0}b",
        { "blob": "" }, { "blob": "00ff10" },
    ]);
    let count = values.as_array().map_or(0, Vec::len);
    let marks = vec!["?"; count].join(", ");
    let types = "null integer integer integer integer real real text text text text blob blob";
    let results = node.actor("probe/a").steps(json!([
        exec(&format!("CREATE TABLE v (c{})", (1..count).map(|i| format!(", c{i}")).collect::<String>())),
        { "op": "exec", "sql": format!("INSERT INTO v VALUES ({marks})"), "params": values },
        query("SELECT * FROM v"),
        { "op": "query", "sql": format!("SELECT {}", vec!["typeof(?)"; count].join(", ")), "params": values },
        query("SELECT 9e999, -9e999, 2.5, CAST(x'ff' AS TEXT)"),
    ]));
    assert_eq!(results[2]["rows"], json!([values]));
    let types: Vec<&str> = types.split(' ').collect();
    assert_eq!(results[3]["rows"], json!([types]));
    let odd = json!([[{ "real": "inf" }, { "real": "-inf" }, 2.5, { "blob": "ff" }]]);
    assert_eq!(results[4]["rows"], odd);
}

#[test]
fn a_float_without_a_fraction_is_no_integer() {
    let node = Node::probe().start();
    assert_eq!(node.actor("probe/a").query("SELECT 1.0, 1"), json!([[1.0, 1]]));
}

#[test]
fn a_violated_constraint_is_told_by_its_kind() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    succeed(&actor.steps(json!([
        exec("CREATE TABLE p (id INTEGER PRIMARY KEY, u UNIQUE, n NOT NULL, c CHECK (c > 0))"),
        exec("CREATE TABLE f (p REFERENCES p (id))"),
        exec("CREATE TABLE s (n INTEGER) STRICT"),
        exec("INSERT INTO p VALUES (1, 1, 1, 1)"),
    ])));
    for (sql, kind) in [
        ("INSERT INTO p VALUES (2, 1, 1, 1)", "unique"),
        ("INSERT INTO p VALUES (1, 2, 1, 1)", "primary-key"),
        ("INSERT INTO p VALUES (2, 2, NULL, 1)", "not-null"),
        ("INSERT INTO p VALUES (2, 2, 1, 0)", "check"),
        ("INSERT INTO f VALUES (99)", "foreign-key"),
        ("INSERT INTO s VALUES ('no number')", "other"),
    ] {
        let result = actor.one("exec", sql);
        assert_eq!(case(&result), "constraint", "{sql}");
        assert_eq!(result["error"]["kind"], kind, "{sql}: {result}");
    }
}

#[test]
fn what_is_no_single_valid_statement_is_invalid() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    for sql in
        ["SELEC 1", "SELECT * FROM nowhere", "", "-- nothing", "SELECT 1; SELECT 2", "SELECT ?"]
    {
        assert_eq!(case(&actor.one("query", sql)), "invalid", "{sql:?}");
    }
    let one_too_many = json!([{ "op": "query", "sql": "SELECT ?", "params": [1, 2] }]);
    assert_eq!(case(&actor.steps(one_too_many)[0]), "invalid");
    assert_eq!(actor.query("SELECT 1; -- and nothing else"), json!([[1]]));
}

#[test]
fn a_transaction_spans_the_calls_of_one_event() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    succeed(&actor.steps(json!([
        exec("CREATE TABLE t (x)"),
        exec("BEGIN"),
        exec("INSERT INTO t VALUES (1)"),
        exec("INSERT INTO t VALUES (2)"),
        exec("COMMIT"),
        exec("BEGIN"),
        exec("DELETE FROM t"),
        exec("ROLLBACK"),
        exec("SAVEPOINT s"),
        exec("INSERT INTO t VALUES (3)"),
        exec("ROLLBACK TO s"),
        exec("INSERT INTO t VALUES (4)"),
        exec("RELEASE s"),
    ])));
    assert_eq!(rows_of_t(&actor), json!([[1], [2], [4]]));
}

#[test]
fn a_transaction_left_open_is_rolled_back_however_the_event_ends() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    for (path, status) in
        [("/leave-open", 200), ("/error-in-transaction", 409), ("/trap-in-transaction", 500)]
    {
        assert_eq!(actor.get(path).status, status, "{path}");
        assert_eq!(rows_of_t(&actor), json!([]), "after {path}");
    }
    actor.exec("INSERT INTO t VALUES ('kept')");
    assert_eq!(rows_of_t(&actor), json!([["kept"]]));
}

#[test]
fn what_was_committed_before_a_trap_stays() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    actor.exec("INSERT INTO t VALUES (1)");
    actor.get("/trap").refused(500, "trapped", "ran");
    actor.get("/trap-in-transaction").refused(500, "trapped", "ran");
    assert_eq!(rows_of_t(&actor), json!([[1]]));
}

#[test]
fn a_durable_statement_commits_and_within_a_transaction_only_a_commit_is_one() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let results = actor.steps(json!([
        durable("CREATE TABLE t (x)"),
        durable("INSERT INTO t VALUES (1)"),
        exec("BEGIN"),
        durable("INSERT INTO t VALUES (2)"),
        durable("ROLLBACK"),
        exec("INSERT INTO t VALUES (3)"),
        durable("/* done */ COMMIT"),
        exec("BEGIN"),
        exec("INSERT INTO t VALUES (4)"),
        durable("END TRANSACTION"),
    ]));
    assert_eq!(results[1], json!({ "changed": 1 }));
    assert_eq!(case(&results[3]), "not-allowed");
    assert_eq!(case(&results[4]), "not-allowed");
    succeed(&results[5..]);
    assert_eq!(rows_of_t(&actor), json!([[1], [3], [4]]), "what was refused did not run");
}

#[test]
fn query_controls_no_transaction_and_writes_only_with_returning() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    for sql in
        ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "INSERT INTO t VALUES (1)", "DROP TABLE t"]
    {
        assert_eq!(case(&actor.one("query", sql)), "not-allowed", "{sql}");
    }
    assert_eq!(actor.query("INSERT INTO t VALUES (2) RETURNING x"), json!([[2]]));
    assert_eq!(actor.exec("SELECT x FROM t"), 0);
    assert_eq!(rows_of_t(&actor), json!([[2]]));
}

#[test]
fn what_reaches_beyond_the_actors_own_tables_is_not_allowed() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    for sql in [
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO '/tmp/stolen.db'",
        "CREATE TEMP TABLE x (x)",
        "CREATE TEMP VIEW x AS SELECT 1",
        "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END",
        "CREATE TABLE temp.x (x)",
        "SELECT load_extension('x')",
        "CREATE VIRTUAL TABLE x USING dbstat",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA synchronous = OFF",
        "PRAGMA writable_schema = 1",
        "PRAGMA max_page_count = 1000000000",
        "PRAGMA user_version = 7",
        "PRAGMA wal_checkpoint",
        "PRAGMA temp_store_directory = '/'",
        "SELECT * FROM _wk_meta",
        "DELETE FROM _WK_META",
        "DROP TABLE _wk_meta",
        "CREATE TABLE _wk_mine (x)",
        "ALTER TABLE t RENAME TO _wk_meta2",
    ] {
        let result = actor.one("exec", sql);
        assert!(result["error"].is_object(), "{sql}: {result}");
        assert!(["not-allowed", "invalid"].contains(&case(&result)), "{sql}: {result}");
        // What this SQLite was built without is not there to be refused.
        let missing =
            ["load_extension", "dbstat", "_wk_meta2"].iter().any(|name| sql.contains(name));
        assert!(missing || case(&result) == "not-allowed", "{sql}: {result}");
    }
    let made =
        actor.query("SELECT name FROM sqlite_schema WHERE substr(name, 1, 4) <> '_wk_' ORDER BY 1");
    assert_eq!(made, json!([["init_log"], ["t"]]), "nothing refused was done");
}

#[test]
fn full_text_and_spatial_tables_work() {
    let node = Node::probe().start();
    let results = node.actor("probe/a").steps(json!([
        exec("CREATE VIRTUAL TABLE f5 USING fts5 (text)"),
        exec("INSERT INTO f5 VALUES ('a quick fox'), ('a slow snail')"),
        query("SELECT text FROM f5 WHERE f5 MATCH 'fox'"),
        exec("CREATE VIRTUAL TABLE f4 USING fts4 (text)"),
        exec("INSERT INTO f4 VALUES ('a quick fox')"),
        query("SELECT text FROM f4 WHERE f4 MATCH 'qui*'"),
        exec("CREATE VIRTUAL TABLE r USING rtree (id, x0, x1)"),
        exec("INSERT INTO r VALUES (1, 0, 1), (2, 5, 6)"),
        query("SELECT id FROM r WHERE x0 > 2"),
        query("PRAGMA table_info(f5)"),
        query("PRAGMA integrity_check"),
    ]));
    succeed(&results);
    assert_eq!(results[2]["rows"], json!([["a quick fox"]]));
    assert_eq!(results[5]["rows"], json!([["a quick fox"]]));
    assert_eq!(results[8]["rows"], json!([[2]]));
    assert_eq!(results[10]["rows"], json!([["ok"]]));
}

#[test]
fn a_value_or_a_result_over_16_mib_is_over_the_quota() {
    let node = Node::probe().flag("--cpu-budget-ms", "5000").start();
    let actor = node.actor("probe/a");
    let blob = |bytes: usize| json!({ "zeroblob": bytes });
    let results = actor.steps(json!([
        exec("CREATE TABLE t (x)"),
        { "op": "exec", "sql": "INSERT INTO t VALUES (?)", "params": [blob(16 * MIB)] },
        { "op": "exec", "sql": "INSERT INTO t VALUES (?)", "params": [blob(16 * MIB + 1)] },
        query("SELECT length(x) FROM t"),
        exec("DELETE FROM t"),
        { "op": "exec", "sql": "INSERT INTO t VALUES (?), (?)", "params": [blob(6 * MIB), blob(6 * MIB)] },
        query("SELECT x FROM t"),
        query("SELECT x FROM t UNION ALL SELECT x FROM t"),
        query("SELECT 1"),
    ]));
    // A row is its values and a few bytes more, so 16 MiB may or may not fit into one.
    if let Some(error) = results[1]["error"]["case"].as_str() {
        assert_eq!(error, "quota-exceeded");
    }
    assert_eq!(case(&results[2]), "quota-exceeded");
    assert_eq!(results[6]["rows"], json!([[{ "blob-len": 6 * MIB }], [{ "blob-len": 6 * MIB }]]));
    assert_eq!(case(&results[7]), "quota-exceeded");
    assert_eq!(results[8]["rows"], json!([[1]]), "the event goes on after either");
}

#[test]
fn the_sql_of_an_event_shares_one_cpu_budget() {
    let node = Node::probe().flag("--sql-cpu-budget-ms", "200").start();
    let actor = node.actor("probe/a");
    let began = Instant::now();
    let both = actor.get("/spin-sql").json();
    let took = began.elapsed();
    assert_eq!(case(&both["spin"]), "quota-exceeded");
    assert_eq!(case(&both["later"]), "quota-exceeded", "nothing is left for a second statement");
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(4), "{took:?}");
    assert_eq!(actor.query("SELECT 1"), json!([[1]]), "the next event has its own");
}

#[test]
fn an_event_may_write_256_mib() {
    let node = Node::probe().flag("--sql-cpu-budget-ms", "20000").start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    let insert = json!({ "op": "exec", "sql": "INSERT INTO t VALUES (zeroblob(15 << 20))" });
    let remove = exec("DELETE FROM t");
    let steps: Vec<Json> = (0..25).flat_map(|_| [insert.clone(), remove.clone()]).collect();
    let results = actor.steps(json!(steps));
    let refused = results.iter().position(|result| result["error"]["case"] == "quota-exceeded");
    let refused = refused.expect("the limit was passed");
    assert!((20..=36).contains(&refused), "refused at step {refused}: 15 MiB in every other one");
    assert_eq!(actor.exec("INSERT INTO t VALUES (1)"), 1, "the next event may write again");
}

#[test]
fn a_deleted_actor_begins_anew() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    actor.get("/memory").text();
    let results = actor.steps(json!([
        exec("INSERT INTO t VALUES (1)"),
        { "op": "delete-self" },
        query("SELECT x FROM t"),
    ]));
    assert_eq!(results[2]["rows"], json!([[1]]), "it goes at the end of the event");
    assert_eq!(actor.get("/memory").text(), "1", "the instance went too");
    assert_eq!(actor.get("/init").text(), "1", "on-init ran for the new one");
    assert_eq!(case(&actor.one("query", "SELECT x FROM t")), "invalid");
}

#[test]
fn a_durable_delete_is_done_when_it_returns() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    let results = actor.steps(json!([
        exec("BEGIN"),
        { "op": "delete-self-durable" },
        exec("ROLLBACK"),
        query("SELECT count(*) FROM t"),
        { "op": "delete-self-durable" },
        query("SELECT 1"),
        exec("CREATE TABLE t (x)"),
    ]));
    assert_eq!(case(&results[1]), "not-allowed", "not within a transaction");
    assert_eq!(results[3]["rows"], json!([[0]]), "nothing changed by it");
    assert_eq!(results[4], json!({ "deleted": true }));
    assert_eq!(case(&results[5]), "not-allowed");
    assert_eq!(case(&results[6]), "not-allowed");
    assert_eq!(actor.get("/init").text(), "1");
    assert_eq!(case(&actor.one("query", "SELECT x FROM t")), "invalid");
}

#[test]
fn a_deleted_actor_stays_deleted_after_a_crash() {
    let mut node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (x)");
    let done = actor.steps(json!([{ "op": "delete-self-durable" }]));
    assert_eq!(done, [json!({ "deleted": true })]);
    node.kill();
    node.start_again();
    assert_eq!(case(&node.actor("probe/a").one("query", "SELECT x FROM t")), "invalid");
}

#[test]
fn every_name_has_a_database_of_its_own() {
    let mut node = Node::probe().class("second", "guest-probe.wasm").start();
    let (long, longer) = ("x".repeat(255), "x".repeat(256));
    let mut addresses: Vec<String> =
        ["a", "A", "a%20", "%20a", "a.db", "..a", "%C3%A9", "e%CC%81", "%25", "a-wal", "-", "~"]
            .map(|name| format!("probe/{name}"))
            .to_vec();
    addresses.extend([format!("probe/{long}"), format!("probe/{longer}"), "second/a".to_owned()]);
    for address in &addresses {
        let actor = node.actor(address);
        actor.exec("CREATE TABLE t (x)");
        actor.exec(&format!("INSERT INTO t VALUES ('{address}')"));
    }
    node.restart();
    for address in &addresses {
        assert_eq!(rows_of_t(&node.actor(address)), json!([[address]]));
    }
}

#[test]
fn a_damaged_database_is_told_and_left_as_it_is() {
    let mut node = Node::probe().errors_are_fine().start();
    node.actor("probe/a").exec("CREATE TABLE t (x)");
    node.actor("probe/b").exec("CREATE TABLE t (x)");
    node.stop_cleanly();
    let path = node.databases().into_iter().find(|path| path.ends_with("61.db"));
    let path = path.expect("the database of the actor \"a\"");
    let damaged = "this is no database\n".repeat(1000);
    std::fs::write(&path, &damaged).expect("damage a file of the node");
    // What was written last would be read from here, and be whole.
    let _ = std::fs::remove_file(path.with_extension("db-wal"));
    node.start_again();
    for _ in 0..3 {
        node.actor("probe/a").get("/hello").refused(500, "database-unusable", "not-run");
    }
    assert_eq!(rows_of_t(&node.actor("probe/b")), json!([]), "others are unharmed");
    assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), damaged);
    assert!(node.log().contains("61.db"), "the log does not name the file");
}
