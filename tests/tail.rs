//! `wasmkeep tail`: what it tells, what it leaves out, and how it ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value as Json, json};

use crate::support::{Node, eventually, in_parallel, wasmkeep};

/// A running `wasmkeep tail`.
struct Tail {
    child: Child,
    printed: Arc<Mutex<String>>,
    said: Arc<Mutex<String>>,
}

impl Tail {
    /// Starts it, and returns once it listens.
    fn start(node: &Node, arguments: &[&str]) -> Self {
        let mut command = wasmkeep();
        command.arg("tail").args(arguments).arg("--data-dir").arg(node.data_dir());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("run wasmkeep");
        let printed = gather(child.stdout.take().expect("a pipe"));
        let said = gather(child.stderr.take().expect("a pipe"));
        let tail = Self { child, printed, said };
        eventually("it listens", || text(&tail.said).contains("listening"));
        tail
    }

    fn text(&self) -> String {
        text(&self.printed)
    }

    fn records(&self) -> Vec<Json> {
        let text = self.text();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Waits for a record of this kind that has all of these fields.
    #[track_caller]
    fn record(&self, kind: &str, fields: Json) -> Json {
        let fields = fields.as_object().expect("fields").clone();
        let mut found = Json::Null;
        eventually(&format!("a record {kind} {fields:?}"), || {
            let records = self.records();
            let fits = |record: &&Json| {
                record["kind"] == kind && fields.iter().all(|(name, value)| record[name] == *value)
            };
            found = records.iter().find(fits).cloned().unwrap_or_default();
            !found.is_null()
        });
        found
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a process id fits");
        // SAFETY: a child that was not waited for keeps its id.
        unsafe { libc::kill(pid, signal) };
    }

    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("it ends", || {
            status = self.child.try_wait().expect("ask for its end");
            status.is_some()
        });
        status.expect("it ended")
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gather(from: impl std::io::Read + Send + 'static) -> Arc<Mutex<String>> {
    let gathered = Arc::new(Mutex::new(String::new()));
    let to = Arc::clone(&gathered);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
            to.push_str(&line);
            to.push('\n');
        }
    });
    gathered
}

fn text(gathered: &Mutex<String>) -> String {
    gathered.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[test]
fn tail_tells_events_calls_alarms_logs_and_who_comes_and_goes() {
    let node = Node::probe().flag("--idle-timeout-secs", "1").start();
    let tail = Tail::start(&node, &["--json"]);
    let a = node.actor("probe/room%201");
    a.get("/hello?token=secret").text();
    let record = tail.record("request", json!({ "name": "room 1", "path": "/hello" }));
    let expected = json!({
        "at_ms": record["at_ms"], "took_ms": record["took_ms"], "kind": "request",
        "class": "probe", "name": "room 1", "method": "GET", "path": "/hello",
        "status": 200, "outcome": "answered",
    });
    assert_eq!(record, expected);
    assert!(record["at_ms"].as_u64() > Some(1_700_000_000_000));
    assert!(record["took_ms"].as_f64() > Some(0.0));
    tail.record("wake", json!({ "name": "room 1" }));

    a.post("/call?target=probe/b&path=/hello", "").text();
    let caller = "default/probe/room%201";
    tail.record("call", json!({ "name": "b", "caller": caller, "outcome": "answered" }));
    let out = json!({ "name": "room 1", "target": "probe/b", "status": 200 });
    tail.record("call-out", out);
    a.post("/call?target=probe/room%201&path=/hello", "");
    tail.record("call-out", json!({ "outcome": "reentrant" }));

    a.post("/alarm?in=0", "").text();
    tail.record("alarm", json!({ "name": "room 1", "attempt": 1, "outcome": "answered" }));
    node.actor("probe/badalarm").post("/alarm?in=0", "").text();
    let failed = json!({ "attempt": 2, "outcome": "failed", "reason": "handler-failed" });
    tail.record("alarm", failed);

    a.get("/log?text=hello-log").text();
    for stream in ["stdout", "stderr"] {
        tail.record("log", json!({ "name": "room 1", "stream": stream, "text": "hello-log" }));
    }
    let many: String = (0..80).map(|line| format!("{line}%0A")).collect();
    node.actor("probe/loud").get(&format!("/log?text={many}")).text();
    let dropped = tail.record("log", json!({ "name": "loud", "text": null }));
    assert_eq!(dropped["dropped"], 62, "{dropped}");

    node.actor("probe/c").get("/trap").refused(500, "trapped", "ran");
    tail.record("request", json!({ "outcome": "failed", "reason": "trapped", "status": 500 }));
    node.get("/actor/unknown/a").refused(404, "not-found", "not-run");
    let refused = json!({ "class": "unknown", "outcome": "refused", "reason": "not-found" });
    tail.record("request", refused);
    tail.record("hibernate", json!({ "name": "room 1", "cause": "idle" }));
    assert!(!tail.text().contains("secret"), "a query was shown unasked");
    assert_eq!(node.metric("wasmkeep_tail_listeners", &[]), 1.0);
    drop(tail);
    eventually("nobody listens", || node.metric("wasmkeep_tail_listeners", &[]) == 0.0);
}

#[test]
fn tail_tells_only_what_is_asked_for() {
    let node = Node::probe().class("other", "guest-probe.wasm").start();
    let of_class = Tail::start(&node, &["other", "--json"]);
    let of_actor = Tail::start(&node, &["probe/a", "--json"]);
    let of_kinds = Tail::start(&node, &["--kind", "log", "--kind", "wake", "--json"]);
    let with_query = Tail::start(&node, &["--query", "--json"]);
    let as_text = Tail::start(&node, &["probe/a", "--kind", "request"]);
    for actor in ["probe/a", "probe/b", "other/a"] {
        node.actor(actor).get("/log?text=hello").text();
    }
    let last = json!({ "class": "other", "path": "/log?text=hello" });
    with_query.record("request", last);
    node.actor("probe/a").get("/hello").text();
    node.actor("other/a").get("/hello").text();
    of_class.record("request", json!({ "path": "/hello" }));
    of_actor.record("request", json!({ "path": "/hello" }));
    of_kinds.record("wake", json!({ "class": "other" }));
    assert!(of_class.records().iter().all(|record| record["class"] == "other"));
    let of_a = |record: &Json| record["class"] == "probe" && record["name"] == "a";
    assert!(of_actor.records().iter().all(of_a));
    let kinds = of_kinds.records();
    assert!(kinds.iter().all(|record| record["kind"] == "log" || record["kind"] == "wake"));
    eventually("two lines of text", || as_text.text().lines().count() == 2);
    let text = as_text.text();
    let line = text.lines().nth(1).expect("a second line");
    assert!(line.contains("request    probe/a "), "{line}");
    assert!(line.contains("  GET /hello  200  answered  ") && line.ends_with(" ms"), "{line}");
}

#[test]
fn a_reader_that_does_not_read_is_told_what_it_lost_where_it_is_missing() {
    let node = Node::probe().start();
    let mut client = UnixStream::connect(node.data_dir().join("admin.sock")).expect("a socket");
    let request = json!({
        "version": 1, "command": "tail", "tenant": "default", "app": "default",
        "kinds": [], "query": false,
    });
    writeln!(client, "{request}").expect("it reads");
    let mut lines = BufReader::new(client).lines().map(|line| -> Json {
        serde_json::from_str(&line.expect("a line")).expect("a line of JSON")
    });
    assert_eq!(lines.next().expect("a line")["line"], "listening");
    // Each logs what one actor may in a second.
    let text = format!("{}%0A", "x".repeat(100)).repeat(50);
    in_parallel(2, |who| {
        for actor in 0..60 {
            node.actor(&format!("probe/a{who}-{actor}")).get(&format!("/log?text={text}")).text();
        }
    });
    // A record for each wake, each event and each line.
    let told = |name: &str| node.metric(name, &[]) as u64;
    eventually("all events have ended", || told("wasmkeep_events_total") == 120);
    assert_eq!(told("wasmkeep_tail_records_lost_total"), 0, "told before it is met");
    node.actor("probe/last").get("/hello").text();
    let (mut seen, mut gaps) = (0, Vec::new());
    for line in &mut lines {
        match line["line"].as_str() {
            Some("gap") => gaps.push(line["lost"].as_u64().expect("a number")),
            _ => seen += 1,
        }
        if line["name"] == "last" && line["kind"] == "request" {
            break;
        }
    }
    let lost: u64 = gaps.iter().sum();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(lost > 0, "{lost}");
    eventually("the last event is counted", || told("wasmkeep_events_total") == 121);
    let dropped = 120;
    let happened = told("wasmkeep_wakes_total")
        + told("wasmkeep_events_total")
        + told("wasmkeep_guest_log_lines_total");
    assert!((happened..=happened + dropped).contains(&(seen + lost)), "{seen} {lost} {happened}");
    assert_eq!(told("wasmkeep_tail_records_lost_total"), lost);
    // It hears again.
    node.actor("probe/last").get("/hello").text();
    assert_eq!(lines.next().expect("a line")["name"], "last");
}

#[test]
fn tail_ends_with_its_operator_and_with_the_node() {
    let mut node = Node::probe().start();
    let mut interrupted = Tail::start(&node, &[]);
    interrupted.signal(libc::SIGINT);
    assert_eq!(interrupted.ends().code(), Some(0));

    let mut tail = Tail::start(&node, &["--json"]);
    node.actor("probe/a").get("/hello").text();
    node.stop_cleanly();
    assert_eq!(tail.ends().code(), Some(0));
    eventually("it says why", || text(&tail.said).contains("the node stopped"));
    // What happened on the way out is told, too.
    tail.record("hibernate", json!({ "name": "a", "cause": "stopping" }));

    let output = wasmkeep().args(["tail", "--data-dir"]).arg(node.data_dir()).output();
    let output = output.expect("run wasmkeep");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("no node runs"), "{stderr}");

    node.start_again();
    let mut tail = Tail::start(&node, &[]);
    node.kill();
    assert_eq!(tail.ends().code(), Some(1), "an answer without an end is none");
}

#[test]
fn wrong_usage_of_tail_ends_with_2() {
    for wrong in [&["Probe"][..], &["probe/"], &["probe/a/b"], &["--kind", "all"]] {
        let output = wasmkeep().arg("tail").args(wrong).output().expect("run wasmkeep");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
