use super::*;

fn asked(world: &World) -> [usize; 4] {
    let all = [Operation::Get, Operation::Put, Operation::List, Operation::Delete];
    all.map(|operation| world.bucket.asked(operation))
}

#[tokio::test(start_paused = true)]
async fn waking_an_actor_that_nobody_held_since_costs_one_write() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write("a");
    actor.leave().await;
    let [get, put, list, delete] = asked(&world);
    let mut actor = node.wake().await;
    assert_eq!(asked(&world), [get, put + 1, list, delete]);
    assert_eq!(node.databases.rows(&address()), rows(&["a"]));
    actor.write_durably("b").await.expect("it is durable");
    world.dies(&node).await;
    assert_eq!(world.rows("n2").await, Ok(rows(&["a", "b"])));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_another_holder_made_old_is_not_used() {
    let world = World::new();
    let first = world.node("n1").await;
    let mut actor = first.wake().await;
    actor.write("a");
    actor.leave().await;
    let second = world.node("n2").await;
    let mut actor = second.wake().await;
    actor.write("b");
    actor.leave().await;
    let _actor = first.wake().await;
    assert_eq!(first.databases.rows(&address()), rows(&["a", "b"]));
    assert_eq!(first.databases.replaced_rows(&address()), Some(rows(&["a"])));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_the_head_is_used_without_a_download() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    for row in ["a", "b", "c"] {
        actor.write_durably(row).await.expect("it is durable");
    }
    actor.leave().await;
    // Started anew, it remembers no release.
    let again = world.node_with("n1", node.databases.clone()).await;
    let gets = world.bucket.asked_for(Operation::Get).len();
    let mut actor = again.wake().await;
    let got = world.bucket.asked_for(Operation::Get).split_off(gets);
    assert_eq!(got.iter().filter(|key| key.contains("/history/")).count(), 1, "{got:?}");
    assert_eq!(again.databases.replaced_rows(&address()), None);
    actor.held.fence().await.expect("a fence of a database of this size");
    world.dies(&again).await;
    assert_eq!(world.rows("n2").await, Ok(rows(&["a", "b", "c"])));
}

#[tokio::test(start_paused = true)]
async fn a_file_left_by_a_crash_is_not_used() {
    for twin in [None, Some(Twin::TrustsFileAfterCrash)] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        let node = world.node("n1").await;
        let mut actor = node.wake().await;
        actor.write("a");
        actor.leave().await;
        let mut actor = node.wake().await;
        // Committed, never shipped, and the node crashes.
        actor.database.exec("never shipped", Vec::new()).expect("it writes");
        drop(actor);
        let again = world.node_with("n1", node.databases.clone()).await;
        let mut actor = again.wake().await;
        actor.write_durably("b").await.expect("it is durable");
        let here = again.databases.rows(&address());
        world.dies(&again).await;
        let there = world.rows("n2").await;
        assert_eq!(there.as_ref() == Ok(&here), twin.is_none(), "{here:?} {there:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_actor_wakes_without_a_word_to_the_bucket() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write("a");
    assert!(actor.held.park(Some(actor.database)).await);
    let before = asked(&world);
    let mut actor = node.wake().await;
    assert_eq!(asked(&world), before);
    assert_eq!(actor.held.generation().get(), 1);
    actor.write_durably("b").await.expect("it is durable");
    assert!(actor.held.park(Some(actor.database)).await);

    node.validity.end();
    let session = Session::draw(&*world.random);
    node.validity.begin(session, world.clock.now().plus(LONG), None);
    assert!(node.replicas.unparked(&address()).is_none(), "its session is broken");
    assert_eq!(node.hold().await.generation().get(), 2);
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_up_a_parked_hold_counts_its_writes_anew() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write("a");
    actor.held.wrote(7);
    actor.held.durable(actor.database.capturing()).await.expect("it is durable");
    assert_eq!(actor.held.durable_mark(), 7);
    assert!(actor.held.park(Some(actor.database)).await);
    let mut actor = node.wake().await;
    actor.write("b");
    actor.held.wrote(1);
    assert_eq!(actor.held.durable_mark(), 0, "it is in no segment");
}

#[tokio::test(start_paused = true)]
async fn a_parked_actor_whose_last_socket_closed_leaves() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write("a");
    assert!(actor.held.park(Some(actor.database)).await);
    let held = node.replicas.unparked(&address()).expect("it is parked");
    held.leave(None, None).await;
    assert!(node.replicas.unparked(&address()).is_none());
    assert_eq!(world.rows("n2").await, Ok(rows(&["a"])));
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_lapsed_is_given_up_as_it_leaves() {
    let world = World::new();
    let node = world.node("n1").await;
    let mut actor = node.wake().await;
    actor.write_durably("a").await.expect("it is durable");
    actor.database.exec("b", Vec::new()).expect("it writes");
    node.validity.end();
    let puts = world.bucket.asked(Operation::Put);
    actor.leave().await;
    assert_eq!(world.bucket.asked(Operation::Put), puts);
    assert_eq!(node.databases.replaced_rows(&address()), Some(rows(&["a", "b"])));
}

#[tokio::test(start_paused = true)]
async fn an_actor_is_handed_to_another_node() {
    let world = World::new();
    let (first, second) = (world.node("n1").await, world.node("n2").await);
    let mut actor = first.wake().await;
    actor.write("a");
    actor.held.leave(Some(actor.database), Some(second.name.clone())).await;
    let _actor = second.wake().await;
    assert_eq!(second.databases.rows(&address()), rows(&["a"]));
}

/// The tree runs these on any thread.
#[tokio::test(start_paused = true)]
async fn what_waits_for_the_bucket_may_move_between_threads() {
    fn moves<T: Send + 'static>(future: T) -> T {
        future
    }
    let world = World::new();
    let node = world.node("n1").await;
    let replicas = node.replicas.clone();
    let held = moves(async move { replicas.hold(&address()).await }).await;
    let Ok(Holding::Here(mut held)) = held else { panic!("it is held") };
    let mut database = node.databases.open(&address()).expect("it opens");
    let leaves = moves(async move {
        held.durable(database.capturing()).await.expect("it is durable");
        if let Some(capturing) = database.capturing() {
            held.reset(capturing).await.expect("it is durable");
        }
        held.leave(Some(database), None).await;
    });
    leaves.await;
}
