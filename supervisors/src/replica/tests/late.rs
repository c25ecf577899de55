//! Uploads that land after others have built on what was there without them.

use super::*;

/// Two holders whose last uploads land late: the first one's before the third restores, the second
/// one's after it.
async fn two_late_uploads(world: &World, rows: usize) -> Node {
    let first = world.node("n1").await;
    let mut actor = first.wake().await;
    for row in 0..rows {
        actor.write_durably(&format!("row {row}")).await.expect("it is durable");
    }
    world.next_segment(BucketFault::Late(Duration::from_secs(70)));
    assert_eq!(actor.write_durably("late").await, Err(ShipError::Lost(Lost::Unknown)));
    world.dies(&first).await;
    let second = world.node("n2").await;
    let mut actor = second.wake().await;
    world.next_segment(BucketFault::Late(Duration::from_secs(200)));
    assert_eq!(actor.write_durably("later").await, Err(ShipError::Lost(Lost::Unknown)));
    world.dies(&second).await;
    // Of 70 seconds 60 have passed.
    pass(20).await;
    world.node("n3").await
}

#[tokio::test(start_paused = true)]
async fn a_durable_write_that_changed_nothing_is_fenced_before_it_is_acknowledged() {
    for twin in [None, Some(Twin::AcknowledgesNothingWithoutFence)] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        let third = two_late_uploads(&world, 1).await;
        let mut actor = third.wake().await;
        assert_eq!(third.databases.rows(&address()), rows(&["row 0", "late"]));
        // The client tries again what it does not know of, and it is there already.
        actor.durable().await.expect("it is durable");
        world.dies(&third).await;
        pass(200).await;
        let found = world.rows("n4").await.expect("it is restored");
        let is_kept = found.contains(&"late".to_owned());
        assert_eq!(is_kept, twin.is_none(), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_at_a_head_that_was_only_restored() {
    for twin in [None, Some(Twin::CollectsAtRestoredHead)] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        let third = two_late_uploads(&world, 20).await;
        let actor = third.wake().await;
        actor.leave().await;
        pass(200).await;
        let found = world.rows("n4").await;
        assert_eq!(found.is_ok(), twin.is_none(), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_after_an_unknown_upload_arms_no_fast_path() {
    for twin in [None, Some(Twin::FastPathAfterUnknown)] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        let node = world.node("n1").await;
        let mut actor = node.wake().await;
        actor.write_durably("a").await.expect("it is durable");
        // It never lands.
        world.bucket.fails(Operation::Put, BucketFault::LostRequest);
        actor.write("b");
        pass(31).await;
        actor.leave().await;
        let mut actor = node.wake().await;
        let durable = actor.write_durably("c").await;
        world.dies(&node).await;
        let found = world.rows("n2").await;
        match twin {
            None => assert_eq!((durable, found), (Ok(()), Ok(rows(&["a", "c"])))),
            Some(_) => assert!(durable.is_ok() && found.is_err(), "{found:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_upload_of_an_earlier_hold_is_off_the_chain() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write_durably("a").await.expect("it is durable");
    world.next_segment(BucketFault::Late(Duration::from_secs(100)));
    assert!(actor.write_durably("b").await.is_err());
    actor.give_up();
    let mut actor = node.wake().await;
    actor.write_durably("c").await.expect("it is durable");
    pass(100).await;
    assert!(world.history().contains(&segment(1, 2)));
    world.dies(&node).await;
    assert_eq!(world.rows("n2").await, Ok(rows(&["a", "c"])));
}
