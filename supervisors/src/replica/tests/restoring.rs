use super::*;

#[tokio::test(start_paused = true)]
async fn a_long_history_is_listed_page_by_page_and_fetched_some_at_a_time() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    let all: Vec<String> = (0..40).map(|row| format!("row {row}")).collect();
    for row in &all {
        actor.write_durably(row).await.expect("it is durable");
    }
    world.dies(&node).await;
    for _ in 0..10 {
        world.bucket.fails(Operation::List, BucketFault::Short(4));
    }
    for _ in 0..12 {
        world.bucket.fails(Operation::Get, BucketFault::None);
        world.bucket.fails(Operation::Get, BucketFault::Answered(503));
    }
    assert_eq!(world.rows("n2").await, Ok(all));
}

#[tokio::test(start_paused = true)]
async fn a_history_with_a_gap_is_an_error_and_no_guess() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    for row in ["a", "b", "c"] {
        actor.write_durably(row).await.expect("it is durable");
    }
    world.dies(&node).await;
    let key = prefix().key(segment(1, 2));
    let whole = world.memory.body(&key).expect("it is there");
    world.memory.delete(&key, Wait::Record).await.expect("it goes");
    let found = world.rows("n2").await;
    assert!(matches!(&found, Err(HoldError::Broken(why)) if why.contains("1.2")), "{found:?}");

    let put = |body: Vec<u8>| world.memory.put(&key, body.into(), Cond::Any, Wait::Upload);
    let mut torn = whole.to_vec();
    torn[200] ^= 1;
    put(torn).await.expect("memory takes all");
    assert!(matches!(world.rows("n2").await, Err(HoldError::Broken(_))));

    let mut newer = whole.to_vec();
    newer[4] = 2;
    put(newer).await.expect("memory takes all");
    let found = world.rows("n2").await;
    assert!(matches!(found, Err(HoldError::Newer(_))), "{found:?}");

    put(whole.to_vec()).await.expect("memory takes all");
    assert_eq!(world.rows("n2").await, Ok(rows(&["a", "b", "c"])));
}

#[tokio::test(start_paused = true)]
async fn a_file_of_a_node_without_a_bucket_becomes_the_history() {
    let world = World::new();
    let alone = MemoryDatabases::new();
    let mut database = alone.open(&address()).expect("it opens");
    database.exec("of before", Vec::new()).expect("it writes");
    database.close().expect("it closes");
    alone.joins_a_cluster();

    // Its first try ends before anything has landed: the file is still there to adopt.
    let node = world.node_with("n1", alone.clone()).await;
    let mut actor = node.wake().await;
    assert!(actor.held.adopts());
    world.next_segment(BucketFault::LostRequest);
    let opened = actor.held.opened(actor.database.capturing().expect("it is captured")).await;
    assert!(opened.is_err(), "{opened:?}");
    drop(actor);

    let again = world.node_with("n1", alone.clone()).await;
    let mut actor = again.wake().await;
    actor.held.opened(actor.database.capturing().expect("it is")).await.expect("it is shipped");
    let first = world.object(segment(2, 1));
    assert_eq!(first.description.kind, crate::history::Kind::Full);
    actor.write_durably("of now").await.expect("it is durable");
    world.dies(&again).await;
    assert_eq!(world.rows("n2").await, Ok(rows(&["of before", "of now"])));
}

#[tokio::test(start_paused = true)]
async fn a_file_whose_upload_never_landed_is_set_aside() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    world.next_segment(BucketFault::LostRequest);
    assert!(actor.write_durably("never landed").await.is_err());
    drop(actor);
    let again = world.node_with("n1", node.databases.clone()).await;
    let actor = again.wake().await;
    assert!(!actor.held.adopts());
    assert_eq!(again.databases.rows(&address()), rows(&[]));
    assert_eq!(again.databases.replaced_rows(&address()), Some(rows(&["never landed"])));
}

#[tokio::test(start_paused = true)]
async fn a_restored_file_that_was_not_opened_is_used_again() {
    let world = World::new();
    let first = world.node("n1").await;
    let mut actor = first.wake().await;
    actor.write("a");
    actor.leave().await;
    let second = world.node("n2").await;
    second.hold().await.leave(None, None).await;
    let gets = world.bucket.asked(Operation::Get);
    let _held = second.hold().await;
    assert_eq!(world.bucket.asked(Operation::Get), gets);
    assert_eq!(second.databases.rows(&address()), rows(&["a"]));
}

#[tokio::test(start_paused = true)]
async fn a_hold_whose_lease_lapses_during_the_restore_is_none() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write("a");
    actor.leave().await;
    let other = world.node("n2").await;
    other.validity.extend(world.clock.now().plus(Duration::from_secs(5)), None);
    world.bucket.fails(Operation::Get, BucketFault::None);
    world.bucket.fails(Operation::Get, BucketFault::AnsweredLate(Duration::from_secs(6)));
    let held = other.replicas.hold(&address()).await.map(drop);
    assert_eq!(held, Err(HoldError::Acquire(crate::ownership::AcquireError::NotLive)));
}
