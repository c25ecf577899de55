//! Holds of several nodes over a bucket that fails.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::address::{ActorName, Address, App, Class, NodeId, Tenant};
use crate::bucket::Nonce;
use crate::history::{Base, Generation, HistoryPrefix, ObjectHash, ObjectKey, Position};
use crate::lease::{LeaseRecord, LeaseState, Load, Session, Validity, lease_key};
use crate::limits::{LEASE_GRACE, LEASE_TTL};
use crate::node::{Peers, PeersParts};
use crate::ports::{Bucket as _, BucketTime, Cond, Steady as _, Wait};
use crate::testing::{
    BucketFault, FaultyBucket, ManualClock, MemoryBucket, Operation, SeededRandom, SteadyClock,
};
use crate::twin::{Twin, leave_out};

mod formats;
mod holds;
mod releases;

const LONG: Duration = Duration::from_secs(100_000);

struct World {
    memory: MemoryBucket,
    bucket: Arc<FaultyBucket>,
    clock: Arc<SteadyClock>,
    random: Arc<SeededRandom>,
}

struct Node {
    owners: Owners,
    validity: Arc<Validity>,
    peers: Arc<Peers>,
    session: Session,
}

impl World {
    fn new() -> Self {
        let memory = MemoryBucket::new(ManualClock::new(1_700_000_000_000));
        Self {
            bucket: Arc::new(FaultyBucket::new(memory.clone())),
            memory,
            clock: Arc::new(SteadyClock::new()),
            random: Arc::new(SeededRandom::new(7)),
        }
    }

    fn node(&self, name: &str) -> Node {
        let session = Session::draw(&*self.random);
        let validity = Validity::new(self.clock.clone());
        validity.begin(session, self.clock.now().plus(LONG), Some(BucketTime(1)));
        self.node_with(name, validity, session)
    }

    fn node_with(&self, name: &str, validity: Arc<Validity>, session: Session) -> Node {
        let peers = self.peers(&id(name), &validity);
        let owners = Owners::new(OwnersParts {
            bucket: self.bucket.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            validity: validity.clone(),
            peers: peers.clone(),
            node: id(name),
            app: App::default_app(),
        });
        Node { owners, validity, peers, session }
    }

    /// A segment of somebody's, as far as a listing shows it.
    async fn segment(&self, generation: u64, seq: u64) {
        let key = segment_key(generation, seq);
        let put = self.memory.put(&key, vec![1].into(), Cond::Any, Wait::Upload);
        put.await.expect("memory takes all");
    }

    fn record(&self) -> OwnerRecord {
        let body = self.memory.body(&key()).expect("there is a record");
        OwnerRecord::decode(&body).expect("a legal record")
    }
}

impl Node {
    async fn acquire(&self) -> Result<Acquired, AcquireError> {
        self.owners.acquire(&address(), None).await
    }

    async fn hold(&self) -> Hold {
        self.hold_with(None).await
    }

    async fn hold_with(&self, released: Option<Released>) -> Hold {
        match self.owners.acquire(&address(), released).await {
            Ok(Acquired::Here(hold)) => hold,
            other => panic!("{other:?}"),
        }
    }
}

fn id(name: &str) -> NodeId {
    NodeId::parse(name).expect("a legal node")
}

fn address() -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("cart").expect("a legal class"),
        name: ActorName::parse("u 1").expect("a legal name"),
    }
}

fn key() -> String {
    owner_key(&address(), &App::default_app())
}

fn segment_key(generation: u64, seq: u64) -> String {
    let prefix = HistoryPrefix::new(&address(), &App::default_app());
    prefix.key(ObjectKey::Segment(at(generation, seq)))
}

fn at(generation: u64, seq: u64) -> Position {
    Position::new(generation, seq).expect("numbers from 1")
}

fn generation(number: u64) -> Generation {
    Generation::new(number).expect("a number from 1")
}

fn head(generation: u64, seq: u64) -> Base {
    Base { at: at(generation, seq), hash: ObjectHash([7; 32]) }
}

fn found(hold: &Hold) -> &FoundHistory {
    match &hold.begun {
        Begun::New(found) | Begun::Free(found) | Begun::Own(found) | Begun::Taken(found) => found,
        Begun::Unchanged(_) => panic!("it was not listed"),
    }
}

/// What other nodes show of themselves.
impl World {
    fn peers(&self, node: &NodeId, validity: &Arc<Validity>) -> Arc<Peers> {
        Arc::new(Peers::new(PeersParts {
            bucket: self.bucket.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            validity: validity.clone(),
            node: node.clone(),
        }))
    }

    /// The node's lease is there, in this state.
    async fn lease(&self, node: &str, session: Session, state: LeaseState) {
        let lease = LeaseRecord {
            node: id(node),
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
        let key = lease_key(&id(node));
        let put = self.memory.put(&key, lease.encode(), Cond::Any, Wait::Lease);
        put.await.expect("memory takes all");
    }

    async fn live(&self, node: &str, session: Session) {
        self.lease(node, session, LeaseState::Live).await;
    }

    /// The session of a hold is over.
    async fn end(&self, hold: &Hold, node: &str) {
        self.lease(node, hold.right().term().session(), LeaseState::Released).await;
    }
}
