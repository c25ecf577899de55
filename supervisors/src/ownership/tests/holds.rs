use super::*;
use crate::node::PeersError;
use crate::ports::Denial;

#[tokio::test(start_paused = true)]
async fn a_first_hold_is_above_whatever_is_in_the_history() {
    for (seen, twin) in [(6, None), (1, Some(Twin::GenerationNotAboveHistory))] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        world.segment(5, 3).await;
        let hold = world.node("n1").hold().await;
        assert!(matches!(hold.begun, Begun::New(_)));
        assert_eq!(
            (hold.generation, world.record().generation),
            (generation(seen), generation(seen))
        );
        assert_eq!(found(&hold).listing().head(), Some(at(5, 3)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_written_above_a_generation_that_landed_meanwhile() {
    let world = World::new();
    world.bucket.meanwhile(Operation::Put, &segment_key(4, 1), b"late");
    let hold = world.node("n1").hold().await;
    assert_eq!((hold.generation, world.record().generation), (generation(5), generation(5)));
    assert_eq!(found(&hold).listing().head(), Some(at(4, 1)));

    // Also where there was a record: the owners may come out of an older copy of the bucket.
    let node = world.node("n1");
    world.segment(9, 1).await;
    let hold = node.hold().await;
    assert_eq!((hold.generation, world.record().generation), (generation(10), generation(10)));
}

#[tokio::test(start_paused = true)]
async fn the_history_is_listed_after_the_record_was_written() {
    for (head, twin) in [(at(1, 2), None), (at(1, 1), Some(Twin::ListsBeforeAcquire))] {
        let world = World::new();
        let former = world.node("n1").hold().await;
        world.segment(1, 1).await;
        world.end(&former, "n1").await;
        let _twin = twin.map(leave_out);
        // The former holder's last segment, which it still was told of.
        world.bucket.meanwhile(Operation::Put, &segment_key(1, 2), b"acknowledged");
        let hold = world.node("n2").hold().await;
        assert!(matches!(hold.begun, Begun::Taken(_)));
        assert_eq!(hold.generation, generation(2));
        assert_eq!(found(&hold).listing().head(), Some(head));
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_landed_unseen_is_found() {
    for twin in [None, Some(Twin::RetriesBlindly)] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        world.bucket.fails(Operation::Put, BucketFault::AnsweredAfterAll(500));
        let acquired = world.node("n1").acquire().await;
        match twin {
            None => assert!(matches!(acquired, Ok(Acquired::Here(_))), "{acquired:?}"),
            Some(_) => assert_eq!(acquired.err(), Some(AcquireError::LostRace)),
        }
        assert_eq!(world.bucket.asked(Operation::Put), if twin.is_some() { 2 } else { 1 });
    }
}

/// Two processes of one node and one session, as no lease allows: only the nonce tells them apart.
#[tokio::test(start_paused = true)]
async fn of_two_that_write_the_same_record_one_has_it() {
    for twin in [None, Some(Twin::RecordsWithoutNonce)] {
        let _twin = twin.map(leave_out);
        let world = World::new();
        let first = world.node("n1");
        let second = world.node_with("n1", first.validity.clone(), first.session);
        // Both see that there is no record before either writes one.
        for _ in 0..2 {
            world.bucket.fails(Operation::Get, BucketFault::AnsweredLate(Duration::from_secs(1)));
        }
        let (first, second) = tokio::join!(first.acquire(), second.acquire());
        let holds =
            [first, second].into_iter().filter(|hold| matches!(hold, Ok(Acquired::Here(_))));
        assert_eq!(holds.count(), if twin.is_some() { 2 } else { 1 }, "{twin:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_of_a_live_node_is_left_to_it_and_taken_once_that_is_void() {
    let world = World::new();
    let (first, second) = (world.node("n1"), world.node("n2"));
    let held = first.hold().await;
    world.live("n1", first.session).await;
    let before = world.record();
    match second.acquire().await {
        Ok(Acquired::Elsewhere(node)) => assert_eq!(node, id("n1")),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.record(), before);
    world.end(&held, "n1").await;
    let taken = second.hold().await;
    assert!(matches!(taken.begun, Begun::Taken(_)));
    assert_eq!(taken.generation, generation(2));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_names_this_node_is_nobodys() {
    let world = World::new();
    let node = world.node("n1");
    let first = node.hold().await;
    let second = node.hold().await;
    assert!(matches!(second.begun, Begun::Own(_)));
    assert_eq!(second.generation, generation(2));
    assert!(!first.right().is_valid(), "the hold before it goes on");
    node.owners.give_up(&first);
    assert!(second.right().is_valid());

    // Started anew, with another session.
    let third = world.node("n1").hold().await;
    assert_eq!(third.generation, generation(3));
}

/// Its clock stood still meanwhile, so it does not know that it has ended.
#[tokio::test(start_paused = true)]
async fn a_process_whose_name_another_one_took_leaves_that_ones_actors_alone() {
    let world = World::new();
    let (stood, later) = (world.node("n1"), world.node("n1"));
    world.live("n1", later.session).await;
    let hold = later.hold().await;
    let ended = AcquireError::Peers(PeersError::NotLive);
    assert_eq!(stood.acquire().await.err(), Some(ended.clone()));
    assert_eq!(stood.owners.disown(&address()).await, Err(ended));
    let Holder::Held { session, .. } = world.record().holder else { panic!("it is free") };
    assert_eq!((session, hold.generation), (later.session, world.record().generation));
}

#[tokio::test(start_paused = true)]
async fn without_a_lease_nothing_is_asked() {
    let world = World::new();
    let node = world.node("n1");
    node.validity.end();
    assert_eq!(node.acquire().await.err(), Some(AcquireError::NotLive));
    assert_eq!(node.owners.disown(&address()).await, Err(AcquireError::NotLive));
    assert_eq!(world.bucket.asked(Operation::Get) + world.bucket.asked(Operation::Put), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_at_or_after_the_horizon() {
    for (sent, twin) in [(1, None), (2, Some(Twin::SendsPastHorizon))] {
        let world = World::new();
        let node = world.node("n1");
        // The first attempt fails, and when that is known the lease has run out.
        world.bucket.fails(Operation::Put, BucketFault::Answered(503));
        world.bucket.fails(Operation::Get, BucketFault::None);
        world.bucket.fails(Operation::Get, BucketFault::AnsweredLate(Duration::from_secs(2)));
        node.validity.extend(world.clock.now().plus(Duration::from_secs(1)), None);
        let _twin = twin.map(leave_out);
        let acquired = node.acquire().await;
        assert!(acquired.is_err(), "{acquired:?}");
        assert_eq!(world.bucket.asked(Operation::Put), sent, "{twin:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_needs_the_session_to_be_unbroken_to_its_end() {
    let world = World::new();
    let node = world.node("n1");
    node.validity.extend(world.clock.now().plus(Duration::from_secs(5)), None);
    world.bucket.fails(Operation::List, BucketFault::None);
    world.bucket.fails(Operation::List, BucketFault::LostRequest);
    let acquired = node.acquire().await;
    assert!(
        matches!(acquired, Err(AcquireError::NotLive | AcquireError::Unknown(_))),
        "{acquired:?}"
    );
    // The record names the node, and nobody holds.
    assert!(matches!(world.record().holder, Holder::Held { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_not_written_over() {
    for (body, newer) in [("wasmkeep owner 2\nwhatever\n", true), ("rubbish", false)] {
        let world = World::new();
        world.bucket.meanwhile(Operation::Get, &key(), body.as_bytes());
        let error = world.node("n1").acquire().await.expect_err("it cannot be read");
        assert!(matches!(error, AcquireError::Record(_)));
        assert_eq!(matches!(error, AcquireError::Record(OwnerRecordError::Newer(2))), newer);
        assert_eq!(world.bucket.asked(Operation::Put), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_refuses_says_so() {
    let world = World::new();
    world.bucket.fails(Operation::Get, BucketFault::Denied);
    let refused = world.node("n1").acquire().await;
    assert!(matches!(refused, Err(AcquireError::Denied(Denial { status: 403, .. }))));
}

#[tokio::test(start_paused = true)]
async fn of_many_nodes_one_gets_the_actor() {
    for seed in 0..30 {
        let world = World::new();
        let faults = SeededRandom::new(seed);
        for _ in 0..60 {
            let fault = match faults.next() % 5 {
                0 => BucketFault::Answered(409),
                1 => BucketFault::AnsweredAfterAll(500),
                2 => BucketFault::LostAnswer,
                _ => BucketFault::None,
            };
            world.bucket.fails(Operation::Put, fault);
        }
        let nodes: Vec<Node> = (0..8).map(|node| world.node(&format!("n{node}"))).collect();
        for node in &nodes {
            world.live(node.owners.node().as_str(), node.session).await;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for node in nodes {
            tasks.spawn(async move { (node.owners.node().clone(), node.acquire().await) });
        }
        let outcomes = tasks.join_all().await;
        let holds: Vec<_> = outcomes
            .iter()
            .filter_map(|(node, acquired)| match acquired {
                Ok(Acquired::Here(hold)) if hold.right().is_valid() => Some((node, hold)),
                _ => None,
            })
            .collect();
        assert!(holds.len() <= 1, "seed {seed}: {outcomes:?}");
        if let [(node, hold)] = holds[..] {
            let record = world.record();
            assert_eq!(record.generation, hold.generation, "seed {seed}");
            let named = matches!(&record.holder, Holder::Held { node: named, .. } if named == node);
            assert!(named, "seed {seed}");
        }
    }
}
