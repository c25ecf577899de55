//! Records, and one node's keeper over a bucket that fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::address::{App, Class, NodeId, Tenant};
use crate::bucket::Nonce;
use crate::limits::{LEASE_GRACE, LEASE_PERIOD, LEASE_TTL};
use crate::ports::{Bucket, Cond, Steady, Wait};
use crate::testing::{
    BucketFault, FaultyBucket, ManualClock, MemoryBucket, Operation, SeededRandom, SteadyClock,
};
use crate::time::NodeTime;
use crate::twin::{Twin, is_broken};

mod golden;
mod holding;
mod records;
mod starting;

const KEY: &str = "nodes/n1";

fn node(name: &str) -> NodeId {
    NodeId::parse(name).expect("a legal name")
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn told() -> Told {
    Told {
        address: "10.0.0.1:7000".into(),
        key: [7; 32],
        serves: vec![Serves {
            tenant: Tenant::default_tenant(),
            app: App::default_app(),
            classes: vec![Class::parse("cart").expect("a legal class")],
        }],
        version: "0.1.0".into(),
        features: vec!["front".into()],
    }
}

fn a_lease(session: u8, state: LeaseState) -> LeaseRecord {
    let Told { address, key, serves, version, features } = told();
    LeaseRecord {
        node: node("n1"),
        session: Session::from_bytes([session; 16]),
        state,
        beat: 3,
        nonce: Nonce::draw(&SeededRandom::new(u64::from(session))),
        address,
        key,
        serves,
        version,
        features,
        ttl: LEASE_TTL,
        grace: LEASE_GRACE,
        load: Load { resident: 2, capacity: 1000, sockets: 5 },
    }
}

fn fenced() -> LeaseState {
    LeaseState::Fenced { by: node("n2"), reason: "expired".into() }
}

/// A bucket, and the machine of node `n1`.
struct World {
    memory: MemoryBucket,
    bucket: Arc<FaultyBucket>,
    clock: SteadyClock,
    remembered: Arc<Mutex<Vec<Session>>>,
    seeds: AtomicU64,
}

/// One process of that node.
struct Kept {
    clock: SteadyClock,
    validity: Arc<Validity>,
    orders: watch::Sender<Order>,
    view: watch::Receiver<LeaseView>,
    keeper: JoinHandle<Ended>,
}

impl World {
    fn new() -> Self {
        let memory = MemoryBucket::new(ManualClock::new(1_700_000_000_500));
        let bucket = Arc::new(FaultyBucket::new(memory.clone()));
        let remembered = Arc::default();
        Self { memory, bucket, clock: SteadyClock::new(), remembered, seeds: AtomicU64::new(1) }
    }

    fn keep(&self) -> Kept {
        self.keep_after(None)
    }

    fn keep_after(&self, last_session: Option<Session>) -> Kept {
        let clock: Arc<dyn Steady> = Arc::new(self.clock.clone());
        let validity = Validity::new(Arc::clone(&clock));
        let (remembered, memory) = (Arc::clone(&self.remembered), self.memory.clone());
        let remember = move |session: Session| {
            let written = memory.body(KEY).and_then(|body| LeaseRecord::decode(&body).ok());
            assert!(
                is_broken(Twin::KeepsSessionOverLapse)
                    || written.is_none_or(|lease| lease.session != session),
                "it is in the bucket before it is remembered"
            );
            remembered.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        };
        let keeper = LeaseKeeper::new(LeaseParts {
            bucket: Arc::clone(&self.bucket) as _,
            clock,
            random: Arc::new(SeededRandom::new(self.seeds.fetch_add(1, Ordering::Relaxed))),
            validity: Arc::clone(&validity),
            node: node("n1"),
            told: told(),
            last_session,
            remember: Arc::new(remember),
            load: Arc::new(|| Load { resident: 1, capacity: 1000, sockets: 0 }),
        });
        let (orders, ordered) = watch::channel(Order::Serve);
        let (clock, view) = (self.clock.clone(), keeper.view());
        Kept { clock, validity, orders, view, keeper: tokio::spawn(keeper.run(ordered)) }
    }

    fn fails(&self, operation: Operation, faults: &[BucketFault]) {
        for fault in faults {
            self.bucket.fails(operation, fault.clone());
        }
    }

    fn written(&self) -> Option<LeaseRecord> {
        let body = self.memory.body(KEY)?;
        Some(LeaseRecord::decode(&body).expect("a lease"))
    }

    /// What somebody else writes, past all faults.
    async fn put(&self, body: Bytes) {
        let put = self.memory.put(KEY, body, Cond::Any, Wait::Lease);
        put.await.expect("memory takes all");
    }

    async fn fence(&self) {
        let lease = self.written().expect("a lease");
        self.put(LeaseRecord { state: fenced(), ..lease }.encode()).await;
    }

    fn now(&self) -> NodeTime {
        self.clock.now()
    }
}

impl Kept {
    async fn term(&self) -> Term {
        let mut present = self.validity.watch();
        let found = present.wait_for(Option::is_some).await.map(|_| ());
        found.expect("the validity is here");
        self.validity.term().expect("a valid term")
    }

    /// When the term ended, by the node's clock.
    async fn ended(&self, term: &Term) -> NodeTime {
        term.ended().await;
        self.clock.now()
    }

    fn phase(&self) -> Phase {
        self.view.borrow().phase
    }

    fn order(&self, order: Order) {
        self.orders.send_replace(order);
    }
}
