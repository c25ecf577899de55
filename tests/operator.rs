//! What an operator asks about the actors of one node, whether it runs or not.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value as Json, json};

use crate::support::{DONE, Node, eventually, in_parallel, wasmkeep};

/// Composed, and as a letter with a mark: two names.
const NFC: &str = "caf\u{e9}";
const NFD: &str = "cafe\u{301}";

/// `wasmkeep actor …` on the data of this node.
fn command(node: &Node, arguments: &[&str]) -> Command {
    let mut command = wasmkeep();
    command.arg("actor").args(arguments).arg("--data-dir").arg(node.data_dir());
    command
}

fn run(node: &Node, arguments: &[&str]) -> Output {
    command(node, arguments).output().expect("run wasmkeep")
}

/// What it prints; it must succeed.
#[track_caller]
fn prints(node: &Node, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = run(node, arguments);
    assert_eq!(status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("UTF-8")
}

/// What it says on standard error; it must end with this code.
#[track_caller]
fn ends(node: &Node, arguments: &[&str], code: i32) -> String {
    let Output { status, stderr, .. } = run(node, arguments);
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

#[track_caller]
fn json_lines(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[track_caller]
fn listed(node: &Node, filters: &[&str]) -> Vec<String> {
    let lines = json_lines(&prints(node, &[&["list", "--json"], filters].concat()));
    lines.iter().map(|line| line["name"].as_str().expect("a name").to_owned()).collect()
}

/// Runs `check` on a running node, on one that was stopped, and on one that was killed and so left
/// logs to be recovered.
fn in_every_state(make: impl Fn() -> Node, check: impl Fn(&Node)) {
    let mut node = make();
    check(&node);
    node.stop_cleanly();
    check(&node);
    let mut node = make();
    node.kill();
    check(&node);
    check(&node);
    // The commands left nothing that a server minds.
    node.start_again();
    check(&node);
}

fn percent_encoded(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A plain SQLite, as anybody has it.
fn open(file: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(file, flags).expect("any SQLite opens it")
}

#[test]
fn actors_of_any_name_are_listed_shown_and_read() {
    let longest = "ü".repeat(128);
    let longer = format!("{}a", "x".repeat(100));
    let names = ["a", "room 1", "100%", "a%41", "a\\b", "-", NFC, NFD, &longer, &longest];
    let make = || {
        let node = Node::probe().start();
        for (at, name) in names.iter().enumerate() {
            let actor = node.actor(&format!("probe/{}", percent_encoded(name)));
            actor.exec("CREATE TABLE t (n)");
            actor.exec(&format!("INSERT INTO t VALUES ({at})"));
        }
        node
    };
    in_every_state(make, |node| {
        let mut sorted = names;
        sorted.sort_unstable();
        assert_eq!(listed(node, &[]), sorted);
        for (at, name) in names.iter().enumerate() {
            let address = format!("probe/{name}");
            let rows = prints(node, &["sql", &address, "SELECT n FROM t", "--format", "json"]);
            assert_eq!(json_lines(&rows), [json!({ "n": at })]);
            let facts = json_lines(&prints(node, &["show", &address, "--json"])).remove(0);
            assert_eq!(facts["name"], *name);
            assert_eq!(facts["exists"], true);
            // The probe's own table, and that of this test.
            assert_eq!(facts["tables"], 2, "{facts}");
        }
    });
}

#[test]
fn a_name_that_turns_the_writing_around_is_escaped() {
    let node = Node::probe().start();
    let name = "a\u{202e}b";
    node.actor(&format!("probe/{}", percent_encoded(name))).get("/hello").text();
    let text = prints(&node, &["list"]);
    assert!(text.contains("probe/a\\u{202e}b") && !text.contains('\u{202e}'), "{text}");
    let text = prints(&node, &["list", "--json"]);
    assert!(!text.contains('\u{202e}'), "{text}");
    assert_eq!(json_lines(&text)[0]["name"], name);
}

#[test]
fn a_list_has_sizes_and_filters() {
    let make = || {
        let node = Node::probe().class("other", "guest-probe.wasm").start();
        let big = node.actor("probe/big");
        big.exec("CREATE TABLE t (b)");
        big.exec("INSERT INTO t VALUES (zeroblob(300000))");
        node.actor("probe/bare").get("/hello").text();
        node.actor("probe/later").post("/alarm?in=3600000", "").text();
        node.actor("other/nostore").get("/hello").text();
        node
    };
    in_every_state(make, |node| {
        assert_eq!(listed(node, &[]), ["nostore", "bare", "big", "later"]);
        assert_eq!(listed(node, &["--class", "probe"]), ["bare", "big", "later"]);
        assert_eq!(listed(node, &["--prefix", "b"]), ["bare", "big"]);
        assert_eq!(listed(node, &["--min-size", "256k"]), ["big"]);
        assert_eq!(listed(node, &["--with-alarm"]), ["later"]);
        assert_eq!(listed(node, &["--limit", "2"]), ["nostore", "bare"]);
        assert_eq!(listed(node, &["--limit", "0"]), [""; 0]);
        assert_eq!(listed(node, &["--class", "unknown"]), [""; 0]);
        assert_eq!(listed(node, &["--app", "another"]), [""; 0]);
        let lines = json_lines(&prints(node, &["list", "--json"]));
        assert_eq!(lines[0]["has_file"], false);
        assert_eq!(lines[0]["database_bytes"], 0);
        let size = |line: &Json, what: &str| line[what].as_u64().expect("a size");
        let big = size(&lines[2], "database_bytes") + size(&lines[2], "wal_bytes");
        assert!((300_000..2_000_000).contains(&big), "{}", lines[2]);
        assert!(lines[3]["alarm_ms"].as_u64().is_some_and(|ms| ms > 1_700_000_000_000));
        let text = prints(node, &["list", "--limit", "1"]);
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("other/nostore")), "{text}");
        let more = ends(node, &["list", "--limit", "3"], 0);
        assert!(more.contains("--limit"), "{more}");
        assert!(!ends(node, &["list", "--limit", "4"], 0).contains("--limit"));
    });
}

#[test]
fn show_says_what_the_next_event_meets() {
    let mut node = Node::probe().flag("--idle-timeout-secs", "1").start();
    node.actor("probe/a").get("/hello").text();
    let show = |node: &Node, address: &str| -> Json {
        let text = prints(node, &["show", address, "--json"]);
        json_lines(&text).remove(0)
    };
    let facts = show(&node, "probe/a");
    assert_eq!(facts["node"]["resident"], true, "{facts}");
    assert_eq!(facts["initialised_by"], facts["node"]["component"]);
    assert_eq!(facts["next_event"], json!(["its handler runs"]));
    eventually("it sleeps", || node.metric("wasmkeep_resident_actors", &[]) == 0.0);
    assert_eq!(
        show(&node, "probe/a")["next_event"],
        json!(["wakes the actor, and its handler runs"])
    );

    node.actor("probe/badinit").get("/hello").refused(500, "init-failed", "ran");
    let met = show(&node, "probe/badinit")["next_event"].to_string();
    assert!(met.contains("on-init runs first"), "{met}");

    node.actor("probe/badalarm").post("/alarm?in=0", "").text();
    eventually("attempts of its alarm fail", || {
        show(&node, "probe/badalarm")["failed_attempts"].as_u64() > Some(0)
    });
    let text = prints(&node, &["show", "probe/badalarm"]);
    assert!(text.contains("failed") && text.contains(" ms): attempt "), "{text}");

    node.stop_cleanly();
    let facts = show(&node, "probe/badalarm");
    assert_eq!(facts["next_event"], json!(["no node runs on this data directory"]));
    assert!(facts["failed_attempts"].as_u64() > Some(0), "{facts}");
}

#[test]
fn show_does_not_wait_for_an_event_that_runs_on() {
    let node = Node::probe().start();
    let mut busy = node.busy("probe/a", 6000);
    let _queued = node.ask("/actor/probe/a/hello");
    let text = prints(&node, &["show", "probe/a"]);
    assert!(text.contains("an event runs") && text.contains("busy: an event runs"), "{text}");
    assert_eq!(busy.chunks().expect("a regular end"), DONE);
}

#[test]
fn what_is_not_there_ends_with_3_and_wrong_usage_with_2() {
    let make = || {
        let node = Node::probe().start();
        node.actor("probe/nostore").get("/hello").text();
        node
    };
    in_every_state(make, |node| {
        let file = node.data_dir().join("never.db");
        let file = file.to_str().expect("UTF-8");
        for address in ["probe/nobody", "unknown/nobody"] {
            for arguments in
                [&["show", address][..], &["sql", address, "SELECT 1"], &["export", address, file]]
            {
                let error = ends(node, arguments, 3);
                assert!(error.contains(&format!("{address} does not exist")), "{error}");
            }
        }
        let error = ends(node, &["sql", "probe/nostore", "SELECT 1"], 3);
        assert!(error.contains("no database"), "{error}");
        assert_eq!(listed(node, &[]), ["nostore"], "asking made an actor");
        for wrong in [
            &["show"][..],
            &["show", "probe"],
            &["show", "Probe/a"],
            &["show", "probe/"],
            &["show", "probe/a/b"],
            &["list", "--min-size", "much"],
            &["list", "--class", "No"],
            &["list", "--tenant", "No"],
            &["sql", "probe/a"],
            &["sql", "probe/a", "SELECT 1", "--format", "xml"],
            &["export", "probe/a"],
            &["unknown"],
        ] {
            ends(node, wrong, 2);
        }
        assert!(!Path::new(file).exists());
    });
}

#[test]
fn a_data_directory_that_is_none_is_named_and_not_made() {
    let home = tempfile::tempdir().expect("a directory");
    let missing = home.path().join("missing");
    for directory in [home.path(), &missing] {
        let mut command = wasmkeep();
        let output = command.args(["actor", "list", "--data-dir"]).arg(directory).output();
        let Output { status, stderr, .. } = output.expect("run wasmkeep");
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&*directory.to_string_lossy()), "{stderr}");
    }
    assert!(!missing.exists());
    assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 0);
}

#[test]
fn the_data_directory_is_found_as_serve_finds_it() {
    let mut node = Node::probe().start();
    node.actor("probe/a").get("/hello").text();
    node.stop_cleanly();
    let home = tempfile::tempdir().expect("a directory");
    let settings = format!("[serve]\ndata-dir = {:?}\n", node.data_dir());
    fs::write(home.path().join("wasmkeep.toml"), settings).expect("write a file");
    let list = |command: &mut Command| {
        let output = command.current_dir(home.path()).args(["actor", "list"]).output();
        String::from_utf8(output.expect("run wasmkeep").stdout).expect("UTF-8")
    };
    assert!(list(&mut wasmkeep()).contains("probe/a"));
    assert!(list(wasmkeep().env("WASMKEEP_DATA_DIR", node.data_dir())).contains("probe/a"));
}

#[test]
fn sql_reads_and_a_statement_that_writes_is_refused_and_changes_nothing() {
    let make = || {
        let node = Node::probe().start();
        let actor = node.actor("probe/a");
        actor.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
        actor.exec("INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, x'00ff'), (4, 2.5)");
        node
    };
    in_every_state(make, |node| {
        let sql = |arguments: &[&str]| prints(node, &[&["sql", "probe/a"], arguments].concat());
        let rows = sql(&["SELECT * FROM t", "--format", "json"]);
        let expected = [
            json!({ "id": 1, "v": "one" }),
            json!({ "id": 2, "v": null }),
            json!({ "id": 3, "v": { "blob": "00ff" } }),
            json!({ "id": 4, "v": 2.5 }),
        ];
        assert_eq!(json_lines(&rows), expected);
        assert_eq!(sql(&["SELECT v FROM t LIMIT 2"]), "v\n----\none\nNULL\n");
        assert_eq!(sql(&["SELECT * FROM t LIMIT 1", "--format", "csv"]), "id,v\r\n1,one\r\n");
        let found = sql(&["SELECT id FROM t WHERE id = ? OR v = ?", "2", "text:one"]);
        assert_eq!(found, "id\n--\n1\n2\n");
        let mut piped = command(node, &["sql", "probe/a", "-"]);
        let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run it");
        let mut stdin = piped.stdin.take().expect("a pipe");
        stdin.write_all(b"SELECT count(*) AS n\nFROM t;\n").expect("it reads");
        drop(stdin);
        let output = piped.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "n\n-\n4\n");

        let cut = ends(node, &["sql", "probe/a", "SELECT * FROM t", "--limit", "3"], 0);
        assert!(cut.contains("first 3 rows"), "{cut}");
        for writes in [
            "INSERT INTO t VALUES (5, 5)",
            "UPDATE t SET v = 1 RETURNING id",
            "DELETE FROM t",
            "DROP TABLE t",
            "CREATE TABLE u (x)",
            "BEGIN",
            "COMMIT",
            "SAVEPOINT s",
            "VACUUM",
            "REINDEX",
            "ANALYZE",
            "ATTACH 'x.db' AS x",
            "PRAGMA user_version = 5",
            "PRAGMA journal_mode = DELETE",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "PRAGMA writable_schema = 1",
            "SELECT * FROM _wk_meta",
        ] {
            ends(node, &["sql", "probe/a", writes], 3);
        }
        for (wrong, said) in [
            ("SELEC 1", "syntax error"),
            ("SELECT * FROM missing", "no such table: missing"),
            ("SELECT 1; SELECT 2", "one statement"),
            ("", "no statement"),
            ("SELECT ?", "parameters"),
            ("SELECT load_extension('x')", "no such function"),
        ] {
            let error = ends(node, &["sql", "probe/a", wrong], 1);
            assert!(error.contains(said), "{wrong}: {error}");
        }
        assert_eq!(sql(&["SELECT count(*) AS n, sum(id) AS s FROM t"]), "n  s\n-  --\n4  10\n");
        assert_eq!(sql(&["PRAGMA user_version"]), "user_version\n------------\n0\n");
    });
}

#[test]
fn a_waiting_operator_does_not_hold_up_the_actor() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE t (n)");
    for n in 0..20 {
        actor.exec(&format!("INSERT INTO t VALUES ({n})"));
        let rows = prints(&node, &["sql", "probe/a", "SELECT max(n) AS n FROM t"]);
        assert_eq!(rows.trim().lines().last(), Some(&*n.to_string()));
    }
    // Asked while an event runs, it answers after that.
    let mut busy = node.busy("probe/a", 700);
    assert!(prints(&node, &["sql", "probe/a", "SELECT count(*) FROM t"]).contains("20"));
    assert_eq!(busy.chunks().expect("a regular end"), DONE);
    assert_eq!(actor.query("SELECT count(*) FROM t"), json!([[20]]));
}

#[test]
fn the_statement_of_an_operator_who_left_ends() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.get("/hello").text();
    let endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) \
                   SELECT count(*) FROM c";
    let mut asking = command(&node, &["sql", "probe/a", endless]).spawn().expect("run wasmkeep");
    eventually("the statement runs", || {
        let facts = json_lines(&prints(&node, &["show", "probe/a", "--json"])).remove(0);
        facts["node"]["is_busy"] == true
    });
    let began = std::time::Instant::now();
    asking.kill().expect("end it");
    asking.wait().expect("it ends");
    assert_eq!(actor.get("/hello").text(), "hello");
    // Left alone it would run for the wall of an event, 30 s.
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}

#[test]
fn reading_an_actor_runs_none_of_its_code() {
    let mut node = Node::probe().start();
    node.actor("probe/badinit").get("/hello").refused(500, "init-failed", "ran");
    node.actor("probe/a").get("/hello").text();
    node.restart();
    for _ in 0..3 {
        let rows = prints(&node, &["sql", "probe/badinit", "SELECT count(*) AS n FROM init_log"]);
        let ran = rows.trim().lines().last().map(str::to_owned);
        assert_eq!(ran.as_deref(), Some("1"), "an inspection ran on-init");
    }
    prints(&node, &["show", "probe/a"]);
    let events = node.metric("wasmkeep_events_total", &[]);
    assert_eq!(events, 0.0, "an inspection counts as an event");
}

#[test]
fn an_export_is_a_plain_database_with_the_same_rows() {
    let make = || {
        let node = Node::probe().start();
        let actor = node.actor("probe/a");
        actor.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE)");
        actor.exec("CREATE VIRTUAL TABLE f USING fts5(body)");
        actor.exec("INSERT INTO f VALUES ('milk and bread')");
        for chunk in 0..4 {
            actor.exec(&format!(
                "INSERT INTO t WITH RECURSIVE c(n) AS (SELECT {chunk}000 UNION ALL SELECT n + 1 \
                 FROM c WHERE n < {chunk}999) SELECT n, 'value ' || n FROM c"
            ));
        }
        actor.post("/alarm?in=3600000", "").text();
        node
    };
    in_every_state(make, |node| {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("a copy.db");
        let path = file.to_str().expect("UTF-8");
        prints(node, &["export", "probe/a", path]);
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let bytes = fs::read(&file).expect("a file");
        assert!(!bytes.windows(14).any(|window| window == b"init_component"), "the host's rows");
        let copy = open(&file);
        let text = |sql: &str| -> String {
            copy.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
        };
        assert_eq!(text("PRAGMA integrity_check"), "ok");
        assert_eq!(text("PRAGMA journal_mode"), "delete");
        let hosts = "SELECT cast(count(*) AS TEXT) FROM sqlite_schema WHERE name LIKE '%wk%'";
        assert_eq!(text(hosts), "0");
        let sum = "SELECT count(*) || ' ' || sum(id) || ' ' || sum(length(v)) FROM t";
        let original = prints(node, &["sql", "probe/a", &format!("{sum} -- "), "--format", "csv"]);
        assert_eq!(Some(&*text(sum)), original.trim().lines().last());
        assert_eq!(text("SELECT body FROM f WHERE f MATCH 'milk'"), "milk and bread");
        drop(copy);
        assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 1, "left behind");

        // It is never written over unasked.
        fs::write(&file, "mine").expect("write a file");
        let error = ends(node, &["export", "probe/a", path], 3);
        assert!(error.contains("--force"), "{error}");
        assert_eq!(fs::read(&file).expect("a file"), b"mine");
        prints(node, &["export", "probe/a", path, "--force"]);
        assert_eq!(fs::read(&file).expect("a file").len(), bytes.len());
        ends(node, &["export", "probe/a", "/nowhere/at/all.db"], 1);
        let left = fs::read_dir(node.data_dir()).expect("a directory").filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().starts_with("export-")
        });
        assert_eq!(left.count(), 0, "an export was left in the data directory");
    });
}

#[test]
fn an_export_between_writes_is_of_one_moment() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.exec("CREATE TABLE a (n)");
    actor.exec("CREATE TABLE b (n, pad)");
    let home = tempfile::tempdir().expect("a directory");
    let step = |sql: String| json!({ "op": "exec", "sql": sql });
    in_parallel(2, |who| {
        if who == 0 {
            for n in 0..400 {
                actor.steps(json!([
                    step("BEGIN".into()),
                    step(format!("INSERT INTO a VALUES ({n})")),
                    step(format!("INSERT INTO b VALUES ({n}, zeroblob(20000))")),
                    step("COMMIT".into()),
                ]));
            }
            return;
        }
        for round in 0..10 {
            let file = home.path().join(format!("{round}.db"));
            prints(&node, &["export", "probe/a", file.to_str().expect("UTF-8")]);
            let difference: i64 = open(&file)
                .query_row(
                    "SELECT (SELECT count(*) FROM a) - (SELECT count(*) FROM b) \
                     + (SELECT coalesce(sum(n), 0) FROM a) - (SELECT coalesce(sum(n), 0) FROM b)",
                    [],
                    |row| row.get(0),
                )
                .expect("a number");
            assert_eq!(difference, 0, "half of a transaction");
        }
    });
    assert_eq!(actor.query("SELECT count(*) FROM a"), json!([[400]]));
}

#[test]
fn a_damaged_database_is_told_and_the_others_are_read() {
    let mut node = Node::probe().errors_are_fine().start();
    node.actor("probe/a").get("/hello").text();
    node.actor("probe/b").get("/hello").text();
    node.stop_cleanly();
    let file = node.databases().into_iter().find(|file| file.ends_with("61.db"));
    let file = file.expect("the file of a");
    fs::write(&file, "this is no database, and never was one").expect("write a file");
    fs::remove_file(file.with_extension("db-wal")).expect("remove a log");
    let check = |node: &Node| {
        assert_eq!(listed(node, &[]), ["a", "b"]);
        let error = ends(node, &["sql", "probe/a", "SELECT 1"], 1);
        assert!(error.contains("61.db"), "{error}");
        let text = prints(node, &["show", "probe/a"]);
        assert!(text.contains("not read"), "{text}");
        assert!(prints(node, &["sql", "probe/b", "SELECT 1"]).contains('1'));
    };
    check(&node);
    node.start_again();
    check(&node);
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_the_server() {
    let mut node = Node::probe().start();
    let socket = node.data_dir().join("admin.sock");
    let mode = fs::metadata(&socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    node.kill();
    assert!(socket.exists(), "a killed server removes nothing");
    node.start_again();
    prints(&node, &["list"]);
    node.stop_cleanly();
    assert!(!socket.exists());
}

#[test]
fn what_is_no_request_gets_a_line_and_harms_nobody() {
    let node = Node::probe().start();
    node.actor("probe/a").get("/hello").text();
    let said = |bytes: &[u8]| {
        let mut client = UnixStream::connect(node.data_dir().join("admin.sock")).expect("a socket");
        client.write_all(bytes).expect("it reads");
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("it answers");
        answer
    };
    for wrong in [
        &b"\n"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"{}\n",
        b"[]\n",
        b"{\"version\":99,\"command\":\"list\"}\n",
        b"{\"version\":1}\n",
        b"{\"version\":1,\"command\":\"format\"}\n",
        b"{\"version\":1,\"command\":\"show\",\"class\":7}\n",
        b"{\"version\":1,\"command\":\"show\",\"tenant\":\"default\",\"app\":\"default\",\
          \"class\":\"probe\",\"name\":\"..\"}\n",
        b"\xff\xfe\n",
    ] {
        let line: Json = serde_json::from_str(&said(wrong)).expect("one line of JSON");
        assert_eq!(line["line"], "failed", "{line}");
        assert_eq!(line["kind"], "bad-request", "{line}");
    }
    assert_eq!(said(b""), "");
    assert_eq!(said(b"{\"version\":1"), "", "a line that broke off is none");
    let deep = ["[".repeat(100_000), "\n".into()].concat();
    assert!(said(deep.as_bytes()).contains("bad-request"));
    assert_eq!(listed(&node, &[]), ["a"]);
}

#[test]
fn a_running_command_keeps_a_server_from_starting() {
    let mut node = Node::probe().start();
    node.actor("probe/a").get("/hello").text();
    node.stop_cleanly();
    // It holds the data directory while it writes what nobody reads.
    let endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) \
                   SELECT count(*) FROM c";
    let mut holder = command(&node, &["sql", "probe/a", endless]);
    let mut holder = holder.stdout(Stdio::null()).spawn().expect("run wasmkeep");
    let lock = node.data_dir().join("lock");
    eventually("the command has the lock", || {
        fs::read_to_string(&lock).is_ok_and(|held| held.contains(&holder.id().to_string()))
    });
    let mut server = wasmkeep();
    server.args(["serve", "--listen", "127.0.0.1:0", "--actor"]);
    server.arg(format!("probe={}", crate::support::component("guest-probe.wasm").display()));
    let output = server.arg("--data-dir").arg(node.data_dir()).output().expect("run wasmkeep");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("command (process {})", holder.id())), "{stderr}");
    let error = ends(&node, &["list"], 1);
    assert!(error.contains("admin.sock does not answer"), "{error}");
    holder.kill().expect("end it");
    holder.wait().expect("it ends");
    assert_eq!(listed(&node, &[]), ["a"]);
}
