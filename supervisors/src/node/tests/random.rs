//! A node and two others that judge it, over buckets that fail in every way, on clocks that run at
//! different rates: no session that was called void is ever valid again.

use std::collections::BTreeSet;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::*;
use crate::lease::{Ended, LeaseKeeper, LeaseParts, Order, Told};
use crate::twin::{Twin, leave_out};

const SEEDS: u64 = 60;
/// Of these at least one must catch a broken rule; the first that does is the last that is run.
const TWIN_SEEDS: u64 = 500;
const TICK: f64 = 0.25;
const TICKS: u32 = 1000;

/// Everything of one seed.
struct Run {
    random: SeededRandom,
    memory: MemoryBucket,
    judged: Judged,
    observers: Vec<Observer>,
    /// Sessions that were valid.
    acted: Vec<Session>,
    void: BTreeSet<Session>,
    asked: JoinSet<(Session, Result<bool, PeersError>)>,
}

/// One process of `n1`.
struct Judged {
    bucket: Arc<FaultyBucket>,
    validity: Arc<Validity>,
    keeper: JoinHandle<Ended>,
    _orders: watch::Sender<Order>,
}

struct Observer {
    bucket: Arc<FaultyBucket>,
    peers: Arc<Peers>,
    watching: JoinHandle<()>,
}

fn a_clock(random: &SeededRandom) -> Arc<SteadyClock> {
    Arc::new(SteadyClock::new().with_rate(0.85 + (random.next() % 36) as f64 / 100.0))
}

fn start(memory: &MemoryBucket, random: &SeededRandom) -> Judged {
    let bucket = Arc::new(FaultyBucket::new(memory.clone()));
    let clock = a_clock(random);
    let validity = Validity::new(Arc::clone(&clock) as _);
    let keeper = LeaseKeeper::new(LeaseParts {
        bucket: Arc::clone(&bucket) as _,
        clock,
        random: Arc::new(SeededRandom::new(random.next())),
        validity: Arc::clone(&validity),
        node: node("n1"),
        told: Told {
            address: String::new(),
            key: [0; 32],
            serves: vec![],
            version: String::new(),
            features: vec![],
        },
        last_session: None,
        remember: Arc::new(|_| {}),
        load: Arc::new(Load::default),
    });
    let (orders, ordered) = watch::channel(Order::Serve);
    Judged { bucket, validity, keeper: tokio::spawn(keeper.run(ordered)), _orders: orders }
}

fn observe(name: &str, memory: &MemoryBucket, random: &SeededRandom) -> Observer {
    let bucket = Arc::new(FaultyBucket::new(memory.clone()));
    let clock = a_clock(random);
    let validity = Validity::new(Arc::clone(&clock) as _);
    validity.begin(session(0xee), clock.now().plus(seconds(1e6)), None);
    let peers = Arc::new(Peers::new(PeersParts {
        bucket: Arc::clone(&bucket) as _,
        clock,
        random: Arc::new(SeededRandom::new(random.next())),
        validity,
        node: node(name),
    }));
    let watched = Arc::clone(&peers);
    let watching = tokio::spawn(async move { watched.watch().await });
    Observer { bucket, peers, watching }
}

impl Run {
    fn new(seed: u64) -> Self {
        let random = SeededRandom::new(seed);
        let memory = MemoryBucket::new(ManualClock::new(1_700_000_000_500));
        let judged = start(&memory, &random);
        let observers = ["n2", "n3"].map(|name| observe(name, &memory, &random)).into();
        let (acted, void, asked) = (Vec::new(), BTreeSet::new(), JoinSet::new());
        Self { random, memory, judged, observers, acted, void, asked }
    }

    fn one_in(&self, many: u64) -> bool {
        self.random.next().is_multiple_of(many)
    }

    fn up_to(&self, ms: u64) -> Duration {
        Duration::from_millis(self.random.next() % ms)
    }

    fn fault(&self) -> BucketFault {
        match self.random.next() % 6 {
            0 => BucketFault::LostAnswer,
            1 => BucketFault::LostRequest,
            2 => BucketFault::AnsweredAfterAll(500),
            3 => BucketFault::Late(self.up_to(30_000)),
            4 => BucketFault::AnsweredLate(self.up_to(25_000)),
            _ => BucketFault::Answered(503),
        }
    }

    fn disturb(&mut self) {
        for bucket in self.observers.iter().map(|o| &o.bucket).chain([&self.judged.bucket]) {
            for operation in [Operation::Get, Operation::Put] {
                if self.one_in(8) {
                    bucket.fails(operation, self.fault());
                }
            }
        }
        if self.one_in(60) {
            self.judged.bucket.cut_off(true);
        } else if self.one_in(50) {
            self.judged.bucket.cut_off(false);
        }
        let has_crashed = self.one_in(300);
        if has_crashed || self.judged.keeper.is_finished() {
            self.judged.keeper.abort();
            self.judged.validity.end();
            self.judged = start(&self.memory, &self.random);
        }
    }

    /// Somebody who saw one of the last sessions in a record asks about it.
    fn ask(&mut self) {
        let term = self.judged.validity.term().map(|term| term.session());
        if let Some(session) = term.filter(|session| self.acted.last() != Some(session)) {
            self.acted.push(session);
        }
        let back = (self.random.next() % 2) as usize + 1;
        let Some(session) = self.acted.iter().rev().take(back).next_back().copied() else { return };
        let at = (self.random.next() % 2) as usize;
        let peers = Arc::clone(&self.observers[at].peers);
        if self.asked.len() < 16 {
            self.asked.spawn(async move { (session, peers.is_void(&node("n1"), session).await) });
        }
    }

    fn check(&mut self) -> Result<(), Session> {
        while let Some(answer) = self.asked.try_join_next() {
            if let (session, Ok(true)) = answer.expect("no panic") {
                self.void.insert(session);
            }
        }
        let acting = self.judged.validity.term().map(|term| term.session());
        acting.filter(|session| self.void.contains(session)).map_or(Ok(()), Err)
    }

    fn stop(mut self) -> (usize, usize) {
        self.judged.keeper.abort();
        self.asked.abort_all();
        self.observers.iter().for_each(|observer| observer.watching.abort());
        (self.acted.len(), self.void.len())
    }
}

/// How many sessions acted and how many were called void, or the one that acted after that.
async fn run(seed: u64) -> Result<(usize, usize), Session> {
    let mut run = Run::new(seed);
    for _ in 0..TICKS {
        sleep(seconds(TICK)).await;
        run.disturb();
        run.ask();
        // What was asked and can be answered at once, is.
        tokio::task::yield_now().await;
        run.check()?;
    }
    Ok(run.stop())
}

#[tokio::test(start_paused = true)]
async fn no_session_that_was_called_void_acts_again() {
    let (mut acted, mut void) = (0, 0);
    for seed in 0..SEEDS {
        let (some, ended) =
            run(seed).await.unwrap_or_else(|session| panic!("seed {seed}: {session} acts"));
        acted += some;
        void += ended;
    }
    // Otherwise nothing was tried.
    assert!(acted > 100 && void > 50, "{acted} sessions, {void} of them void");
}

#[tokio::test(start_paused = true)]
async fn each_broken_rule_is_caught() {
    for twin in [
        Twin::HorizonFromAnswer,
        Twin::KeepsSessionOverLapse,
        Twin::VerdictFromReceiptWithoutFence,
        Twin::VoidByCachedSession,
    ] {
        let _broken = leave_out(twin);
        let mut is_caught = false;
        for seed in 0..TWIN_SEEDS {
            is_caught = is_caught || run(seed).await.is_err();
        }
        assert!(is_caught, "{twin:?} passes");
    }
}
