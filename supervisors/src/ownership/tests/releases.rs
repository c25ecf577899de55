use super::*;

#[tokio::test(start_paused = true)]
async fn an_own_release_that_is_unchanged_costs_one_write() {
    let world = World::new();
    let node = world.node("n1");
    let hold = node.hold().await;
    let right = hold.right().clone();
    let released = node.owners.release(hold, Some(head(1, 4)), None).await.expect("it landed");
    assert!(right.has_ended());
    assert_eq!(world.record().holder, Holder::Free { next: None });
    let asked = |operation| world.bucket.asked(operation);
    let before = (asked(Operation::Get), asked(Operation::Put), asked(Operation::List));
    let hold = node.hold_with(Some(released)).await;
    assert!(matches!(hold.begun, Begun::Unchanged(known) if known == head(1, 4)));
    assert_eq!(hold.generation, generation(2));
    let after = (asked(Operation::Get), asked(Operation::Put), asked(Operation::List));
    assert_eq!(after, (before.0, before.1 + 1, before.2));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_built_upon_arms_nothing() {
    let world = World::new();
    let (first, second) = (world.node("n1"), world.node("n2"));
    let hold = first.hold().await;
    let released = first.owners.release(hold, Some(head(1, 4)), None).await.expect("it landed");
    let hold = second.hold().await;
    assert!(matches!(hold.begun, Begun::Free(_)));
    world.segment(2, 1).await;
    second.owners.release(hold, Some(head(2, 1)), None).await.expect("it landed");
    let hold = first.hold_with(Some(released)).await;
    assert_eq!((hold.generation, found(&hold).listing().head()), (generation(3), Some(at(2, 1))));
}

#[tokio::test(start_paused = true)]
async fn a_release_without_a_known_head_arms_nothing() {
    let world = World::new();
    let node = world.node("n1");
    let hold = node.hold().await;
    let released = node.owners.release(hold, None, None).await.expect("it landed");
    let hold = node.hold_with(Some(released)).await;
    assert!(matches!(hold.begun, Begun::Free(_)));
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_before_its_release_is_sent() {
    for twin in [None, Some(Twin::ResumesAfterUnknownRelease)] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        let (first, second) = (world.node("n1"), world.node("n2"));
        let hold = first.hold().await;
        let right = hold.right().clone();
        world.bucket.fails(Operation::Put, BucketFault::Late(Duration::from_secs(15)));
        let released = first.owners.release(hold, Some(head(1, 4)), None).await;
        assert_eq!(released.is_some(), twin.is_some());
        let resumed = first.hold_with(released).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        world.live("n1", first.session).await;
        let other = second.acquire().await;
        let both = matches!(other, Ok(Acquired::Here(_)))
            && (resumed.right().is_valid() || right.is_valid());
        assert_eq!(both, twin.is_some(), "{other:?}");
        assert!(twin.is_some() || right.has_ended());
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_release_changes_nothing_once_the_node_has_acquired_again() {
    let world = World::new();
    let node = world.node("n1");
    let hold = node.hold().await;
    world.bucket.fails(Operation::Put, BucketFault::Late(Duration::from_secs(25)));
    assert_eq!(node.owners.release(hold, Some(head(1, 1)), None).await, None);
    let hold = node.hold().await;
    assert_eq!(hold.generation, generation(2));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(matches!(world.record().holder, Holder::Held { .. }), "the release undid the hold");
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_node_releases_nothing() {
    let world = World::new();
    let node = world.node("n1");
    let hold = node.hold().await;
    node.validity.end();
    assert_eq!(node.owners.release(hold, Some(head(1, 1)), None).await, None);
    assert_eq!(world.bucket.asked(Operation::Put), 1);
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_was_handed_over_is_left_to_that_node_for_a_while() {
    let world = World::new();
    let (first, second, third) = (world.node("n1"), world.node("n2"), world.node("n3"));
    let hold = first.hold().await;
    first.owners.release(hold, Some(head(1, 1)), Some(id("n2"))).await.expect("it landed");
    // It is not live: nobody waits for it.
    world.live("n2", second.session).await;
    // Looked at once, so that it is known.
    let _ = third.peers.is_void(&id("n2"), second.session).await;
    match third.acquire().await {
        Ok(Acquired::Elsewhere(node)) => assert_eq!(node, id("n2")),
        other => panic!("{other:?}"),
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    world.live("n2", second.session).await;
    assert_eq!(third.hold().await.generation, generation(2));
    let hold = second.acquire().await;
    assert!(matches!(hold, Ok(Acquired::Elsewhere(_)) | Err(_)), "{hold:?}");
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_was_handed_over_is_taken_by_who_it_was_handed_to() {
    let world = World::new();
    let (first, second) = (world.node("n1"), world.node("n2"));
    let hold = first.hold().await;
    first.owners.release(hold, Some(head(1, 1)), Some(id("n2"))).await.expect("it landed");
    assert_eq!(second.hold().await.generation, generation(2));
}

#[tokio::test(start_paused = true)]
async fn a_node_disowns_what_it_does_not_hold() {
    let world = World::new();
    let node = world.node("n1");
    assert_eq!(node.owners.disown(&address()).await, Ok(false));
    let hold = node.hold().await;
    assert_eq!(node.owners.disown(&address()).await, Ok(false), "it has a hold");
    node.owners.give_up(&hold);
    assert_eq!(node.owners.disown(&address()).await, Ok(true));
    let record = world.record();
    assert_eq!((record.generation, record.holder), (generation(1), Holder::Free { next: None }));
    assert_eq!(node.owners.disown(&address()).await, Ok(false));

    let other = world.node("n2");
    let _hold = other.hold().await;
    assert_eq!(node.owners.disown(&address()).await, Ok(false), "it is another's");
}
