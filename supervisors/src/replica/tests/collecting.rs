use super::*;
use crate::history::Kind;
use crate::limits::{HIBERNATION_SNAPSHOT_DELTAS, MERGE_DELTAS};
use crate::ownership::{Holder, OwnerRecord, owner_key};

fn names(count: u64) -> Vec<String> {
    (0..count).map(|row| format!("row {row}")).collect()
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_goes_to_sleep_leaves_a_snapshot_and_nothing_older() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    let all = names(HIBERNATION_SNAPSHOT_DELTAS + 1);
    for row in &all {
        actor.write_durably(row).await.expect("it is durable");
    }
    actor.leave().await;
    let last = HIBERNATION_SNAPSHOT_DELTAS + 1;
    assert_eq!(world.history(), [segment(1, last), ObjectKey::Snapshot(at(1, last))]);
    assert_eq!(world.rows("n2").await, Ok(all));
}

#[tokio::test(start_paused = true)]
async fn many_segments_are_merged_while_the_actor_goes_on() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    let all = names(MERGE_DELTAS * 2 + 10);
    for row in &all {
        actor.write_durably(row).await.expect("it is durable");
    }
    pass(1).await;
    let merged: Vec<ObjectKey> =
        world.history().into_iter().filter(|key| matches!(key, ObjectKey::Merged { .. })).collect();
    assert_eq!(merged.len(), 2, "{merged:?}");
    assert!(merged.contains(&ObjectKey::Merged { at: at(1, MERGE_DELTAS), from: 1 }), "{merged:?}");
    world.dies(&node).await;
    let gets = world.bucket.asked(Operation::Get);
    assert_eq!(world.rows("n2").await, Ok(all));
    let fetched = world.bucket.asked(Operation::Get) - gets;
    assert!(fetched < 40, "{fetched} objects were read");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_under_a_record_that_is_anothers() {
    for twin in [None, Some(Twin::CollectsWithoutRecord)] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        let node = world.node("n1").await;
        let mut actor = node.wake().await;
        for row in names(HIBERNATION_SNAPSHOT_DELTAS + 1) {
            actor.write_durably(&row).await.expect("it is durable");
        }
        // Another node took it, and this one does not know yet.
        let key = owner_key(&address(), &App::default_app());
        let ours = OwnerRecord::decode(&world.memory.body(&key).expect("it is there"));
        let ours = ours.expect("a legal record");
        let holder = Holder::Held {
            node: NodeId::parse("n2").expect("a legal node"),
            session: Session::draw(&*world.random),
        };
        let generation = ours.generation.next().expect("a few");
        let theirs = OwnerRecord { generation, holder, ..ours };
        let put = world.memory.put(&key, theirs.encode(), Cond::Any, Wait::Record);
        put.await.expect("memory takes all");
        actor.leave().await;
        let is_collected = !world.history().contains(&segment(1, 1));
        assert_eq!(is_collected, twin.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_durable_and_erases_all_before_it() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    for row in ["a", "b", "c"] {
        actor.write_durably(row).await.expect("it is durable");
    }
    // One more upload, sent by an earlier attempt, that lands after the erase.
    let late = prefix().key(segment(1, 2));
    let again = world.memory.body(&late).expect("it is there");
    drop(actor.database);
    node.databases.remove(&address()).expect("it is removed");
    actor.database = node.databases.open(&address()).expect("it opens");
    let database = actor.database.capturing().expect("it is captured");
    actor.held.reset(database).await.expect("the deletion is durable");
    pass(1).await;
    let left = [segment(1, 4), ObjectKey::Snapshot(at(1, 4))];
    assert_eq!(world.history(), left);
    assert_eq!(world.object(segment(1, 4)).description.kind, Kind::Reset);
    assert_eq!(actor.held.reset_at(), Some(at(1, 4)));

    let put = world.memory.put(&late, again, Cond::Any, Wait::Upload);
    put.await.expect("memory takes all");
    pass(31).await;
    assert_eq!(world.history(), left, "what was deleted is back in the bucket");

    actor.write_durably("of another life").await.expect("it is durable");
    for row in names(HIBERNATION_SNAPSHOT_DELTAS) {
        actor.write_durably(&row).await.expect("it is durable");
    }
    actor.leave().await;
    let history = world.history();
    assert!(left.iter().all(|key| history.contains(key)), "{history:?}");
    let found = world.rows("n2").await.expect("it is restored");
    assert_eq!((found.len(), found[0].as_str()), (17, "of another life"));
}

#[tokio::test(start_paused = true)]
async fn a_trusted_file_does_not_make_its_holder_forget_the_reset() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write_durably("a").await.expect("it is durable");
    drop(actor.database);
    node.databases.remove(&address()).expect("it is removed");
    actor.database = node.databases.open(&address()).expect("it opens");
    let database = actor.database.capturing().expect("it is captured");
    actor.held.reset(database).await.expect("the deletion is durable");
    actor.write_durably("b").await.expect("it is durable");
    actor.leave().await;
    let again = world.node_with("n1", node.databases.clone()).await;
    let mut actor = again.wake().await;
    assert_eq!(actor.held.reset_at(), None, "only the head was read");
    for row in names(HIBERNATION_SNAPSHOT_DELTAS) {
        actor.write_durably(&row).await.expect("it is durable");
    }
    actor.leave().await;
    let history = world.history();
    assert!(history.contains(&segment(1, 2)), "the reset is gone: {history:?}");
    assert!(!history.contains(&segment(1, 3)), "nothing was collected: {history:?}");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_fails_changes_nothing_for_the_actor() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    let all = names(HIBERNATION_SNAPSHOT_DELTAS + 1);
    for row in &all {
        actor.write_durably(row).await.expect("it is durable");
    }
    world.bucket.fails(Operation::Put, BucketFault::Answered(503));
    actor.leave().await;
    assert_eq!(world.history().len(), all.len());
    assert_eq!(world.rows("n2").await, Ok(all));
}

#[tokio::test(start_paused = true)]
async fn states_of_the_retention_window_stay() {
    let world = World { retention: Duration::from_secs(3600), ..World::new() };
    let node = world.node("n1").await;
    let count = HIBERNATION_SNAPSHOT_DELTAS + 1;
    let mut kept = Vec::new();
    for life in 1..=2 {
        let mut actor = node.wake().await;
        for row in names(count) {
            actor.write_durably(&format!("{life} {row}")).await.expect("it is durable");
        }
        actor.leave().await;
        kept.push(world.history());
        pass(7200).await;
    }
    assert_eq!(kept[0].len() as u64, count + 1, "the first snapshot is not old enough");
    // The window begins after the first snapshot: what that stands for may go.
    let oldest = kept[1].last().copied();
    assert_eq!(oldest, Some(ObjectKey::Snapshot(at(1, count))));
    assert_eq!(kept[1].len() as u64, count + 3);
}
