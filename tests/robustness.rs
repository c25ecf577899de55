//! Clients that stop, disks that fill, and every fault at once: what is left when they are gone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::support::{Actor, Disk, Node, Raw, SetAtTheEnd, SmallDisk, eventually, in_parallel};

const CLIENT: &str = "WASMKEEP_TEST_CLIENT";
const MIB: usize = 1024 * 1024;

/// A client in a process of its own, so that it can be stopped as a whole: it sends a large body or
/// reads a large answer, both slowly, and says when it is in the middle.
#[test]
#[ignore = "the child of the tests below"]
fn client_child() {
    let Ok(order) = std::env::var(CLIENT) else { return };
    let (what, node) = order.split_once(' ').expect("an order");
    let mut stream = TcpStream::connect(node).expect("connect to the node");
    let piece = vec![b'x'; 64 * 1024];
    let middle = |done: usize| {
        if done == 2 * MIB {
            println!("in the middle");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if what == "send" {
        let head = "POST /actor/probe/slow/echo HTTP/1.1\r\nhost: test\r\n";
        let length = 15 * MIB;
        write!(stream, "{head}content-length: {length}\r\n\r\n").expect("send");
        for done in (piece.len()..=length).step_by(piece.len()) {
            stream.write_all(&piece).expect("send");
            middle(done);
        }
    } else {
        let target = "/actor/probe/slow/stream?chunks=64&size=1048576";
        write!(stream, "GET {target} HTTP/1.1\r\nhost: test\r\n\r\n").expect("send");
        let mut piece = piece;
        for done in (piece.len()..).step_by(piece.len()) {
            if stream.read_exact(&mut piece).is_err() {
                return;
            }
            middle(done);
        }
    }
}

struct Client(Child);

impl Client {
    /// Starts one, and stops it in the middle.
    fn stopped_in_the_middle(what: &str, node: &Node) -> Self {
        let own = std::env::current_exe().expect("this executable");
        let mut child = Command::new(own)
            .args(["--exact", "robustness::client_child", "--ignored", "--nocapture"])
            .env(CLIENT, format!("{what} {}", node.address()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start a client");
        let said = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut lines = said.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("in the middle")), "the client came so far");
        let client = Self(child);
        client.signal(libc::SIGSTOP);
        client
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.0.id()).expect("a process id fits");
        // SAFETY: a child that was not waited for keeps its id.
        unsafe { libc::kill(pid, signal) };
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn idle(node: &Node) -> bool {
    node.metric("wasmkeep_resident_actors", &[]) == 0.0
}

#[test]
fn a_client_stopped_in_the_middle_costs_its_actor_one_wall_and_others_nothing() {
    for (what, goes_on) in [("send", true), ("send", false), ("read", true), ("read", false)] {
        let setup = Node::probe().flag("--wall-budget-ms", "2000").flag("--idle-timeout-secs", "1");
        let node = setup.start();
        let other = node.actor("probe/other");
        assert_eq!(other.get("/memory").text(), "1");
        let before = node.descriptors();
        let client = Client::stopped_in_the_middle(what, &node);
        for asked in 2..30 {
            assert_eq!(other.get("/memory").text(), asked.to_string(), "{what}");
        }
        // It waits behind the stopped client's event, which ends by its wall.
        assert_eq!(node.actor("probe/slow").get("/hello").text(), "hello", "{what}");
        let failed = node.metric("wasmkeep_events_total", &[r#"outcome="failed""#]);
        assert_eq!(failed, 1.0, "{what}: the event of the client that stopped");
        if goes_on {
            client.signal(libc::SIGCONT);
        }
        drop(client);
        eventually("the node is idle", || idle(&node));
        eventually("the socket is closed", || node.descriptors() <= before);
    }
}

/// Statements of the actor, one an event, until one fails; how many did not.
fn write_until_full(actor: &Actor) -> (usize, Json) {
    let insert = "INSERT INTO t (x) VALUES (randomblob(100000))";
    for written in 0..2_000 {
        let result = actor.one("exec-durable", insert);
        if result["changed"] != 1 {
            return (written, result);
        }
    }
    panic!("200 MB went on the disk");
}

#[track_caller]
fn is_told(result: &Json) {
    let case = result["error"]["case"].as_str();
    assert!(matches!(case, Some("internal" | "quota-exceeded")), "{result}");
}

fn rows(actor: &Actor) -> u64 {
    actor.query("SELECT count(*) FROM t")[0][0].as_u64().expect("a number of rows")
}

/// What must hold on a full disk, and once there is room again.
fn a_full_disk(mut node: Node, fill: impl FnOnce(), free: impl FnOnce()) {
    let (actor, alarmed) = (node.actor("probe/a"), node.actor("probe/alarmed"));
    let (victim, quiet) = (node.actor("probe/victim"), node.actor("probe/nostore-quiet"));
    for actor in [&actor, &victim] {
        actor.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, x)");
        actor.exec("INSERT INTO t (x) VALUES ('early')");
    }
    assert!(alarmed.post("/alarm?in=3600000", "").json()["at"].is_number());
    fill();

    let (written, error) = write_until_full(&actor);
    is_told(&error);
    let kept = written as u64 + 1;
    let found = rows(&actor);
    assert!(found == kept || found == kept + 1, "{found} of {kept} rows");
    // Whatever needs the disk says so; nothing is done by half, and nothing else is touched.
    for n in 0..20 {
        let new = node.actor(&format!("probe/new{n}"));
        let answer = new.get("/init");
        assert!([200, 500, 503, 507].contains(&answer.status), "{answer:?}");
        let silent = node.actor(&format!("probe/nostore{n}")).get("/hello");
        assert!([200, 500, 503].contains(&silent.status), "{silent:?}");
        let set = alarmed.post("/alarm?in=7200000", "");
        assert!([200, 500, 503].contains(&set.status), "{set:?}");
        let cleared = alarmed.send("DELETE", "/alarm", &[], &[]);
        assert!([200, 500, 503].contains(&cleared.status), "{cleared:?}");
    }
    assert_eq!(rows(&victim), 1, "reading needs no room");
    assert_eq!(node.get("/_wasmkeep/health").status, 200);
    let refused = actor.one("exec", "UPDATE t SET x = randomblob(200000) WHERE id = 1");
    is_told(&refused);
    let deleted = victim.steps(json!([{ "op": "delete-self-durable" }]));
    assert_eq!(deleted[0], json!({ "deleted": true }), "deleting needs no room");

    free();
    let found = rows(&actor);
    assert!(found == kept || found == kept + 1, "{found} of {kept} rows");
    assert_eq!(actor.one("exec-durable", "INSERT INTO t (x) VALUES ('late')")["changed"], 1);
    assert_eq!(node.actor("probe/new0").get("/init").text(), "1");
    assert_eq!(quiet.get("/hello").text(), "hello");
    assert!(alarmed.post("/alarm?in=0", "").json()["at"].is_number());
    eventually("the alarm runs", || alarmed.get("/alarms").json()[0].is_array());
    assert_eq!(victim.get("/init").text(), "1", "it began anew");

    node.restart();
    let actor = node.actor("probe/a");
    assert_eq!(rows(&actor), found + 1);
    assert_eq!(actor.query("PRAGMA integrity_check"), json!([["ok"]]));
    assert_eq!(actor.query("SELECT x FROM t WHERE id = 1"), json!([["early"]]));
}

#[test]
fn on_a_small_disk_that_is_full_nothing_committed_is_lost() {
    let Some(disk) = SmallDisk::mount(32) else { return };
    let node = Node::probe().home(disk.path()).errors_are_fine().start();
    a_full_disk(node, || disk.fill(600_000), || disk.free());
}

/// Where mounting is not allowed, this is the disk that is full: writes of the databases fail.
#[test]
fn when_every_write_finds_the_disk_full_nothing_committed_is_lost() {
    let disk = Disk::new();
    let node = disk.under(Node::probe()).errors_are_fine().start();
    a_full_disk(node, || disk.fail("write", ""), || disk.mend());
}

/// The same seed gives the same requests to each client, in the same order.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const ACTORS: u64 = 60;
const WORKERS: usize = 16;

fn sql(steps: Json) -> Vec<u8> {
    json!({ "steps": steps }).to_string().into_bytes()
}

/// One request that may go wrong in any way. Returns whether the connection can be used again.
fn misbehave(client: &mut Raw, random: &mut Random) -> bool {
    let base = format!("/actor/probe/n{}", random.below(ACTORS));
    // Those that are called call nobody: two that call each other wait for the deadline.
    let other = format!("probe/called{}", random.below(ACTORS / 4));
    let insert = json!({ "op": "exec", "sql": "INSERT INTO t VALUES (1)" });
    let table = json!({ "op": "exec", "sql": "CREATE TABLE IF NOT EXISTS t (x)" });
    let answer = match random.below(80) {
        // Clients that leave: at once, with half a head, with half a body, before a long answer.
        0 => {
            client.send(format!("GET {base}/wait?ms=20 HTTP/1.1\r\nhost: test\r\n\r\n"));
            return false;
        }
        1 => {
            client.send(format!("GET {base}/hello HTTP/1.1\r\nhost: te"));
            return false;
        }
        2 => {
            let head = format!("POST {base}/echo HTTP/1.1\r\nhost: test\r\ncontent-length: 50000");
            client.send(format!("{head}\r\n\r\nonly this"));
            return false;
        }
        3 => {
            let target = format!("{base}/stream?chunks=50&size=20000");
            client.send(format!("GET {target} HTTP/1.1\r\nhost: test\r\n\r\n"));
            let _ = client.head();
            return false;
        }
        4 => {
            let head = format!("POST {base}/echo-body?stream=1 HTTP/1.1\r\nhost: test\r\n");
            let _ = client.try_send(format!("{head}transfer-encoding: chunked\r\n\r\n4\r\nabcdzz"));
            return false;
        }
        5 => {
            // The trap comes before the head has left, or cuts the connection after it.
            client.send(format!("GET {base}/stream-trap HTTP/1.1\r\nhost: test\r\n\r\n"));
            let _ = client.answer();
            return false;
        }
        6 => client.get(&format!("{base}/trap")),
        7 => client.get(&format!("{base}/panic")),
        8 => client.get(&format!("{base}/loop")),
        9 => client.get(&format!("{base}/nothing")),
        10 => client.get(&format!("{base}/error")),
        11 => client.get(&format!("{base}/trap-in-transaction")),
        12 => client.post(&format!("{base}/sql"), b"{\"steps\": [{\"op\": \"unknown\"}]"),
        13 => client.post(&format!("{base}/sql"), &sql(json!([table, { "op": "delete-self" }]))),
        14 => client.post(&format!("{base}/sql"), &sql(json!([{ "op": "delete-self-durable" }]))),
        15 => client.post(&format!("{base}/alarm?in={}", random.below(2_000)), b""),
        16 => {
            client.send(format!("DELETE {base}/alarm HTTP/1.1\r\nhost: test\r\n\r\n"));
            client.answer().expect("an answer")
        }
        17 => client.get(&format!("{base}/call?target={other}&path=/memory")),
        18 => client.get(&format!("{base}/call?target={other}&path=/trap")),
        19 => client.get(&format!("{base}/call-many?target={other}&target=probe/x%2Fy&path=/loop")),
        20 => client.get("/actor/nowhere/n1/"),
        21 => client.post(&format!("{base}/ignore-body"), &vec![b'x'; 100_000]),
        22..30 => client.post(&format!("{base}/sql"), &sql(json!([table, insert]))),
        _ => client.get(&format!("{base}/memory")),
    };
    let expected = [200, 400, 404, 409, 429, 500, 503].contains(&answer.status);
    assert!(expected, "{answer:?}");
    if answer.status == 503 {
        assert!(answer.header("x-wasmkeep-reason").is_some(), "{answer:?}");
    }
    answer.header("connection") != Some("close")
}

fn misbehave_often(node: &Node, requests: usize, seed: u64) {
    in_parallel(WORKERS, |worker| {
        let mut random = Random(seed + worker as u64);
        let mut client = node.raw();
        for _ in 0..requests / WORKERS {
            if !misbehave(&mut client, &mut random) {
                client = node.raw();
            }
        }
    });
}

/// What a node holds once its actors sleep: memory, descriptors, threads.
fn at_rest(node: &Node) -> (u64, usize, u64) {
    eventually("every actor sleeps", || idle(node));
    let mut last = usize::MAX;
    eventually("its descriptors stay as many", || {
        std::thread::sleep(Duration::from_millis(100));
        let now = node.descriptors();
        std::mem::replace(&mut last, now) == now
    });
    (node.resident_kib(), last, node.threads())
}

/// `WASMKEEP_TEST_REQUESTS` says how many, if not 50,000.
#[test]
fn after_fifty_thousand_requests_with_every_fault_the_node_is_as_before() {
    let requests = std::env::var("WASMKEEP_TEST_REQUESTS").ok();
    let requests: usize = requests.map_or(50_000, |text| text.parse().expect("a number"));
    let node = Node::probe()
        .flag("--max-instances", "64")
        .flag("--idle-timeout-secs", "1")
        .flag("--wall-budget-ms", "2000")
        .flag("--cpu-budget-ms", "3")
        .variable("WASMKEEP_LOG", "error")
        .start();
    misbehave_often(&node, requests / 5, 1);
    let before = at_rest(&node);
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(node.get("/_wasmkeep/health").status, 200);
                asked.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let _end_of_asking = SetAtTheEnd(&over);
        misbehave_often(&node, requests - requests / 5, 1_000);
    });
    let after = at_rest(&node);
    let shown = format!("from {before:?} to {after:?} (KiB, descriptors, threads)");
    assert!(asked.into_inner() > 20, "health answered all the time");
    assert!(after.0 < before.0 + 24 * 1024, "{shown}");
    assert!(after.1 <= before.1 + 4, "{shown}");
    // The runtime ends threads it had to add a while after their last work.
    eventually(&format!("threads end, {shown}"), || node.threads() <= before.2 + 4);
    // Nobody waits: what is asked now is answered at once, by an actor of each state.
    for n in 0..ACTORS {
        assert_eq!(node.actor(&format!("probe/n{n}")).get("/hello").text(), "hello");
    }
    assert_eq!(node.metric("wasmkeep_process_exits_total", &[]), 0.0, "no process of the server's");
}
