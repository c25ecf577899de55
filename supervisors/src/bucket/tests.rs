//! Writes under a condition over a bucket that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::*;
use crate::limits::BUCKET_UPLOAD_WAIT;
use crate::ports::{Bucket, Cond, Doubt, ETag, ListFrom, PutError, Steady, Wait, Written};
use crate::testing::{
    BucketContract, BucketFault, FaultyBucket, ManualClock, MemoryBucket, Operation, SeededRandom,
    SteadyClock,
};

const KEY: &str = "nodes/a";

struct World {
    memory: MemoryBucket,
    bucket: FaultyBucket,
    clock: SteadyClock,
    random: SeededRandom,
    may_send: AtomicBool,
}

impl World {
    fn new(faults: &[(Operation, BucketFault)]) -> Self {
        let memory = MemoryBucket::new(ManualClock::new(1_700_000_000_500));
        let bucket = FaultyBucket::new(memory.clone());
        for (operation, fault) in faults {
            bucket.fails(*operation, fault.clone());
        }
        let (random, may_send) = (SeededRandom::new(7), AtomicBool::new(true));
        Self { memory, bucket, clock: SteadyClock::new(), random, may_send }
    }

    async fn set(&self, body: &str, expected: Expected) -> Result<Written, SetError> {
        self.set_by(body, expected, Way::Right).await
    }

    async fn set_by(&self, body: &str, expected: Expected, way: Way) -> Result<Written, SetError> {
        let may_send = || self.may_send.load(Ordering::Relaxed);
        let attempts = Attempts {
            wait: Wait::Lease,
            deadline: self.clock.now().plus(BUCKET_UPLOAD_WAIT),
            clock: &self.clock,
            may_send: &may_send,
            random: &self.random,
        };
        let body = Bytes::copy_from_slice(body.as_bytes());
        match way {
            Way::Right => compare_and_set(&self.bucket, KEY, body, expected, attempts).await,
            Way::RetriesInSecret => retries_in_secret(&self.bucket, body, expected).await,
            Way::TakesAConflictForALoss => {
                takes_a_conflict_for_a_loss(&self.bucket, body, expected).await
            }
        }
    }

    /// What somebody else writes, past all faults.
    async fn others(&self, body: &'static str) -> ETag {
        let put = self.memory.put(KEY, Bytes::from_static(body.as_bytes()), Cond::Any, Wait::Lease);
        put.await.expect("memory takes all").etag
    }

    fn body(&self) -> Option<String> {
        self.memory.body(KEY).map(|body| String::from_utf8_lossy(&body).into_owned())
    }
}

/// How a write is done: the right way, or by a broken twin of it.
enum Way {
    Right,
    RetriesInSecret,
    TakesAConflictForALoss,
}

/// Broken: it sends again when it knows nothing, and believes the answer to the second attempt.
async fn retries_in_secret(
    bucket: &FaultyBucket,
    body: Bytes,
    expected: Expected,
) -> Result<Written, SetError> {
    loop {
        match bucket.put(KEY, body.clone(), expected.clone().into(), Wait::Lease).await {
            Ok(written) => return Ok(written),
            Err(PutError::Unknown(_)) => {}
            Err(_) => return Err(SetError::Lost(None)),
        }
    }
}

/// Broken: it takes every answer but success for a loss, a conflict too.
async fn takes_a_conflict_for_a_loss(
    bucket: &FaultyBucket,
    body: Bytes,
    expected: Expected,
) -> Result<Written, SetError> {
    let put = bucket.put(KEY, body, expected.into(), Wait::Lease).await;
    put.map_err(|_| SetError::Lost(None))
}

/// Writes that landed although their answer did not say so.
fn hidden_landings() -> Vec<BucketFault> {
    let statuses = [409, 429, 500, 503].map(BucketFault::AnsweredAfterAll);
    [&[BucketFault::LostAnswer][..], &statuses].concat()
}

#[tokio::test(start_paused = true)]
async fn a_write_that_landed_unseen_is_found() {
    for fault in hidden_landings() {
        let world = World::new(&[(Operation::Put, fault.clone())]);
        let landed = world.set("mine", Expected::Absent).await.expect("it landed");
        assert_eq!(world.memory.body(KEY).as_deref(), Some(&b"mine"[..]));
        assert!(landed.date.is_some(), "{fault:?}");
        assert_eq!(world.bucket.asked(Operation::Put), 1, "{fault:?}: sent again in vain");
    }
}

#[tokio::test(start_paused = true)]
async fn the_broken_twins_report_a_landed_write_as_lost() {
    for fault in hidden_landings() {
        let world = World::new(&[(Operation::Put, fault.clone())]);
        let by = world.set_by("mine", Expected::Absent, Way::RetriesInSecret).await;
        assert_eq!((by, world.body().as_deref()), (Err(SetError::Lost(None)), Some("mine")));
        let world = World::new(&[(Operation::Put, fault)]);
        let by = world.set_by("mine", Expected::Absent, Way::TakesAConflictForALoss).await;
        assert_eq!((by, world.body().as_deref()), (Err(SetError::Lost(None)), Some("mine")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_did_not_land_is_sent_again() {
    for fault in [BucketFault::LostRequest, BucketFault::Answered(409), BucketFault::Answered(503)]
    {
        let world = World::new(&[]);
        let before = world.others("before").await;
        world.bucket.fails(Operation::Put, fault.clone());
        let set = world.set("mine", Expected::Version(before)).await;
        assert!(set.is_ok(), "{fault:?}: {set:?}");
        assert_eq!(world.body().as_deref(), Some("mine"));
        assert_eq!(world.bucket.asked(Operation::Put), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_loser_learns_who_won_and_its_late_attempt_changes_nothing() {
    let late = BucketFault::Late(Duration::from_secs(20));
    let world = World::new(&[(Operation::Put, late)]);
    world.others("theirs").await;
    let lost = world.set("mine", Expected::Absent).await;
    let Err(SetError::Lost(Some(object))) = lost else { panic!("{lost:?}") };
    assert_eq!(object.body, "theirs");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.body().as_deref(), Some("theirs"));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_lands_after_the_next_one_changes_nothing() {
    let world = World::new(&[]);
    let before = world.others("before").await;
    world.bucket.fails(Operation::Put, BucketFault::Late(Duration::from_secs(25)));
    let written = world.set("mine", Expected::Version(before)).await.expect("the second landed");
    let next = world.set("next", Expected::Version(written.etag)).await;
    assert!(next.is_ok(), "{next:?}");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.body().as_deref(), Some("next"), "the first attempt overwrote a later write");
}

/// What makes that true: without a condition, the late attempt brings the old body back.
#[tokio::test(start_paused = true)]
async fn without_conditions_a_late_attempt_would_undo_a_later_write() {
    let world = World::new(&[(Operation::Put, BucketFault::Late(Duration::from_secs(25)))]);
    let late = world.bucket.put(KEY, Bytes::from_static(b"old"), Cond::Any, Wait::Lease).await;
    assert!(matches!(late, Err(PutError::Unknown(_))), "{late:?}");
    world.others("new").await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.body().as_deref(), Some("old"));
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_ignores_a_condition_makes_two_winners() {
    let world = World::new(&[(Operation::Put, BucketFault::NoCondition)]);
    world.others("theirs").await;
    assert!(world.set("mine", Expected::Absent).await.is_ok(), "so the probe must refuse it");
}

#[tokio::test(start_paused = true)]
async fn what_is_never_answered_is_unknown_at_the_deadline() {
    let faults = [Operation::Put, Operation::Get].map(|of| (of, BucketFault::LostRequest));
    let faults: Vec<_> = std::iter::repeat_n(faults, 100).flatten().collect();
    let world = World::new(&faults);
    let began = Instant::now();
    let set = world.set("mine", Expected::Absent).await;
    assert_eq!(set, Err(SetError::Unknown(Doubt::TimedOut(Wait::Lease.longest()))));
    assert_eq!(began.elapsed(), BUCKET_UPLOAD_WAIT, "all attempts share one deadline");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_the_hold_has_ended() {
    let world = World::new(&[]);
    world.may_send.store(false, Ordering::Relaxed);
    assert_eq!(world.set("mine", Expected::Absent).await, Err(SetError::Stopped));
    assert_eq!(world.bucket.asked(Operation::Put), 0);

    let world = World::new(&[(Operation::Put, BucketFault::LostRequest)]);
    let ends = async {
        sleep(Duration::from_secs(1)).await;
        world.may_send.store(false, Ordering::Relaxed);
    };
    let (set, ()) = tokio::join!(world.set("mine", Expected::Absent), ends);
    assert!(matches!(set, Err(SetError::Unknown(Doubt::TimedOut(_)))), "{set:?}");
    assert_eq!(world.bucket.asked(Operation::Put), 1);
    assert_eq!(world.body(), None);
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_told_apart_from_one_after_an_attempt_in_doubt() {
    let world = World::new(&[(Operation::Put, BucketFault::Denied)]);
    assert!(matches!(world.set("mine", Expected::Absent).await, Err(SetError::Denied(_))));
    let world = World::new(&[
        (Operation::Put, BucketFault::LostAnswer),
        (Operation::Get, BucketFault::Denied),
    ]);
    let set = world.set("mine", Expected::Absent).await;
    assert!(matches!(set, Err(SetError::Unknown(Doubt::Denied(_)))), "{set:?}");
}

#[tokio::test(start_paused = true)]
async fn of_many_nodes_that_fail_together_one_wins() {
    for seed in 0..50 {
        let world = Arc::new(World::new(&[]));
        let faults = SeededRandom::new(seed);
        let before = world.others("before").await;
        for _ in 0..200 {
            let fault = match faults.next() % 6 {
                0 => BucketFault::LostAnswer,
                1 => BucketFault::LostRequest,
                2 => BucketFault::Answered(409),
                3 => BucketFault::AnsweredAfterAll(500),
                4 => BucketFault::Late(Duration::from_millis(faults.next() % 30_000)),
                _ => BucketFault::None,
            };
            world.bucket.fails(Operation::Put, fault);
        }
        let mut nodes = tokio::task::JoinSet::new();
        for node in 0..16 {
            let (world, before) = (Arc::clone(&world), before.clone());
            let body = format!("node {node}");
            nodes.spawn(async move {
                let set = world.set(&body, Expected::Version(before)).await;
                (body, set)
            });
        }
        let outcomes = nodes.join_all().await;
        sleep(Duration::from_secs(60)).await;
        let body = world.body();
        for (own, set) in &outcomes {
            let has_won = body.as_ref() == Some(own);
            match set {
                Ok(_) => assert!(has_won, "seed {seed}: {own} was told that it won"),
                Err(SetError::Lost(Some(_))) => assert!(!has_won, "seed {seed}: {own} lost"),
                Err(SetError::Unknown(_)) => {}
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!(outcomes.iter().any(|(_, set)| set.is_ok()), "seed {seed}: {outcomes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_goes_on_after_short_pages() {
    let world = World::new(&[]);
    for at in 0..10 {
        let key = format!("nodes/{at}");
        let put = world.memory.put(&key, Bytes::new(), Cond::Any, Wait::Record);
        put.await.expect("memory takes all");
    }
    for keys in [3, 1, 2] {
        world.bucket.fails(Operation::List, BucketFault::Short(keys));
    }
    let listed = list_all(&world.bucket, "nodes/", 10, Wait::Record).await.expect("listed");
    let keys: Vec<String> = listed.into_iter().map(|object| object.key).collect();
    assert_eq!(keys, (0..10).map(|at| format!("nodes/{at}")).collect::<Vec<_>>());

    // Broken: one page, whatever it says of more.
    world.bucket.fails(Operation::List, BucketFault::Short(3));
    let from = ListFrom { prefix: "nodes/", after: None, keys_max: 1000 };
    let page = world.bucket.list(from, Wait::Record).await.expect("a page");
    assert!(page.has_more && page.objects.len() == 3);

    let many = list_all(&world.bucket, "nodes/", 9, Wait::Record).await;
    assert_eq!(many, Err(ListAllError::TooMany { prefix: "nodes/".into(), most: 9 }));
}

#[tokio::test]
async fn a_page_that_leads_nowhere_is_told_and_not_asked_for_again() {
    let world = World::new(&[]);
    world.others("mine").await;
    for faults in [vec![BucketFault::NoKeys], vec![BucketFault::Short(1), BucketFault::NoKeys]] {
        let put = world.memory.put("nodes/b", Bytes::new(), Cond::Any, Wait::Record);
        put.await.expect("memory takes all");
        let asked = world.bucket.asked(Operation::List) + faults.len();
        for fault in faults {
            world.bucket.fails(Operation::List, fault);
        }
        let listed = list_all(&world.bucket, "nodes/", 10, Wait::Record).await;
        assert!(matches!(listed, Err(ListAllError::Unknown(Doubt::Unreadable(_)))), "{listed:?}");
        assert_eq!(world.bucket.asked(Operation::List), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_deadline_cuts_says_how_long_it_waited() {
    let world = World::new(&[(Operation::Put, BucketFault::Silent)]);
    world.bucket.fails(Operation::Get, BucketFault::Silent);
    let attempts = Attempts {
        wait: Wait::Upload,
        deadline: world.clock.now().plus(Duration::from_secs(1)),
        clock: &world.clock,
        may_send: &|| true,
        random: &world.random,
    };
    let set = compare_and_set(&world.bucket, KEY, Bytes::new(), Expected::Absent, attempts).await;
    assert_eq!(set, Err(SetError::Unknown(Doubt::TimedOut(Duration::from_secs(1)))));
}

#[tokio::test(start_paused = true)]
async fn attempts_go_by_the_clock_of_who_makes_them() {
    let mut world = World::new(&[(Operation::Put, BucketFault::Silent)]);
    world.bucket.fails(Operation::Get, BucketFault::Silent);
    world.clock = SteadyClock::new().with_rate(0.5);
    let began = Instant::now();
    let set = world.set("mine", Expected::Absent).await;
    assert!(matches!(set, Err(SetError::Unknown(Doubt::TimedOut(_)))), "{set:?}");
    assert!(began.elapsed() >= 2 * BUCKET_UPLOAD_WAIT);
}

#[tokio::test]
async fn the_bucket_in_memory_keeps_the_contract() {
    let memory = MemoryBucket::new(ManualClock::new(1_700_000_000_500));
    let random = Arc::new(SeededRandom::new(1));
    BucketContract::new(Arc::new(memory.clone()), random, 10_000_000).check().await;
    assert!(memory.keys().is_empty(), "{:?}", memory.keys());
}
