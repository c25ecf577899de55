//! Alarms over stops, crashes and other classes, and the index that finds them at the start.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::json;

use crate::support::{
    HOUR_MS, Node, SetAtTheEnd, component, eventually, in_parallel, now_ms, open, patience,
    wasmkeep,
};

const DAY_MS: u64 = 24 * HOUR_MS;

/// Names that a path, a query or a log could take for something else, as URLs write them.
fn odd_names() -> Vec<(String, String)> {
    let long = "n".repeat(256);
    let wide = "\u{1F600}".repeat(64);
    let names = ["room 1", "100%", "%20", "é", "e\u{301}", "a?b#c&d", "'; DROP TABLE alarms;--"];
    let names = names.into_iter().chain([&*long, &*wide, "+", "a,b", "...", "\"\\"]);
    let encoded = |name: &str| name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    names.map(|name| (name.to_owned(), encoded(name))).collect()
}

#[test]
fn an_alarm_knows_whose_it_is_on_a_cold_wake_whatever_the_name() {
    let mut node = Node::probe().start();
    let due = now_ms() + 1500;
    for (_, encoded) in odd_names() {
        let actor = node.actor(&format!("probe/{encoded}"));
        actor.on_alarm(json!([{ "op": "address" }]));
        actor.set_alarm_at(due);
    }
    node.kill();
    eventually("they are due", || now_ms() > due);
    node.start_again();
    for (name, encoded) in odd_names() {
        let actor = node.actor(&format!("probe/{encoded}"));
        actor.ran(1);
        eventually("it has said who it is", || !actor.alarms_said().is_empty());
        let own = json!([{ "tenant": "default", "class": "probe", "name": name }]);
        assert_eq!(actor.alarms_said(), [own]);
    }
}

#[test]
fn an_alarm_due_while_the_node_is_down_fires_once_after_the_start() {
    for kills in [false, true] {
        let mut node = Node::probe().start();
        let due = now_ms() + 1000;
        node.actor("probe/a").set_alarm_at(due);
        // A day of missed ticks, and one that is not due yet.
        node.actor("probe/ticks").on_alarm(json!([{ "op": "set-alarm", "in": HOUR_MS }]));
        node.actor("probe/later").set_alarm_in(HOUR_MS);
        if kills {
            node.kill();
        } else {
            node.stop_cleanly();
        }
        make_due(&node, "ticks", now_ms() - DAY_MS);
        eventually("it is due", || now_ms() > due);
        node.start_again();
        let ready = now_ms();
        let ran = node.actor("probe/a").ran(1);
        println!("killed: {kills}; fired {} ms after ready", ran[0].at.saturating_sub(ready));
        node.actor("probe/ticks").ran(1);
        assert!(node.actor("probe/ticks").pending().is_some_and(|at| at > now_ms()));
        node.restart();
        assert_eq!(node.actor("probe/a").alarms().len(), 1);
        assert_eq!(node.actor("probe/ticks").alarms().len(), 1);
        assert!(node.actor("probe/later").pending().is_some_and(|at| at > now_ms()));
    }
}

/// Gives an actor of a stopped node an alarm that was due then.
fn make_due(node: &Node, name: &str, due: u64) {
    let stem: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    let files = node.databases();
    let file = files.iter().find(|file| file.file_stem().is_some_and(|have| *have == *stem));
    set_alarm(file.unwrap_or_else(|| panic!("{name} has no file")), due);
    let values = format!("('default', 'default', 'probe', '{name}', {due})");
    node.change_index(&format!("REPLACE INTO alarms VALUES {values}"));
}

fn set_alarm(file: &Path, due: u64) {
    let database = open(file);
    let set = database.execute("REPLACE INTO _wk_meta VALUES ('alarm', ?)", [format!("{due} 0")]);
    set.unwrap_or_else(|error| panic!("set the alarm in {}: {error}", file.display()));
}

#[test]
fn an_alarm_that_was_running_when_the_server_was_killed_runs_again() {
    let mut node = Node::probe().start();
    // The second has set its next alarm already.
    let wait = json!({ "op": "wait", "ms": 25_000, "runs": 1 });
    let log = json!({ "op": "log", "text": "inside" });
    let next = json!({ "op": "set-alarm", "in": HOUR_MS });
    let now = json!({ "op": "set-alarm", "in": 0, "runs": 1 });
    let rows = [
        ("plain", json!([log, wait]), 2, false),
        ("set-again", json!([next, log, wait]), 2, true),
        ("set-for-now", json!([now, log, wait]), 2, false),
    ];
    for (name, steps, _, _) in &rows {
        let actor = node.actor(&format!("probe/{name}"));
        actor.on_alarm(steps.clone());
        actor.set_alarm_in(0);
    }
    eventually("all three run", || node.log().matches("inside").count() == 3);
    node.kill();
    node.start_again();
    for (name, _, runs, pending) in rows {
        let actor = node.actor(&format!("probe/{name}"));
        let ran = actor.ran(runs);
        assert!(ran.iter().all(|ran| ran.attempt == 1), "{name}: {ran:?}");
        eventually("it is over", || actor.pending().is_some() == pending);
    }
}

#[test]
fn an_actor_that_sets_its_alarm_again_goes_on_over_restarts() {
    let mut node = Node::probe().start();
    node.actor("probe/a").on_alarm(json!([{ "op": "set-alarm", "in": 50 }]));
    node.actor("probe/a").set_alarm_in(0);
    let mut seen = 0;
    for round in 0..6 {
        let actor = node.actor("probe/a");
        eventually("it goes on", || actor.alarms().len() > seen + 3);
        seen = actor.alarms().len();
        if round % 2 == 0 {
            node.kill();
            node.start_again();
        } else {
            node.restart();
        }
    }
    let attempts = node.actor("probe/a").attempts();
    assert!(attempts.iter().all(|attempt| *attempt == 1), "{attempts:?}");
}

/// `WASMKEEP_TEST_ACTORS` says how many, if not 10,000 in 50 places.
#[test]
fn ten_thousand_overdue_alarms_each_fire_once_while_requests_are_served() {
    let actors = std::env::var("WASMKEEP_TEST_ACTORS").ok();
    let actors: usize = actors.map_or(10_000, |text| text.parse().expect("a number of actors"));
    let mut node = Node::probe().start();
    in_parallel(8, |worker| {
        let mut client = node.raw();
        for i in (worker..actors).step_by(8) {
            let set = client.post(&format!("/actor/probe/a{i}/alarm?in={HOUR_MS}"), b"");
            assert_eq!(set.status, 200, "{set:?}");
        }
    });
    node.stop_cleanly();
    let files = node.databases();
    assert_eq!(files.len(), actors);
    let due = now_ms() - DAY_MS;
    in_parallel(4, |worker| {
        files.iter().skip(worker).step_by(4).for_each(|file| set_alarm(file, due));
    });
    assert_eq!(node.change_index(&format!("UPDATE alarms SET due = {due}")), actors);
    let few = Node::probe().flag("--max-instances", "50");
    let began = Instant::now();
    node.start_again_as(few);
    let mut served = 0;
    let mut slowest = std::time::Duration::ZERO;
    let fired = || node.metric("wasmkeep_events_total", &[r#"kind="alarm""#, "answered"]);
    let mut last = (0.0, Instant::now());
    while last.0 < actors as f64 {
        let asked = Instant::now();
        let now = fired();
        if now > last.0 {
            last = (now, asked);
        }
        assert!(asked.duration_since(last.1) < patience(), "it stays at {now} of {actors}");
        let answer = node.actor(&format!("probe/client{}", served % 5)).get("/hello");
        slowest = slowest.max(asked.elapsed());
        assert!([200, 503].contains(&answer.status), "{answer:?}");
        served += usize::from(answer.status == 200);
    }
    let took = began.elapsed();
    println!("{actors} fired in {took:?}; beside them {served} requests, the slowest {slowest:?}");
    assert!(served > 10, "only {served} requests were served");
    node.stop_cleanly();
    assert_eq!(node.indexed_alarms(), []);
    let ran: Vec<i64> = files
        .iter()
        .map(|file| {
            let count = "SELECT count(*) FROM alarm_log";
            open(file).query_row(count, [], |row| row.get(0)).expect("it ran")
        })
        .collect();
    assert!(ran.iter().all(|times| *times == 1), "some ran more than once");
}

#[test]
fn the_alarm_of_a_class_that_is_not_served_waits_until_it_is() {
    let both = Node::probe().class("other", "guest-probe.wasm");
    let mut node = both.clone().start();
    let due = now_ms() + 800;
    node.actor("other/a").set_alarm_at(due);
    node.actor("probe/a").set_alarm_at(due);
    node.stop_cleanly();
    node.start_again_as(Node::probe());
    node.actor("probe/a").ran(1);
    node.actor("other/a").get("/alarms").refused(404, "not-found", "not-run");
    node.stop_cleanly();
    assert_eq!(
        node.indexed_alarms(),
        [("other/a".to_owned(), i64::try_from(due).expect("a time fits"))]
    );
    node.start_again_as(both);
    node.actor("other/a").ran(1);
}

/// The same code under another name: a component of its own, as a deploy brings one.
fn probe_built_anew(folder: &Path) -> std::ffi::OsString {
    let mut bytes = fs::read(component("guest-probe.wasm")).expect("read the probe");
    // A custom section: its id, its length, the length of its name, its name.
    bytes.extend(b"\0\x04\x03new");
    let path = folder.join("new.wasm");
    fs::write(&path, bytes).expect("write a component");
    let mut argument = std::ffi::OsString::from("probe=");
    argument.push(path);
    argument
}

#[test]
fn an_alarm_is_kept_while_on_init_fails_before_it() {
    let folder = tempfile::tempdir().expect("make a directory");
    let mut node = Node::probe().start();
    let name = "probe/flakyinit-1";
    node.actor(name).get("/hello").refused(500, "init-failed", "ran");
    let due = now_ms() + 600;
    node.actor(name).set_alarm_at(due);
    node.stop_cleanly();
    eventually("it is due", || now_ms() > due);
    // on-init runs again for the new component, and fails once.
    node.start_again_as(Node::serve().flag("--actor", probe_built_anew(folder.path())));
    eventually("it is put off", || node.actor(name).pending().is_some_and(|at| at > due));
    let ran = node.actor(name).ran(1);
    assert_eq!(ran[0].attempt, 2, "the attempt that on-init failed counts");
    assert_eq!(node.actor(name).pending(), None);
    assert_eq!(node.actor(name).get("/init").text(), "4");
}

#[test]
fn what_the_index_says_and_no_actor_knows_of_runs_and_creates_nothing() {
    let mut node = Node::probe().start();
    let later = now_ms() + HOUR_MS;
    node.actor("probe/early").set_alarm_at(later);
    node.actor("probe/cleared").set_alarm_in(HOUR_MS);
    node.actor("probe/cleared").send("DELETE", "/alarm", &[], &[]).json();
    node.actor("probe/nostore-1").get("/hello").text();
    node.stop_cleanly();
    assert_eq!(node.databases().len(), 2);
    assert_eq!(node.change_index("UPDATE alarms SET due = 5"), 1);
    for name in ["cleared", "nobody", "nostore-1"] {
        let values = format!("('default', 'default', 'probe', '{name}', 7)");
        node.change_index(&format!("INSERT INTO alarms VALUES {values}"));
    }
    node.start_again();
    let skipped = || node.metric("wasmkeep_events_total", &[r#"kind="alarm""#, "skipped"]);
    eventually("all four are looked at", || skipped() == 4.0);
    assert_eq!(node.metric("wasmkeep_events_total", &[r#"kind="alarm""#, "answered"]), 0.0);
    assert_eq!(node.actor("probe/early").pending(), Some(later));
    assert_eq!(node.actor("probe/early").alarms(), []);
    node.stop_cleanly();
    assert_eq!(node.databases().len(), 2, "a database was made");
    let later = i64::try_from(later).expect("a time fits");
    assert_eq!(node.indexed_alarms(), [("probe/early".to_owned(), later)]);
    assert_eq!(node.indexed_fileless(), ["probe/nostore-1"]);
}

/// A power cut may leave the index behind a database; the start of the machine tells.
#[test]
fn after_a_start_of_the_machine_actors_look_for_their_alarms() {
    let mut node = Node::probe().start();
    for name in ["lost", "also lost", "late", "kept"] {
        let actor = node.actor(&format!("probe/{}", name.replace(' ', "%20")));
        actor.set_alarm_in(3000);
    }
    node.stop_cleanly();
    assert_eq!(node.change_index("DELETE FROM alarms WHERE name LIKE '%lost' OR name = 'late'"), 3);
    node.start_again();
    node.actor("probe/kept").ran(1);
    assert!(!node.log().contains("started anew"), "the machine has not been started");
    node.stop_cleanly();
    let late = "INSERT INTO alarms VALUES ('default', 'default', 'probe', 'late', 99999999999999) \
                ON CONFLICT DO UPDATE SET due = excluded.due";
    assert_eq!(node.change_index(late), 1);
    assert_eq!(node.change_index("UPDATE node SET v = 'another start of the machine'"), 1);
    node.start_again();
    node.actor("probe/lost").ran(1);
    node.actor("probe/also%20lost").ran(1);
    node.actor("probe/late").ran(1);
    assert!(node.log().contains("started anew"));
    node.stop_cleanly();
    assert_eq!(node.indexed_alarms(), []);
    node.start_again();
    assert!(!node.log().contains("started anew"), "once a start of the machine");
}

#[test]
fn a_lost_index_is_made_anew_from_the_databases() {
    for kills in [false, true] {
        let mut node = Node::probe().start();
        let due = now_ms() + 700;
        for (_, encoded) in odd_names() {
            node.actor(&format!("probe/{encoded}")).set_alarm_at(due);
        }
        node.actor("probe/later").set_alarm_in(HOUR_MS);
        node.actor("probe/none").get("/hello").text();
        if kills {
            node.kill();
        } else {
            node.stop_cleanly();
        }
        eventually("they are due", || now_ms() > due);
        fs::remove_file(node.data_dir().join("index.db")).expect("there is an index");
        node.start_again();
        let said = "the index was missing";
        assert!(node.log().contains(said), "nothing tells the operator");
        for (_, encoded) in odd_names() {
            node.actor(&format!("probe/{encoded}")).ran(1);
        }
        node.restart();
        assert!(!node.log().contains(said));
        node.stop_cleanly();
        assert_eq!(node.indexed_alarms().len(), 1);
    }
}

#[test]
fn a_node_whose_index_is_damaged_says_what_to_do_and_does_not_start() {
    let mut node = Node::probe().start();
    node.actor("probe/a").set_alarm_in(0);
    node.actor("probe/a").ran(1);
    node.actor("probe/b").set_alarm_in(1000);
    node.stop_cleanly();
    let index = node.data_dir().join("index.db");
    let whole = fs::read(&index).expect("there is an index");
    let damages: [(&str, Vec<u8>); 3] = [
        ("text", b"this is no database, but a text that is long enough to look at".repeat(99)),
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("page", [&whole[..4096], &[0x5a; 4096], &whole[8192..]].concat()),
    ];
    for (what, bytes) in damages {
        fs::write(&index, bytes).expect("write the index");
        let mut command = wasmkeep();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(node.data_dir());
        command.arg("--actor").arg(probe_built_anew(&node.data_dir().join("components")));
        let output = command.output().expect("run wasmkeep");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        assert!(said.contains("index.db") && said.contains("ove it away"), "{what}: {said}");
    }
    fs::rename(&index, index.with_extension("damaged")).expect("move it away, as it says");
    node.start_again();
    node.actor("probe/b").ran(1);
    assert_eq!(node.actor("probe/a").alarms().len(), 1);
}

#[test]
fn no_answered_alarm_is_lost_when_the_server_is_killed() {
    const WORKERS: usize = 6;
    let mut node = Node::probe().flag("--max-instances", "40").start();
    for round in 0..4 {
        let answered = Mutex::new(Vec::new());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (node, answered, over) = (&node, &answered, &over);
                scope.spawn(move || {
                    for i in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                        let name = format!("probe/a{round}-{worker}-{i}");
                        let set = format!("/alarm?in={}", i % 7 * 40);
                        let set = node.actor(&name).try_send("POST", &set, &[], &[]);
                        if set.is_ok_and(|answer| answer.status == 200) {
                            answered.lock().expect("no panic").push(name);
                        }
                    }
                });
            }
            let _end_of_setting = SetAtTheEnd(&over);
            eventually("many are answered", || answered.lock().expect("no panic").len() > 150);
            // SAFETY: the node was not waited for, so this is its process.
            unsafe { libc::kill(node.pid() as i32, libc::SIGKILL) };
        });
        node.kill();
        node.start_again();
        for name in answered.into_inner().expect("no panic") {
            let actor = node.actor(&name);
            eventually(&format!("the alarm of {name} fires"), || {
                let asked = actor.get("/alarms");
                asked.status == 200 && asked.json() != json!([])
            });
        }
    }
    node.stop_cleanly();
    assert_eq!(node.indexed_alarms(), []);
}
