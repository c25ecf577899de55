//! What an observer concludes, with and without the rules without which it is wrong.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::rules::{Seen, Verdict};
use super::*;
use crate::address::NodeId;
use crate::bucket::Nonce;
use crate::lease::rules::Asked;
use crate::lease::{LeaseRecord, LeaseState, Load, Session, Validity, lease_key};
use crate::limits::{LEASE_GRACE, LEASE_TTL};
use crate::ports::{Bucket, Cond, Steady, Wait};
use crate::testing::{
    BucketFault, FaultyBucket, ManualClock, MemoryBucket, Operation, SeededRandom, SteadyClock,
};
use crate::time::NodeTime;

mod asking;
mod conclusions;
mod fencing;
mod random;
mod watching;

const T: Session = session(1);
const OTHER: Session = session(2);

const fn session(byte: u8) -> Session {
    Session::from_bytes([byte; 16])
}

fn node(name: &str) -> NodeId {
    NodeId::parse(name).expect("a legal name")
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn fenced() -> LeaseState {
    LeaseState::Fenced { by: node("n3"), reason: "expired".into() }
}

fn a_lease(session: Session, state: LeaseState) -> LeaseRecord {
    LeaseRecord {
        node: node("n1"),
        session,
        state,
        beat: 1,
        nonce: "0123456789abcdef".parse().expect("a nonce"),
        address: "10.0.0.1:7000".into(),
        key: [7; 32],
        serves: vec![],
        version: "0.1.0".into(),
        features: vec![],
        ttl: LEASE_TTL,
        grace: LEASE_GRACE,
        load: Load::default(),
    }
}

/// A bucket, and node `n2` that looks at `n1`.
struct World {
    memory: MemoryBucket,
    bucket: Arc<FaultyBucket>,
    clock: SteadyClock,
    validity: Arc<Validity>,
    random: Arc<SeededRandom>,
    peers: Arc<Peers>,
}

impl World {
    fn new() -> Self {
        let memory = MemoryBucket::new(ManualClock::new(1_700_000_000_500));
        let bucket = Arc::new(FaultyBucket::new(memory.clone()));
        let clock = SteadyClock::new();
        let validity = Validity::new(Arc::new(clock.clone()));
        validity.begin(session(0xee), clock.now().plus(seconds(100_000.0)), None);
        let random = Arc::new(SeededRandom::new(1));
        let peers = Arc::new(Peers::new(PeersParts {
            bucket: Arc::clone(&bucket) as _,
            clock: Arc::new(clock.clone()),
            random: Arc::clone(&random) as _,
            validity: Arc::clone(&validity),
            node: node("n2"),
        }));
        Self { memory, bucket, clock, validity, random, peers }
    }

    /// And it watches all the time.
    fn watching() -> Self {
        let world = Self::new();
        let peers = Arc::clone(&world.peers);
        tokio::spawn(async move { peers.watch().await });
        world
    }

    async fn put(&self, lease: LeaseRecord) {
        let lease = LeaseRecord { nonce: Nonce::draw(&*self.random), ..lease };
        self.put_bytes(&lease.node, lease.encode()).await;
    }

    async fn put_bytes(&self, node: &NodeId, body: Bytes) {
        let key = lease_key(node);
        let put = self.memory.put(&key, body, Cond::Any, Wait::Lease);
        put.await.expect("memory takes all");
    }

    /// `n1` renews its lease every period, for so long.
    async fn beats(&self, session: Session, time: Duration) {
        let until = self.now().plus(time);
        while self.now() < until {
            self.put(a_lease(session, LeaseState::Live)).await;
            sleep(seconds(3.0)).await;
        }
    }

    fn written(&self) -> Option<LeaseRecord> {
        let body = self.memory.body("nodes/n1")?;
        Some(LeaseRecord::decode(&body).expect("a lease"))
    }

    async fn is_void(&self, session: Session) -> bool {
        let void = self.peers.is_void(&node("n1"), session).await;
        void.expect("the bucket answers")
    }

    /// Asks until it is so, and says how long that took.
    async fn until_void(&self, session: Session) -> Duration {
        let began = self.now();
        while !self.is_void(session).await {
            sleep(seconds(0.1)).await;
            assert!(self.now().since(began) < seconds(300.0), "it never is");
        }
        self.now().since(began)
    }

    fn now(&self) -> NodeTime {
        self.clock.now()
    }
}
