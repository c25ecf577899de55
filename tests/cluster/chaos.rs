//! Kills, pauses, cut networks and failures of the bucket, one after another, under a workload whose every
//! acknowledged write is looked for at the end. `cargo xtask chaos --minutes N` runs it for longer and
//! prints the report that docs/internals/measured.md keeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use wasmkeep_testbucket::{Fault, Operation, What};

use super::serves;
use crate::support::{Actor, Cluster, Node, SetAtTheEnd, Way};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ACTORS: usize = 9;
/// For each actor: while one event runs others wait, and their durable writes share uploads.
const WRITERS: usize = 3;
/// In the test command; long enough for one trouble of each kind.
const SECONDS: u64 = 75;

#[test]
fn nothing_acknowledged_is_lost_in_a_chaos() {
    let seconds = std::env::var("WASMKEEP_CHAOS_SECS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let cluster = Cluster::new();
    let ways: Vec<Way> = NODES.iter().map(|_| Way::to(&cluster.store)).collect();
    let nodes: Vec<Mutex<Node>> = NODES
        .iter()
        .zip(&ways)
        .map(|(name, way)| Mutex::new(cluster.node_behind(name, way).errors_are_fine().start()))
        .collect();
    let chaos = Chaos { cluster: &cluster, nodes, ways, troubles: Mutex::default() };
    for actor in 0..ACTORS {
        chaos.actor(actor % NODES.len(), actor).exec("CREATE TABLE t (id PRIMARY KEY, event)");
    }
    let written = chaos.run(Duration::from_secs(seconds));
    chaos.mend();
    let report = chaos.check(&written);
    println!("{report}");
}

struct Chaos<'a> {
    cluster: &'a Cluster,
    nodes: Vec<Mutex<Node>>,
    ways: Vec<Way>,
    /// What was done, and when.
    troubles: Mutex<Vec<&'static str>>,
}

/// What one writer knows of its actor.
#[derive(Default)]
struct Written {
    /// Durable ids that were acknowledged.
    acknowledged: Vec<i64>,
    /// Ids of which nothing is known, or that were refused.
    unsure: usize,
    /// Between two acknowledgements, when that was longer than a second.
    gaps: Vec<Duration>,
}

impl Written {
    fn add(&mut self, other: Self) {
        self.acknowledged.extend(other.acknowledged);
        self.unsure += other.unsure;
        self.gaps.extend(other.gaps);
    }
}

impl Chaos<'_> {
    fn node(&self, at: usize) -> std::sync::MutexGuard<'_, Node> {
        self.nodes[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a client of that node reaches it now; it may be started anew on another port.
    fn actor(&self, node: usize, actor: usize) -> Actor {
        self.node(node).actor(&format!("probe/a{actor}"))
    }

    fn run(&self, time: Duration) -> Vec<Written> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let over = &over;
            let writers: Vec<_> = (0..ACTORS * WRITERS)
                .map(|all| scope.spawn(move || self.write(all % ACTORS, all / ACTORS, over)))
                .collect();
            let ended = SetAtTheEnd(over);
            let began = Instant::now();
            for round in 0.. {
                if began.elapsed() >= time {
                    break;
                }
                self.trouble(round);
            }
            drop(ended);
            let mut written: Vec<Written> = (0..ACTORS).map(|_| Written::default()).collect();
            for (all, writer) in writers.into_iter().enumerate() {
                written[all % ACTORS].add(writer.join().expect("a writer"));
            }
            written
        })
    }

    /// One trouble, and some time to get over it. Each kind comes in turn, and each node.
    fn trouble(&self, round: usize) {
        let victim = round % NODES.len();
        let wait = |seconds: u64| sleep(Duration::from_secs(seconds));
        let what = match round % 5 {
            0 => {
                self.node(victim).kill();
                wait(2 + (round as u64 % 3) * 8);
                self.node(victim).start_again();
                "killed"
            }
            1 => {
                self.node(victim).pause();
                wait(4 + (round as u64 % 4) * 6);
                self.node(victim).go_on();
                "paused"
            }
            2 => {
                self.ways[victim].cut();
                wait(3 + (round as u64 % 4) * 6);
                self.ways[victim].mend();
                "cut off"
            }
            3 => {
                for (on, what) in [
                    (Operation::Put, What::LostAnswer),
                    (Operation::Put, What::Status(503)),
                    (Operation::Put, What::Late(4000)),
                    (Operation::Put, What::StatusAfterAll(500)),
                    (Operation::Get, What::LostRequest),
                    (Operation::List, What::Status(500)),
                ] {
                    self.cluster.store.fails(&Fault { times: 3, ..Fault::once(on, what) });
                }
                wait(5);
                "bucket failed"
            }
            _ => {
                let mut node = self.node(victim);
                node.stop_cleanly();
                node.start_again();
                "stopped cleanly"
            }
        };
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        wait(2);
    }

    /// Writes one row after another, durable, through one node after another.
    fn write(&self, actor: usize, writer: usize, over: &AtomicBool) -> Written {
        let mut written = Written::default();
        let mut last = Instant::now();
        for id in (1 + writer as i64..).step_by(WRITERS) {
            if over.load(Ordering::Relaxed) {
                break;
            }
            // A node that is being started is not asked: its lock is held.
            let at = (id as usize / WRITERS + actor) % NODES.len();
            let Ok(node) = self.nodes[at].try_lock() else {
                sleep(Duration::from_millis(20));
                continue;
            };
            let asked = node.actor(&format!("probe/a{actor}"));
            drop(node);
            let sql = format!("INSERT INTO t VALUES ({id}, {id}), (-{id}, {id})");
            let body = json!({ "steps": [{ "op": "exec-durable", "sql": sql }] }).to_string();
            let answer = asked.try_send("POST", "/sql", &[], body.as_bytes());
            let done = answer.ok().filter(|answer| answer.status == 200);
            let done = done.and_then(|answer| serde_json::from_slice::<Json>(&answer.body).ok());
            if done.is_some_and(|done| done[0]["changed"] == 2) {
                written.acknowledged.push(id);
                if last.elapsed() > Duration::from_secs(1) {
                    written.gaps.push(last.elapsed());
                }
                last = Instant::now();
            } else {
                written.unsure += 1;
                sleep(Duration::from_millis(50));
            }
        }
        written
    }

    fn mend(&self) {
        self.cluster.store.mend();
        self.ways.iter().for_each(Way::mend);
        for actor in 0..ACTORS {
            serves(&self.actor(actor % NODES.len(), actor));
        }
    }

    /// Every acknowledged row is there, on every node the same, and no half of an event.
    fn check(&self, written: &[Written]) -> String {
        let (mut acknowledged, mut unsure, mut gaps) = (0, 0, Vec::new());
        for (actor, written) in written.iter().enumerate() {
            let rows = "SELECT id FROM t WHERE id > 0 ORDER BY id";
            let seen: Vec<Json> =
                (0..NODES.len()).map(|node| self.actor(node, actor).query(rows)).collect();
            assert!(seen.windows(2).all(|two| two[0] == two[1]), "nodes differ about a{actor}");
            let there: std::collections::HashSet<i64> = seen[0]
                .as_array()
                .expect("rows")
                .iter()
                .filter_map(|row| row[0].as_i64())
                .collect();
            let lost: Vec<_> =
                written.acknowledged.iter().filter(|id| !there.contains(id)).collect();
            assert!(lost.is_empty(), "acknowledged and lost from a{actor}: {lost:?}");
            let torn = self
                .actor(0, actor)
                .query("SELECT event FROM t GROUP BY event HAVING count(*) <> 2");
            assert_eq!(torn, json!([]), "half an event is in a{actor}");
            acknowledged += written.acknowledged.len();
            unsure += written.unsure;
            gaps.extend(written.gaps.iter().copied());
        }
        assert!(acknowledged > ACTORS, "the workload hardly ran");
        gaps.sort();
        let at = |part: f64| {
            let index = ((gaps.len() as f64 - 1.0) * part).round().max(0.0) as usize;
            gaps.get(index).map_or(0.0, Duration::as_secs_f64)
        };
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |what: &str| troubles.iter().filter(|had| **had == what).count();
        format!(
            "chaos: {acknowledged} durable writes acknowledged on {ACTORS} actors, 0 lost; {unsure} refused \
             or unknown\n\
             troubles: {} killed, {} paused, {} cut off, {} bucket failed, {} stopped cleanly\n\
             {} interruptions of a client beyond 1 s: p50 {:.1} s, p99 {:.1} s, longest {:.1} s",
            count("killed"),
            count("paused"),
            count("cut off"),
            count("bucket failed"),
            count("stopped cleanly"),
            gaps.len(),
            at(0.5),
            at(0.99),
            at(1.0),
        )
    }
}
