//! Holds of several nodes, their databases and what becomes of both, over a bucket that fails.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::address::{ActorName, Address, App, Class, NodeId, Tenant};
use crate::bucket::Nonce;
use crate::history::{HistoryPrefix, Object, ObjectKey, Position};
use crate::lease::{LeaseRecord, LeaseState, Load, Session, Validity, lease_key};
use crate::limits::{LEASE_GRACE, LEASE_TTL};
use crate::metrics::Metrics;
use crate::node::{Peers, PeersParts};
use crate::ownership::{Owners, OwnersParts};
use crate::ports::{Bucket as _, BucketTime, Cond, Database, Databases as _, Steady as _, Wait};
use crate::testing::{
    BucketFault, FaultyBucket, ManualClock, MemoryBucket, MemoryDatabases, Operation, SeededRandom,
    SteadyClock,
};
use crate::twin::{Twin, leave_out};

mod collecting;
mod endings;
mod late;
mod random;
mod restoring;
mod shipping;

const LONG: Duration = Duration::from_secs(100_000);
const BUCKET_TIME: u64 = 1_700_000_000_000;

struct World {
    memory: MemoryBucket,
    bucket: Arc<FaultyBucket>,
    /// The bucket's.
    wall: ManualClock,
    clock: Arc<SteadyClock>,
    random: Arc<SeededRandom>,
    retention: Duration,
}

struct Node {
    replicas: Arc<Replicas>,
    databases: MemoryDatabases,
    validity: Arc<Validity>,
    name: NodeId,
}

struct Actor {
    held: Held,
    database: Box<dyn Database>,
}

impl World {
    fn new() -> Self {
        let wall = ManualClock::new(BUCKET_TIME);
        let memory = MemoryBucket::new(wall.clone());
        Self {
            bucket: Arc::new(FaultyBucket::new(memory.clone())),
            memory,
            wall,
            clock: Arc::new(SteadyClock::new()),
            random: Arc::new(SeededRandom::new(7)),
            retention: Duration::ZERO,
        }
    }

    async fn node(&self, name: &str) -> Node {
        self.node_with(name, MemoryDatabases::captured()).await
    }

    async fn node_with(&self, name: &str, databases: MemoryDatabases) -> Node {
        let name = NodeId::parse(name).expect("a legal node");
        let validity = Validity::new(self.clock.clone());
        let session = Session::draw(&*self.random);
        validity.begin(session, self.clock.now().plus(LONG), None);
        let peers = Arc::new(Peers::new(PeersParts {
            bucket: self.bucket.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            validity: validity.clone(),
            node: name.clone(),
        }));
        let owners = Arc::new(Owners::new(OwnersParts {
            bucket: self.bucket.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            validity: validity.clone(),
            peers,
            node: name.clone(),
            app: App::default_app(),
        }));
        let replicas = Replicas::new(ReplicaParts {
            bucket: self.bucket.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            owners,
            files: Arc::new(databases.clone()),
            wall: Arc::new(self.wall.clone()),
            metrics: Arc::new(Metrics::new().expect("a registry of its own")),
            retention: self.retention,
        });
        ReplicaSupervisor::start(replicas.clone()).await.expect("it starts");
        Node { replicas, databases, validity, name }
    }

    /// The node is gone for good, and everybody may know.
    async fn dies(&self, node: &Node) {
        let session = node.validity.term().expect("it lived").session();
        node.validity.end();
        self.lease(&node.name, session, LeaseState::Released).await;
    }

    async fn lives(&self, node: &NodeId, session: Session) {
        self.lease(node, session, LeaseState::Live).await;
    }

    async fn lease(&self, node: &NodeId, session: Session, state: LeaseState) {
        let lease = LeaseRecord {
            node: node.clone(),
            session,
            state,
            beat: 1,
            nonce: Nonce::draw(&*self.random),
            address: String::new(),
            key: [0; 32],
            serves: Vec::new(),
            version: String::new(),
            features: Vec::new(),
            ttl: LEASE_TTL,
            grace: LEASE_GRACE,
            load: Load::default(),
        };
        let key = lease_key(node);
        let put = self.memory.put(&key, lease.encode(), Cond::Any, Wait::Lease);
        put.await.expect("memory takes all");
    }

    /// The objects of the history, newest first, as their positions and kinds.
    fn history(&self) -> Vec<ObjectKey> {
        let prefix = prefix();
        let mut keys: Vec<_> =
            self.memory.keys().iter().filter_map(|key| prefix.object(key)).collect();
        keys.sort();
        keys
    }

    fn object(&self, key: ObjectKey) -> Object {
        let body = self.memory.body(&prefix().key(key)).expect("it is there");
        Object::check_bytes(&body).expect("it is whole")
    }

    /// The next segment fails this way: what comes first, the record's write, does not.
    fn next_segment(&self, fault: BucketFault) {
        self.bucket.fails(Operation::Put, fault);
    }

    /// The rows that a node which has nothing finds.
    async fn rows(&self, name: &str) -> Result<Vec<String>, HoldError> {
        let node = self.node(name).await;
        match node.replicas.hold(&address()).await? {
            Holding::Here(held) => {
                let rows = node.databases.rows(&address());
                held.leave(None, None).await;
                Ok(rows)
            }
            Holding::Elsewhere(node) => panic!("{node} has it"),
        }
    }
}

impl Node {
    async fn hold(&self) -> Held {
        match self.replicas.hold(&address()).await {
            Ok(Holding::Here(held)) => held,
            Ok(Holding::Elsewhere(node)) => panic!("{node} has it"),
            Err(error) => panic!("{error}"),
        }
    }

    async fn wake(&self) -> Actor {
        let held = self.hold().await;
        let database = self.databases.open(&address()).expect("it opens");
        Actor { held, database }
    }
}

impl Actor {
    /// One event that commits a row.
    fn write(&mut self, row: &str) {
        self.database.exec(row, Vec::new()).expect("it writes");
        self.held.event_ended(self.database.capturing()).expect("it captures");
    }

    async fn durable(&mut self) -> Result<(), ShipError> {
        self.held.durable(self.database.capturing()).await
    }

    async fn write_durably(&mut self, row: &str) -> Result<(), ShipError> {
        self.database.exec(row, Vec::new()).expect("it writes");
        self.durable().await
    }

    async fn leave(self) {
        self.held.leave(Some(self.database), None).await;
    }

    fn give_up(self) {
        drop(self.database);
        self.held.give_up();
    }
}

fn address() -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("cart").expect("a legal class"),
        name: ActorName::parse("u-1").expect("a legal name"),
    }
}

fn prefix() -> HistoryPrefix {
    HistoryPrefix::new(&address(), &App::default_app())
}

fn at(generation: u64, seq: u64) -> Position {
    Position::new(generation, seq).expect("numbers from 1")
}

fn segment(generation: u64, seq: u64) -> ObjectKey {
    ObjectKey::Segment(at(generation, seq))
}

fn rows(rows: &[&str]) -> Vec<String> {
    rows.iter().map(|row| (*row).to_owned()).collect()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
