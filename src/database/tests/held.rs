//! Holds over real databases: what SQLite wrote on one node is what the next one opens.

use std::path::Path;

use wasmkeep_supervisors::address::NodeId;
use wasmkeep_supervisors::lease::{Session, Validity};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::node::{Peers, PeersParts};
use wasmkeep_supervisors::ownership::{Owners, OwnersParts};
use wasmkeep_supervisors::ports::{Databases, Meta, Steady};
use wasmkeep_supervisors::replica::{Held, Holding, ReplicaParts, ReplicaSupervisor, Replicas};
use wasmkeep_supervisors::testing::{ManualClock, MemoryBucket, SeededRandom, SteadyClock};

use super::history::captured;
use super::*;

struct World {
    bucket: MemoryBucket,
    clock: Arc<SteadyClock>,
    wall: ManualClock,
    random: Arc<SeededRandom>,
}

struct Holder {
    replicas: Arc<Replicas>,
    databases: Arc<LocalDatabases>,
}

struct Awake {
    held: Held,
    database: Box<dyn Database>,
}

impl World {
    fn new() -> Self {
        let wall = ManualClock::new(1_700_000_000_000);
        let (clock, random) = (Arc::new(SteadyClock::new()), Arc::new(SeededRandom::new(3)));
        Self { bucket: MemoryBucket::new(wall.clone()), clock, wall, random }
    }

    async fn node(&self, name: &str, directory: &Path) -> Holder {
        let node = NodeId::parse(name).expect("a legal node");
        let (clock, random) = (self.clock.clone(), self.random.clone());
        let bucket = Arc::new(self.bucket.clone());
        let validity = Validity::new(clock.clone());
        let horizon = clock.now().plus(Duration::from_secs(1000));
        validity.begin(Session::draw(&*random), horizon, None);
        let peers = Arc::new(Peers::new(PeersParts {
            bucket: bucket.clone(),
            clock: clock.clone(),
            random: random.clone(),
            validity: validity.clone(),
            node: node.clone(),
        }));
        let owners = Arc::new(Owners::new(OwnersParts {
            bucket: bucket.clone(),
            clock: clock.clone(),
            random: random.clone(),
            validity,
            peers,
            node,
            app: App::default_app(),
        }));
        let databases = Arc::new(databases(directory, captured()));
        let replicas = Replicas::new(ReplicaParts {
            bucket,
            clock,
            random,
            owners,
            files: databases.clone(),
            wall: Arc::new(self.wall.clone()),
            metrics: Arc::new(Metrics::new().expect("a registry of its own")),
            retention: Duration::ZERO,
        });
        ReplicaSupervisor::start(replicas.clone()).await.expect("it starts");
        Holder { replicas, databases }
    }
}

impl Holder {
    async fn wake(&self) -> Awake {
        let held = match self.replicas.hold(&address("a")).await {
            Ok(Holding::Here(held)) => held,
            Ok(Holding::Elsewhere(node)) => panic!("{node} has it"),
            Err(error) => panic!("{error}"),
        };
        let mut awake =
            Awake { held, database: self.databases.open(&address("a")).expect("it opens") };
        let capturing = awake.database.capturing().expect("it is captured");
        awake.held.opened(capturing).await.expect("it may be adopted");
        awake
    }
}

impl Awake {
    fn run(&mut self, sql: &str) {
        self.database.begin_event(in_30_s());
        self.database.exec(sql, Vec::new()).unwrap_or_else(|error| panic!("{sql}: {error}"));
        self.database.end_event().expect("a working disk");
        self.held.event_ended(self.database.capturing()).expect("it captures");
    }

    fn count(&mut self) -> Vec<Vec<SqlValue>> {
        self.database.begin_event(in_30_s());
        let rows = self.database.query("SELECT count(*), sum(v) FROM t", Vec::new());
        rows.expect("it reads").rows
    }

    async fn durable(&mut self) {
        self.held.durable(self.database.capturing()).await.expect("it is durable");
    }

    async fn leave(self) {
        self.held.leave(Some(self.database), None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_moves_between_nodes_with_all_it_wrote() {
    let (world, here, there) = (World::new(), directory(), directory());
    let (first, second) =
        (world.node("n1", here.path()).await, world.node("n2", there.path()).await);
    let mut random = Random(11);
    let mut expected = Vec::new();
    for round in 0..12 {
        let node = if round % 3 == 0 { &second } else { &first };
        let mut actor = node.wake().await;
        actor.run("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v, pad)");
        if round > 0 {
            assert_eq!(actor.count(), expected, "round {round}");
        }
        for _ in 0..random.below(25) {
            let pad = random.below(9000);
            actor.run(&format!("INSERT INTO t (v, pad) VALUES ({round}, zeroblob({pad}))"));
            if random.below(6) == 0 {
                actor.run("DELETE FROM t WHERE id % 5 = 0");
            }
            if random.below(4) == 0 {
                actor.durable().await;
            }
        }
        expected = actor.count();
        actor.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_before_moves_into_the_cluster() {
    let (world, here, there) = (World::new(), directory(), directory());
    let alone = databases(here.path(), patient());
    let mut database = alone.open_file(&address("a")).expect("it opens");
    database.begin_event(in_30_s());
    database.run_ok("CREATE TABLE t (v)");
    database.run_ok("INSERT INTO t VALUES (7), (8)");
    Box::new(database).close().expect("a working disk");
    drop(alone);
    let first = world.node("n1", here.path()).await;
    let mut actor = first.wake().await;
    actor.run("INSERT INTO t VALUES (9)");
    // More pages than are read and written on the thread of an actor.
    actor.run("CREATE TABLE pads (pad)");
    actor.run("INSERT INTO pads VALUES (randomblob(3000000))");
    actor.leave().await;
    let second = world.node("n2", there.path()).await;
    let mut actor = second.wake().await;
    assert_eq!(actor.count(), [[SqlValue::Integer(3), SqlValue::Integer(24)]]);
    let check = actor.database.query("PRAGMA integrity_check", Vec::new()).expect("it reads");
    assert_eq!(check.rows, [[SqlValue::Text("ok".into())]]);
    actor.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_actor_is_empty_everywhere() {
    let (world, here, there) = (World::new(), directory(), directory());
    let first = world.node("n1", here.path()).await;
    let mut actor = first.wake().await;
    actor.run("CREATE TABLE t (v)");
    actor.run("INSERT INTO t VALUES (7)");
    actor.durable().await;
    drop(actor.database);
    first.databases.remove(&address("a")).expect("it is removed");
    actor.database = first.databases.open(&address("a")).expect("it opens");
    actor.database.set_meta(Meta::InitComponent, Some("c0")).expect("it writes");
    let capturing = actor.database.capturing().expect("it is captured");
    actor.held.reset(capturing).await.expect("the deletion is durable");
    actor.leave().await;
    let second = world.node("n2", there.path()).await;
    let mut actor = second.wake().await;
    actor.database.begin_event(in_30_s());
    assert!(actor.database.query("SELECT * FROM t", Vec::new()).is_err(), "it is still there");
    let component = actor.database.meta(Meta::InitComponent).expect("it reads");
    assert_eq!(component.as_deref(), Some("c0"));
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}
