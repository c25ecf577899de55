use super::*;
use crate::history::Kind;
use crate::limits::MERGE_DELTAS;
use crate::ports::{Captured, StorageFault};

#[tokio::test(start_paused = true)]
async fn what_is_durable_is_restored_on_another_node() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    for row in ["a", "b", "c"] {
        actor.write_durably(row).await.expect("it is durable");
    }
    assert_eq!(world.history(), [segment(1, 3), segment(1, 2), segment(1, 1)]);
    let session = node.validity.term().expect("a term").session().as_bytes();
    assert_eq!(world.object(segment(1, 2)).description.session, session);
    assert_eq!(world.object(segment(1, 2)).description.wall_ms, BUCKET_TIME);
    world.dies(&node).await;
    assert_eq!(world.rows("n2").await, Ok(rows(&["a", "b", "c"])));
}

#[tokio::test(start_paused = true)]
async fn commits_made_during_an_upload_are_one_segment_after_it() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    world.next_segment(BucketFault::AnsweredLate(Duration::from_secs(3)));
    for row in ["a", "b", "c", "d"] {
        actor.write(row);
    }
    actor.held.shipped().await;
    actor.held.event_ended(actor.database.capturing()).expect("it captures");
    actor.durable().await.expect("it is durable");
    assert_eq!(world.history(), [segment(1, 2), segment(1, 1)]);
    let pages = |key| world.object(key).page_count();
    // The first page changes with nothing here: each row is a page of its own.
    assert_eq!((pages(segment(1, 1)), pages(segment(1, 2))), (2, 3));
    world.dies(&node).await;
    assert_eq!(world.rows("n2").await, Ok(rows(&["a", "b", "c", "d"])));
}

/// Another event may have one open while a durable write of the one before is shipped.
#[tokio::test(start_paused = true)]
async fn what_is_shipped_while_a_transaction_is_open_is_shipped_and_the_log_is_not_moved() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    assert!(!actor.held.ships_beside(), "the first segment may be one of every page");
    actor.write_durably("first").await.expect("it is durable");
    assert!(actor.held.ships_beside());
    let mut expected = vec!["first".to_owned()];
    for row in 0..MERGE_DELTAS + 10 {
        actor.database.exec(&row.to_string(), Vec::new()).expect("it writes");
        expected.push(row.to_string());
        actor.database.exec("BEGIN", Vec::new()).expect("it begins");
        actor.database.exec("open", Vec::new()).expect("it writes");
        actor.durable().await.expect("what was committed is durable");
        actor.database.exec("ROLLBACK", Vec::new()).expect("it ends");
    }
    let is_merged = |key: &ObjectKey| matches!(key, ObjectKey::Merged { .. });
    assert!(!world.history().iter().any(is_merged), "not while one was open");
    actor.write("last");
    actor.durable().await.expect("it is durable");
    pass(60).await;
    assert!(world.history().iter().any(is_merged), "and then it is");
    expected.push("last".into());
    world.dies(&node).await;
    assert_eq!(world.rows("n2").await, Ok(expected));
}

#[tokio::test(start_paused = true)]
async fn a_segment_whose_answer_was_lost_is_found_to_have_landed() {
    for fault in [BucketFault::AnsweredAfterAll(500), BucketFault::AnsweredAfterAll(409)] {
        let world = World::new();
        let node = world.node("n1").await;
        let mut actor = node.wake().await;
        world.next_segment(fault);
        actor.write_durably("a").await.expect("it landed");
        actor.write_durably("b").await.expect("it landed");
        assert_eq!(world.history(), [segment(1, 2), segment(1, 1)]);
        let _twin = leave_out(Twin::RetriesBlindly);
        world.next_segment(BucketFault::AnsweredAfterAll(500));
        let durable = actor.write_durably("c").await;
        assert_eq!(durable, Err(ShipError::Lost(Lost::Conflict)), "its own segment");
    }
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_did_not_land_is_sent_again() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    world.next_segment(BucketFault::Answered(503));
    actor.write_durably("a").await.expect("the second attempt landed");
}

#[tokio::test(start_paused = true)]
async fn an_upload_of_unknown_outcome_loses_the_hold() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write_durably("a").await.expect("it is durable");
    world.next_segment(BucketFault::Late(Duration::from_secs(40)));
    let lost = actor.write_durably("b").await;
    assert_eq!(lost, Err(ShipError::Lost(Lost::Unknown)));
    assert!(actor.held.is_lost() && !actor.held.may_run());
    // Nothing more is sent under it.
    let puts = world.bucket.asked(Operation::Put);
    assert_eq!(actor.write_durably("c").await, Err(ShipError::Lost(Lost::Unknown)));
    assert_eq!(world.bucket.asked(Operation::Put), puts);
    actor.give_up();
    assert_eq!(node.databases.replaced_rows(&address()), Some(rows(&["a", "b", "c"])));
    let actor = node.wake().await;
    assert_eq!((actor.held.generation().get(), node.databases.rows(&address())), (2, rows(&["a"])));
}

#[tokio::test(start_paused = true)]
async fn another_writer_of_the_same_generation_is_noticed() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    world.bucket.meanwhile(Operation::Put, &prefix().key(segment(1, 1)), b"another's");
    assert_eq!(actor.write_durably("a").await, Err(ShipError::Lost(Lost::Conflict)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_horizon_acknowledges_nothing() {
    for twin in [None, Some(Twin::AcknowledgesPastHorizon)] {
        let world = World::new();
        let node = world.node("n1").await;
        let mut actor = node.wake().await;
        node.validity.extend(world.clock.now().plus(Duration::from_secs(5)), None);
        let _twin = twin.map(leave_out);
        world.next_segment(BucketFault::AnsweredLate(Duration::from_secs(6)));
        let durable = actor.write_durably("a").await;
        assert_eq!(durable.is_ok(), twin.is_some(), "{durable:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_hold_that_was_given_up_acknowledges_nothing() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    world.next_segment(BucketFault::AnsweredLate(Duration::from_secs(6)));
    actor.write("a");
    pass(1).await;
    // The same session has the actor again before the answer comes.
    let again = node.hold().await;
    assert_eq!(again.generation().get(), 2);
    assert_eq!(actor.durable().await, Err(ShipError::Lost(Lost::Lapsed)));
    assert!(again.may_run());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stood_still_is_noticed_by_the_buckets() {
    let world = World::new();
    let node = world.node("n1").await;
    node.validity.extend(world.clock.now().plus(LONG), Some(BucketTime(BUCKET_TIME)));
    let mut actor = node.wake().await;
    actor.write_durably("a").await.expect("all is well");
    // Twelve seconds by the bucket's clock, and then one more, and none by the node's.
    world.wall.set(BUCKET_TIME + 12_000);
    actor.write_durably("b").await.expect("it may be so late");
    world.wall.set(BUCKET_TIME + 13_000);
    assert_eq!(actor.write_durably("c").await, Err(ShipError::Lost(Lost::Late)));
}

#[tokio::test(start_paused = true)]
async fn no_segment_is_sent_at_or_after_the_horizon() {
    for (more, twin) in [(0, None), (1, Some(Twin::SendsPastHorizon))] {
        let world = World::new();
        let node = world.node("n1").await;
        let mut actor = node.wake().await;
        node.validity.extend(world.clock.now().plus(Duration::from_secs(5)), None);
        let before = world.bucket.asked(Operation::Put);
        world.next_segment(BucketFault::Answered(503));
        // The look at what became of it takes past the horizon.
        world.bucket.fails(Operation::Get, BucketFault::AnsweredLate(Duration::from_secs(6)));
        let _twin = twin.map(leave_out);
        assert!(actor.write_durably("a").await.is_err());
        pass(60).await;
        assert_eq!(world.bucket.asked(Operation::Put), before + 1 + more, "{twin:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lapse_ends_what_waits() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    world.next_segment(BucketFault::AnsweredLate(Duration::from_secs(25)));
    actor.write("a");
    let validity = node.validity.clone();
    tokio::spawn(async move {
        pass(2).await;
        validity.end();
    });
    actor.held.shipped().await;
    assert!(actor.held.is_lost());
    assert_eq!(actor.durable().await, Err(ShipError::Lost(Lost::Lapsed)));
}

#[tokio::test(start_paused = true)]
async fn without_the_process_that_ships_a_hold_is_lost() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    node.replicas.supervisor().expect("it runs").kill();
    pass(1).await;
    assert_eq!(actor.write_durably("a").await, Err(ShipError::Lost(Lost::Process)));
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_sent_once() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut held = node.hold().await;
    held.fence().await.expect("it is sent");
    held.fence().await.expect("there is one");
    assert_eq!(world.history(), [segment(1, 1)]);
    assert_eq!(world.object(segment(1, 1)).description.kind, Kind::Fence);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_leaves_the_upload_to_go_on() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    world.next_segment(BucketFault::AnsweredLate(Duration::from_secs(3)));
    let waited = tokio::time::timeout(Duration::from_secs(1), actor.write_durably("a")).await;
    assert!(waited.is_err());
    actor.durable().await.expect("it went on");
    assert_eq!(world.history(), [segment(1, 1)]);
}

/// A database of two pages, the first of which no capture shows: it went into the file unseen.
struct Halved {
    whole_is_due: bool,
    is_new: bool,
    /// Its pages cannot be read.
    fails: bool,
}

impl crate::ports::Capturing for Halved {
    fn is_in_transaction(&self) -> bool {
        false
    }

    fn capture(&mut self) -> Result<Option<Captured>, StorageFault> {
        let is_whole = std::mem::take(&mut self.whole_is_due);
        if !is_whole && !std::mem::take(&mut self.is_new) {
            return Ok(None);
        }
        let changed = if is_whole { vec![1, 2] } else { vec![2] };
        Ok(Some(Captured { changed, db_pages: 2, frames: 1, is_whole }))
    }

    fn read_captured(&mut self, page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
        to.fill(page as u8);
        let (path, cause) = ("memory".to_owned(), "it was told to fail".to_owned());
        if self.fails { Err(StorageFault { operation: "read", path, cause }) } else { Ok(()) }
    }

    fn capture_whole(&mut self) {
        self.whole_is_due = true;
    }

    fn adopted(&mut self) -> Result<(), StorageFault> {
        Ok(())
    }

    fn vacuum_if_sparse(&mut self) -> Result<bool, StorageFault> {
        Ok(false)
    }

    fn latch(&mut self) -> Result<Option<Box<dyn crate::ports::Latched>>, StorageFault> {
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_pages_of_a_history_are_all_of_them() {
    for fenced in [false, true] {
        let world = World::new();
        let node = world.node("n1").await;
        let mut held = node.hold().await;
        if fenced {
            held.fence().await.expect("it is sent");
        }
        let mut database = Halved { whole_is_due: false, is_new: true, fails: false };
        held.durable(Some(&mut database)).await.expect("it is durable");
        let newest = world.history()[0];
        assert_eq!(world.object(newest).page_count(), 2, "fenced: {fenced}");
        held.leave(None, None).await;
        assert_eq!(world.rows("n2").await.err(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_captured_and_not_sent_loses_the_hold() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write_durably("a").await.expect("it is durable");
    let mut database = Halved { whole_is_due: false, is_new: true, fails: true };
    assert!(actor.held.event_ended(Some(&mut database)).is_err());
    assert_eq!(actor.held.lost(), Some(Lost::Storage));
}

#[tokio::test(start_paused = true)]
async fn an_actor_is_brought_here_once_at_a_time() {
    let world = World::new();
    let node = world.node("n1").await;
    let actor = address();
    let (first, second) = tokio::join!(node.replicas.hold(&actor), node.replicas.hold(&actor));
    let held = [first, second].into_iter().filter(Result::is_ok).count();
    assert_eq!(held, 2, "one after the other both are");
    world.bucket.fails(Operation::List, BucketFault::AnsweredLate(Duration::from_secs(1)));
    let (first, second) = tokio::join!(node.replicas.hold(&actor), node.replicas.hold(&actor));
    assert!(first.is_ok());
    let refused = second.map(drop);
    assert_eq!(refused, Err(HoldError::Acquire(crate::ownership::AcquireError::LostRace)));
}
