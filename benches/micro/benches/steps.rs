//! `cargo bench -p wasmkeep-micro`: each step alone, from the smallest up to a whole event without HTTP.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use wasmkeep_micro::{Node, READ, TABLE, WRITE, address, databases, far, open};
use wasmkeep_supervisors::address::{Class, Target, Tenant};
use wasmkeep_supervisors::headers::is_hosts;
use wasmkeep_supervisors::ports::{Databases, Meta, SqlValue};
use wasmkeep_supervisors::testing::ScriptedGuest;
use wasmkeep_supervisors::time::Timestamp;

const BROWSER: [&str; 12] = [
    "host",
    "user-agent",
    "accept",
    "accept-language",
    "accept-encoding",
    "cookie",
    "referer",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "x-forwarded-for",
    "x-request-id",
];

fn texts(c: &mut Criterion) {
    c.bench_function("address: class, name and path of a request", |b| {
        b.iter(|| Target::parse(black_box("room/caf%C3%A9-17/messages?after=12")));
    });
    c.bench_function("headers: whose twelve of a browser are", |b| {
        b.iter(|| BROWSER.iter().filter(|name| is_hosts(black_box(name.as_bytes()))).count());
    });
}

/// Statements as a guest's go, and the same ones by SQLite alone.
fn statements(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, databases) = databases(&folder.path().join("data"));
    let mut ours = open(&databases, "a");
    ours.exec(TABLE, vec![]).expect("a table");
    let bare = rusqlite::Connection::open(folder.path().join("bare.db")).expect("a database");
    bare.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;").expect("settings");
    bare.execute_batch(TABLE).expect("a table");
    for row in 0..100 {
        ours.exec(WRITE, vec![SqlValue::Integer(row)]).expect("a row");
        bare.execute(WRITE, [row]).expect("a row");
    }
    let mut group = c.benchmark_group("statement");
    group.bench_function("read, through the sandbox", |b| {
        b.iter(|| {
            // What the SQL of one event may compute is bounded: it begins anew.
            ours.begin_event(far());
            ours.query(READ, vec![SqlValue::Integer(black_box(7))]).expect("a row")
        });
    });
    group.bench_function("read, SQLite alone", |b| {
        b.iter(|| {
            let mut read = bare.prepare_cached(READ).expect("it is there");
            read.query_row([black_box(7)], |row| row.get::<_, i64>(0)).expect("a row")
        });
    });
    group.bench_function("write, through the sandbox", |b| {
        b.iter(|| {
            // What one event may write is bounded, and so is its WAL: both begin anew.
            ours.begin_event(far());
            ours.exec(WRITE, vec![SqlValue::Integer(black_box(7))]).expect("a row");
            ours.end_event().expect("an end")
        });
    });
    group.bench_function("write, SQLite alone", |b| {
        b.iter(|| {
            let mut write = bare.prepare_cached(WRITE).expect("it is there");
            write.execute([black_box(7)]).expect("a row")
        });
    });
    group.finish();
}

fn files(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, databases) = databases(&folder.path().join("data"));
    let mut made = 0;
    let mut group = c.benchmark_group("database");
    group.bench_function("make one, with a table and a row", |b| {
        b.iter(|| {
            made += 1;
            let mut database = open(&databases, &format!("new{made}"));
            database.exec(TABLE, vec![]).expect("a table");
            database.exec(WRITE, vec![SqlValue::Integer(1)]).expect("a row");
            database.end_event().expect("an end");
            database
        });
    });
    group.bench_function("open one and read a row", |b| {
        b.iter_batched(
            || (),
            |()| {
                let mut database = open(&databases, "new1");
                database.meta(Meta::InitComponent).expect("the host's rows");
                database.query(READ, vec![SqlValue::Integer(1)]).expect("a row");
                database.close().expect("a close");
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// What finds the next alarm, beside ever more of them.
fn alarm_index(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, databases) = databases(&folder.path().join("data"));
    let (tenant, class) = (Tenant::default_tenant(), Class::parse("bench").expect("a class"));
    let mut there = 0;
    let mut group = c.benchmark_group("alarm index");
    group.sample_size(20);
    for count in [1_u64, 1_000, 100_000, 1_000_000] {
        while there < count {
            let at = Timestamp(1_000_000_000_000 + there * 10);
            databases.index_alarm(&address(&format!("i{there}")), Some(at)).expect("a row");
            there += 1;
        }
        group.bench_function(format!("next of {count}"), |b| {
            b.iter(|| databases.next_alarm(&tenant, &class, Timestamp(0)).expect("an answer"));
        });
        group.bench_function(format!("set one beside {count}"), |b| {
            let moved = address("i0");
            let mut at = 0;
            b.iter(|| {
                at += 1;
                databases.index_alarm(&moved, Some(Timestamp(2_000_000_000_000 + at)))
            });
        });
    }
    group.finish();
}

/// Whole events without HTTP: through queues and processes, and then with WebAssembly and SQLite.
fn events(c: &mut Criterion) {
    let actor = address("a");
    let mut group = c.benchmark_group("event");
    let scripted = Node::of_guest(Arc::new(ScriptedGuest::new("v1")));
    group.bench_function("a guest that is no WebAssembly", |b| {
        b.iter(|| scripted.runtime.block_on(scripted.ask(&actor, "GET", "/answer")));
    });
    let component =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/components/guest-bench.wasm");
    let real = Node::of_component(Path::new(component));
    for (what, method, path) in [
        ("hello", "GET", "/hello"),
        ("a read of one row", "GET", "/read"),
        ("a write and a read", "POST", "/write"),
        ("a call of another actor", "POST", "/call/b"),
    ] {
        group.bench_function(what, |b| {
            b.iter(|| real.runtime.block_on(real.ask(&actor, method, path)));
        });
    }
    let mut made = 0;
    group.bench_function("hello of a new actor", |b| {
        b.iter(|| {
            made += 1;
            real.runtime.block_on(real.ask(&address(&format!("n{made}")), "GET", "/hello"))
        });
    });
    group.finish();
}

criterion_group! {
    name = steps;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = texts, statements, files, alarm_index, events
}
criterion_main!(steps);
