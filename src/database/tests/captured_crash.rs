//! A node that is killed while it writes, ships, checkpoints, snapshots and hibernates: afterwards a
//! file is exactly the state its sidecar names, or it is not trusted.

use std::io::{BufRead, Write};
use std::path::Path;

use wasmkeep_supervisors::ports::{Database, LocalFiles, SqlValue};

use super::crash::{rounds, start_child};
use super::history::{History, captured};
use super::*;

const DIRECTORY: &str = "WASMKEEP_TEST_CAPTURED_CRASH_DIRECTORY";
const ROUNDS: u32 = 12;

/// Runs in a process of its own, until it is killed.
#[test]
#[ignore = "the child of the test below"]
fn captured_crash_child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let databases = databases(&directory.join("data"), captured());
    let mut random = Random(u64::from(std::process::id()));
    let mut said = std::io::stdout().lock();
    let mut history = History::in_folder(&directory.join("bucket"));
    loop {
        let trusted = databases.trusted(&address("a")).expect("a working disk");
        let head = history.progress.head();
        if trusted.is_none() || trusted != head {
            match head {
                Some(head) => _ = history.restore(head.at, &databases),
                None => databases.set_aside(&address("a")).expect("a working disk"),
            }
        }
        let mut database = databases.open_file(&address("a")).expect("it opens");
        database.begin_event(in_30_s());
        database.run_ok("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v, pad)");
        for _ in 0..1 + random.below(6) {
            database.begin_event(in_30_s());
            for _ in 0..1 + random.below(4) {
                let pad = SqlValue::Blob(vec![1; random.below(40_000) as usize]);
                let sql = "INSERT INTO t (v, pad) VALUES (1, ?)";
                database.exec(sql, vec![pad]).expect("it writes");
                writeln!(said, "wrote").expect("a reader");
            }
            if random.below(5) == 0 {
                database.run_ok("DELETE FROM t WHERE id % 3 = 0");
            }
            if random.below(3) == 0 {
                database.run_ok("BEGIN");
                database.run_ok("UPDATE t SET v = v + 1, pad = zeroblob(9000)");
            }
            database.end_event().expect("a working disk");
            history.ship(&mut database);
            database.end_event().expect("a working disk");
            writeln!(said, "shipped").expect("a reader");
            let head = history.progress.head().expect("it was shipped");
            let capturing = database.capturing().expect("captured");
            match random.below(6) {
                0 => {
                    let latched = capturing.latch().expect("a working disk");
                    history.snapshot(head, latched.expect("all is captured").as_ref());
                }
                1 => {
                    let latched = capturing.latch().expect("a working disk");
                    history.merge(latched.expect("all is captured").as_ref());
                }
                2 if capturing.vacuum_if_sparse().expect("a working disk") => {
                    writeln!(said, "vacuumed").expect("a reader");
                    history.ship(&mut database);
                }
                _ => {}
            }
        }
        let head = history.progress.head().expect("it was shipped");
        Box::new(database).close_at(head).expect("a working disk");
        writeln!(said, "slept").expect("a reader");
        history.next_hold();
    }
}

#[test]
fn a_file_is_what_its_sidecar_says_or_is_not_trusted_whenever_the_node_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut random = Random(7);
    let mut trusted = 0;
    let rounds = rounds(ROUNDS);
    for round in 0..rounds {
        let path = directory.path().join((round / 6).to_string());
        let (mut process, mut output) =
            start_child(module_path!(), "captured_crash_child", (DIRECTORY, &path));
        let lines = 10 + random.below(60);
        // Half of the time it is killed about when it falls asleep.
        let asleep = random.below(2) == 0;
        let (mut line, mut slept) = (String::new(), false);
        for said in 0.. {
            line.clear();
            assert!(output.read_line(&mut line).expect("a pipe") > 0, "round {round}: it ended");
            slept |= line.starts_with("slept");
            if said >= lines && (!asleep || line.starts_with("slept")) {
                break;
            }
        }
        process.kill().expect("it is killed");
        process.wait().expect("it ended");
        assert!(slept || round % 6 == 0 || !asleep, "round {round}: it never slept");
        trusted += u32::from(check(&path, round));
    }
    println!("trusted in {trusted} of {rounds} rounds");
    assert!(trusted < rounds, "it was never killed while it worked");
}

/// Whether the file was trusted.
fn check(path: &Path, round: u32) -> bool {
    let databases = databases(&path.join("data"), captured());
    let history = History::in_folder(&path.join("bucket"));
    let head = history.progress.head().expect("something was shipped");
    let restored = history.image(head.at);
    assert!(super::history::is_sound(&restored), "round {round}");
    let Some(trusted) = databases.trusted(&address("a")).expect("a working disk") else {
        return false;
    };
    let file = std::fs::read(databases.path(&address("a"))).expect("a file");
    assert!(history.image(trusted.at) == file, "round {round}: not the state it names");
    assert_eq!(trusted, head, "round {round}: the bucket went on without it");
    true
}
