//! A server that is killed at any moment loses nothing it acknowledged.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use wasmkeep_supervisors::ports::{Database, Databases, Meta, SqlValue};

use super::*;

const DIRECTORY: &str = "WASMKEEP_TEST_CRASH_DIRECTORY";
const ROUNDS: u32 = 8;
const ROUNDS_ASKED: &str = "WASMKEEP_TEST_CRASH_ROUNDS";

/// Runs in a process of its own, until it is killed: writes rows and says which are committed.
#[test]
#[ignore = "the child of the test below"]
fn crash_child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let databases = databases(Path::new(&directory), patient());
    let mut random = Random(u64::from(std::process::id()));
    let mut said = std::io::stdout().lock();
    let mut next = 0;
    for incarnation in 0.. {
        let mut database = databases.open_file(&address("a")).expect("it opens");
        database.begin_event(in_30_s());
        if incarnation == 0 {
            database.run_ok("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v, pad)");
            database.run_ok("CREATE INDEX IF NOT EXISTS i ON t (v)");
            next = database.integer("SELECT coalesce(max(id), 0) + 1 FROM t");
        }
        for _ in 0..1 + random.below(20) {
            database.begin_event(in_30_s());
            let rows = 1 + random.below(30) as i64;
            let transaction = random.below(2) == 0;
            if transaction {
                database.run_ok("BEGIN");
            }
            for id in next..next + rows {
                let pad = SqlValue::Blob(vec![1; random.below(9_000) as usize]);
                let row = vec![SqlValue::Integer(id), SqlValue::Integer(id * 7), pad];
                database.exec("INSERT INTO t VALUES (?, ?, ?)", row).expect("it writes");
                if !transaction {
                    writeln!(said, "committed {id}").expect("a reader");
                }
            }
            next += rows;
            if transaction {
                database.run_ok("COMMIT");
                writeln!(said, "committed {}", next - 1).expect("a reader");
            }
            match random.below(6) {
                0 => database.sync().expect("a working disk"),
                1 => {
                    let value = (next - 1).to_string();
                    database.set_meta(Meta::InitComponent, Some(&value)).expect("the host writes");
                    databases.set_fileless_init(&address("b"), &value).expect("the index writes");
                    writeln!(said, "remembered {value}").expect("a reader");
                }
                2 => {
                    database.run_ok("BEGIN");
                    database.run_ok("UPDATE t SET pad = zeroblob(5000) WHERE id % 3 = 0");
                }
                _ => {}
            }
            database.end_event().expect("a working disk");
        }
        Box::new(database).close().expect("a working disk");
    }
}

/// A test of this program in a process of its own, to be killed, and what it prints.
pub(super) fn start_child(
    module: &str,
    test: &str,
    directory: (&str, &Path),
) -> (Child, BufReader<ChildStdout>) {
    let module = module.split_once("::").expect("a crate").1;
    let mut process = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", &format!("{module}::{test}")])
        .args(["--nocapture", "--test-threads=1"])
        .env(directory.0, directory.1)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let output = BufReader::new(process.stdout.take().expect("a pipe"));
    (process, output)
}

/// How often a child is killed, unless the environment says otherwise.
pub(super) fn rounds(usual: u32) -> u32 {
    let asked = std::env::var(ROUNDS_ASKED).ok().and_then(|rounds| rounds.parse().ok());
    asked.unwrap_or(usual)
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut random = Random(42);
    for round in 0..rounds(ROUNDS) {
        // A new one now and then, so that checking it stays cheap.
        let path = directory.path().join((round / 8).to_string());
        let (mut process, mut output) =
            start_child(module_path!(), "crash_child", (DIRECTORY, &path));
        let lines = 20 + random.below(400);
        let mut committed = 0;
        let mut remembered = None;
        let mut line = String::new();
        for said in 0.. {
            line.clear();
            if output.read_line(&mut line).expect("a pipe") == 0 {
                break;
            }
            if said == lines {
                process.kill().expect("it is killed");
            }
            // The end of the pipe may hold half a line.
            if !line.ends_with('\n') {
                break;
            }
            match line.trim().split_once(' ') {
                Some(("committed", id)) => committed = id.parse().expect("a number"),
                Some(("remembered", value)) => remembered = Some(value.to_owned()),
                _ => {}
            }
        }
        process.kill().expect("it is killed");
        process.wait().expect("it ended");
        assert!(committed > 0, "round {round}: the child did nothing");
        check(&path, round, committed, remembered);
    }
}

fn check(path: &Path, round: u32, committed: i64, remembered: Option<String>) {
    let databases = databases(path, patient());
    let mut database = databases.open_file(&address("a")).expect("it opens");
    database.begin_event(in_30_s());
    assert_eq!(database.text("PRAGMA integrity_check"), "ok", "round {round}");
    let last = database.integer("SELECT max(id) FROM t");
    assert!(last >= committed, "round {round}: {last} of {committed}");
    assert_eq!(database.integer("SELECT count(*) FROM t"), last, "round {round}");
    assert_eq!(database.integer("SELECT count(*) FROM t WHERE v != id * 7"), 0, "round {round}");
    assert_eq!(database.integer("SELECT count(*) FROM t WHERE pad IS NULL"), 0, "round {round}");
    if let Some(value) = remembered {
        let number = |text: Option<String>| text.and_then(|text| text.parse::<i64>().ok());
        let value = number(Some(value));
        assert!(number(database.meta(Meta::InitComponent).expect("it reads")) >= value);
        assert!(number(databases.fileless_init(&address("b")).expect("it reads")) >= value);
    }
}
