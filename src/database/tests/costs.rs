//! Figures for docs/adr/0003-local-databases.md:
//! `cargo test --release database::tests::costs -- --ignored --nocapture --test-threads=1`

use std::time::Instant;

use wasmkeep_supervisors::history::{Base, ObjectHash, Position, delta, encode};
use wasmkeep_supervisors::ports::{Database, Databases, Meta, SqlValue};

use super::*;

fn print(what: &str, mut micros: Vec<f64>) {
    micros.sort_by(f64::total_cmp);
    let at = |share: usize| micros[(micros.len() - 1) * share / 100];
    println!("{what:44} p50 {:8.1}  p90 {:8.1}  p99 {:8.1} µs", at(50), at(90), at(99));
}

fn timed<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    times.push(started.elapsed().as_secs_f64() * 1e6);
    result
}

#[test]
#[ignore = "prints figures"]
fn costs() {
    let node = Node::new();
    let count = 1_000;
    let [mut create, mut first, mut init, mut close] = [vec![], vec![], vec![], vec![]];
    for n in 0..count {
        let name = format!("a{n}");
        let mut database = timed(&mut create, || node.open(&name));
        timed(&mut first, || {
            database.run_ok("CREATE TABLE t (k PRIMARY KEY, v)");
            database.run_ok("INSERT INTO t VALUES ('a', 1)");
        });
        timed(&mut init, || database.set_meta(Meta::InitComponent, Some("c")).expect("a write"));
        database.end_event().expect("an end");
        timed(&mut close, || Box::new(database).close().expect("a close"));
    }
    print("create", create);
    print("first CREATE TABLE and INSERT", first);
    print("host's first write", init);
    print("close, short WAL kept", close);
    let [mut open, mut read, mut write, mut close] = [vec![], vec![], vec![], vec![]];
    for n in 0..count {
        let name = format!("a{n}");
        let mut database = timed(&mut open, || {
            let mut database = node.open(&name);
            database.meta(Meta::InitComponent).expect("a read");
            database
        });
        timed(&mut read, || database.rows("SELECT v FROM t WHERE k = 'a'"));
        timed(&mut write, || database.run_ok("UPDATE t SET v = v + 1"));
        database.end_event().expect("an end");
        timed(&mut close, || Box::new(database).close().expect("a close"));
    }
    print("open with a WAL of 6 pages, host's rows read", open);
    print("first read", read);
    print("first write", write);
    print("close, short WAL kept", close);
    let [mut checkpoint, mut open, mut close] = [vec![], vec![], vec![]];
    for n in 0..count / 5 {
        let mut database = node.open(&format!("a{n}"));
        while database.hooks.wal_frames.get() < 64 {
            database.run_ok("INSERT INTO t VALUES (random(), zeroblob(8000))");
        }
        timed(&mut checkpoint, || Box::new(database).close().expect("a close"));
        let database = timed(&mut open, || node.open(&format!("a{n}")));
        timed(&mut close, || Box::new(database).close().expect("a close"));
    }
    print("close with a checkpoint of 64 pages", checkpoint);
    print("open without a WAL", open);
    print("close, nothing written", close);
    let [mut open, mut sync] = [vec![], vec![]];
    for n in 0..count / 5 {
        let mut database = node.open(&format!("b{n}"));
        database.run_ok("CREATE TABLE t (k PRIMARY KEY, v)");
        timed(&mut sync, || database.sync().expect("a sync"));
        while database.hooks.wal_frames.get() < 60 {
            database.run_ok("INSERT INTO t VALUES (random(), zeroblob(8000))");
        }
        drop(database);
        timed(&mut open, || node.open(&format!("b{n}")));
    }
    print("first sync of a new file", sync);
    print("open with a WAL of 60 pages", open);
    let mut database = node.open("hot");
    database.run_ok("CREATE TABLE t (k PRIMARY KEY, v)");
    let [mut write, mut read, mut durable] = [vec![], vec![], vec![]];
    for n in 0..20_000 {
        let row = vec![SqlValue::Integer(n % 100), SqlValue::Integer(n)];
        timed(&mut write, || database.exec("REPLACE INTO t VALUES (?, ?)", row).expect("a write"));
        let key = vec![SqlValue::Integer(n % 100)];
        timed(&mut read, || database.query("SELECT v FROM t WHERE k = ?", key).expect("a read"));
        database.end_event().expect("an end");
        database.begin_event(in_30_s());
    }
    for n in 0..500 {
        let row = vec![SqlValue::Integer(n % 100), SqlValue::Integer(n)];
        timed(&mut durable, || {
            database.exec_before_sync("REPLACE INTO t VALUES (?, ?)", row).expect("a write");
            database.sync().expect("a sync");
        });
    }
    print("write, hot", write);
    print("read, hot", read);
    print("write and sync, hot", durable);
    let [mut set, mut get, mut remove] = [vec![], vec![], vec![]];
    let component = "c".repeat(64);
    for n in 0..20_000 {
        let actor = address(&format!("index-{n}"));
        timed(&mut set, || node.databases.set_fileless_init(&actor, &component).expect("a write"));
        timed(&mut get, || node.databases.fileless_init(&actor).expect("a read"));
    }
    for n in 0..200 {
        let actor = address(&format!("index-{n}"));
        timed(&mut remove, || node.databases.remove(&actor).expect("a removal"));
    }
    print("index: set", set);
    print("index: get", get);
    print("remove, durable, without a file", remove);
    let before = (resident_kib(), descriptors());
    let open: Vec<_> = (0..count)
        .map(|n| {
            let mut database = node.open(&format!("a{n}"));
            database.rows("SELECT v FROM t WHERE k = 'a'");
            database
        })
        .collect();
    let (kib, files) = (resident_kib() - before.0, descriptors() - before.1);
    println!("{} open: {} KiB and {} descriptors each", count, kib / count, files / count);
    drop(open);
}

/// Figures for docs/adr/0016-history.md:
/// `cargo test --lib database::tests::costs::capture_costs -- --ignored --nocapture`
#[test]
#[ignore = "prints figures"]
fn capture_costs() {
    let node = Node::with(super::history::captured());
    let mut database = node.open("hot");
    database.run_ok("CREATE TABLE t (k PRIMARY KEY, v)");
    database.capturing().expect("captured").capture().expect("it captures");
    let [mut write, mut capture, mut encoded, mut latch] = [vec![], vec![], vec![], vec![]];
    let (mut frames, mut bytes) = (0, 0);
    let count = 10_000;
    for n in 0..count {
        let row = vec![SqlValue::Integer(n % 100), SqlValue::Integer(n)];
        timed(&mut write, || database.exec("REPLACE INTO t VALUES (?, ?)", row).expect("a write"));
        let capturing = database.capturing().expect("captured");
        let captured = timed(&mut capture, || capturing.capture().expect("it captures"));
        let captured = captured.expect("a write");
        frames += captured.frames;
        let at = Position::new(2, 1).expect("from 1");
        let description = delta(at, None, captured.db_pages, captured.frames);
        let mut object = Vec::new();
        timed(&mut encoded, || {
            let read = |page: u32, to: &mut [u8]| capturing.read_captured(page, to);
            encode(&description, captured.changed.iter().copied(), read, &mut object)
                .expect("it encodes")
        });
        bytes += object.len();
        if n % 100 == 0 {
            timed(&mut latch, || capturing.latch().expect("a working disk").expect("captured"));
        }
        database.end_event().expect("an end");
        database.begin_event(in_30_s());
    }
    print("write, hot, captured", write);
    print("capture of it", capture);
    print("its segment", encoded);
    print("checkpoint of 100 such and a latch", latch);
    println!(
        "{} frames and {} bytes a write",
        f64::from(frames) / count as f64,
        bytes / count as usize
    );
    let [mut capture, mut encoded] = [vec![], vec![]];
    for _ in 0..20 {
        database.run_ok("INSERT INTO t VALUES (random(), randomblob(8000000))");
        let capturing = database.capturing().expect("captured");
        let captured = timed(&mut capture, || capturing.capture().expect("it captures"));
        let captured = captured.expect("a write");
        let description = delta(Position::new(2, 1).expect("from 1"), None, captured.db_pages, 1);
        timed(&mut encoded, || {
            let read = |page: u32, to: &mut [u8]| capturing.read_captured(page, to);
            encode(&description, captured.changed.iter().copied(), read, std::io::sink())
                .expect("it encodes")
        });
        database.end_event().expect("an end");
        database.begin_event(in_30_s());
    }
    print("capture of 8 MB of noise", capture);
    print("its segment", encoded);
    let [mut close, mut open] = [vec![], vec![]];
    let head = Base { at: Position::new(2, 1).expect("from 1"), hash: ObjectHash([1; 32]) };
    for n in 0..500 {
        let name = format!("c{n}");
        let mut database = node.open(&name);
        database.run_ok("CREATE TABLE t (k PRIMARY KEY, v)");
        database.capturing().expect("captured").capture().expect("it captures");
        timed(&mut close, || Box::new(database).close_at(head).expect("a close"));
        timed(&mut open, || node.open(&name));
    }
    print("close and say which state it is", close);
    print("open such a file", open);
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}
