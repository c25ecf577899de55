//! What is known of the others, and how soon.

use super::*;

fn names(world: &World) -> Vec<String> {
    world.peers.all().iter().map(|peer| peer.node.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn nodes_are_found_by_a_listing_and_this_one_is_not_among_them() {
    let world = World::new();
    for name in ["n1", "n2", "n4"] {
        world.put(LeaseRecord { node: node(name), ..a_lease(T, LeaseState::Live) }).await;
    }
    world.put_bytes(&node("n5"), Bytes::from_static(b"no lease")).await;
    let put = world.memory.put("nodes/n1/x", Bytes::new(), Cond::Any, Wait::Lease);
    put.await.expect("memory takes all");
    let peers = Arc::clone(&world.peers);
    tokio::spawn(async move { peers.watch().await });
    sleep(seconds(0.1)).await;
    assert_eq!(names(&world), ["n1", "n4"]);
    assert_eq!(world.peers.find(&node("n5")), None);
    let peer = world.peers.find(&node("n1")).expect("a peer");
    assert_eq!((peer.session, peer.address.as_str()), (T, "10.0.0.1:7000"));
    assert_eq!((peer.state, peer.is_suspect), (LeaseState::Live, false));

    world.put(LeaseRecord { node: node("n3"), ..a_lease(T, LeaseState::Live) }).await;
    sleep(seconds(34.0)).await;
    assert_eq!(names(&world), ["n1", "n3", "n4"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_says_hello_is_read_at_once_and_believed_by_its_lease_only() {
    let world = World::watching();
    sleep(seconds(1.0)).await;
    let hello = a_lease(OTHER, LeaseState::Live).encode();
    assert_eq!(world.peers.hello(&hello), Ok(()));
    sleep(seconds(0.1)).await;
    assert_eq!(names(&world), Vec::<String>::new(), "it has no lease in the bucket");
    world.put(a_lease(T, LeaseState::Live)).await;
    assert_eq!(world.peers.hello(&hello), Ok(()));
    sleep(seconds(0.1)).await;
    assert_eq!(world.peers.find(&node("n1")).map(|peer| peer.session), Some(T));
    assert!(world.peers.hello(b"what?").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_change_is_seen_within_a_period_and_silence_after_the_leases_time() {
    let world = World::watching();
    world.put(a_lease(T, LeaseState::Live)).await;
    world.peers.hello(&a_lease(T, LeaseState::Live).encode()).expect("a lease");
    sleep(seconds(0.5)).await;
    world.put(a_lease(T, LeaseState::Draining)).await;
    sleep(seconds(3.1)).await;
    let find = || world.peers.find(&node("n1")).expect("a peer");
    assert_eq!((find().state, find().is_suspect), (LeaseState::Draining, false));
    sleep(seconds(9.0)).await;
    assert!(!find().is_suspect);
    sleep(seconds(4.1)).await;
    assert!(find().is_suspect);
    world.put(a_lease(OTHER, LeaseState::Live)).await;
    sleep(seconds(3.1)).await;
    assert_eq!((find().session, find().is_suspect), (OTHER, false));
}

#[tokio::test(start_paused = true)]
async fn silence_of_the_bucket_makes_nobody_suspect() {
    let world = World::watching();
    world.put(a_lease(T, LeaseState::Live)).await;
    world.peers.hello(&a_lease(T, LeaseState::Live).encode()).expect("a lease");
    sleep(seconds(1.0)).await;
    world.bucket.cut_off(true);
    sleep(seconds(60.0)).await;
    assert!(!world.peers.find(&node("n1")).expect("a peer").is_suspect);
}

#[tokio::test(start_paused = true)]
async fn one_lease_that_is_slow_to_read_holds_up_no_other() {
    let world = World::new();
    for name in ["n1", "n3"] {
        world.put(LeaseRecord { node: node(name), ..a_lease(T, LeaseState::Live) }).await;
    }
    world.bucket.fails(Operation::Get, BucketFault::LostRequest);
    let peers = Arc::clone(&world.peers);
    tokio::spawn(async move { peers.watch().await });
    sleep(seconds(0.1)).await;
    assert_eq!(names(&world), ["n3"]);
    sleep(seconds(3.1)).await;
    assert_eq!(names(&world), ["n1", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_lease_is_gone_is_forgotten_in_time() {
    let world = World::watching();
    world.put(a_lease(T, LeaseState::Live)).await;
    world.peers.hello(&a_lease(T, LeaseState::Live).encode()).expect("a lease");
    sleep(seconds(1.0)).await;
    world.memory.delete("nodes/n1", Wait::Lease).await.expect("memory deletes all");
    sleep(seconds(4.0)).await;
    assert_eq!(names(&world), Vec::<String>::new());
    let asked = world.bucket.asked(Operation::Get);
    sleep(seconds(400.0)).await;
    assert!(world.bucket.asked(Operation::Get) > asked + 50);
    let asked = world.bucket.asked(Operation::Get);
    sleep(seconds(100.0)).await;
    assert_eq!(world.bucket.asked(Operation::Get), asked);
}
