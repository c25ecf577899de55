//! An operator's fence.

use super::*;

async fn fence(world: &World, force: bool) -> Result<Fenced, FenceError> {
    world.peers.fence(&node("n1"), "the machine burnt", force).await
}

#[tokio::test(start_paused = true)]
async fn a_node_that_renews_its_lease_is_fenced_by_force_only() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    let (refused, ()) = tokio::join!(fence(&world, false), world.beats(T, seconds(9.0)));
    assert_eq!(refused, Err(FenceError::Beating));
    assert_eq!(world.written().map(|lease| lease.state), Some(LeaseState::Live));
    assert_eq!(fence(&world, true).await, Ok(Fenced::Now));
    let reason = "the machine burnt".to_owned();
    let state = LeaseState::Fenced { by: node("n2"), reason };
    assert_eq!(world.written().map(|lease| lease.state), Some(state));
    assert!(world.is_void(T).await);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_fenced_without_waiting_for_it_to_expire() {
    let world = World::new();
    // An operator's command has no lease of its own.
    world.validity.end();
    world.put(a_lease(T, LeaseState::Draining)).await;
    let began = world.now();
    assert_eq!(fence(&world, false).await, Ok(Fenced::Now));
    assert!(world.now().since(began) < LEASE_TTL);
    assert_eq!(fence(&world, false).await, Ok(Fenced::Before));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_or_not_readable_is_not_fenced() {
    let world = World::new();
    assert_eq!(fence(&world, true).await, Err(FenceError::NoSuchNode));
    world.put_bytes(&node("n1"), Bytes::from_static(b"wasmkeep node 9\n")).await;
    assert_eq!(fence(&world, true).await, Err(FenceError::Unreadable));
    world.bucket.cut_off(true);
    let unknown = fence(&world, true).await;
    assert!(matches!(unknown, Err(FenceError::Bucket(PeersError::Unknown(_)))), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_forced_fence_that_meets_a_renewal_goes_on() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    world.bucket.fails(Operation::Put, BucketFault::Late(seconds(60.0)));
    let (fenced, ()) = tokio::join!(fence(&world, true), world.beats(T, seconds(2.0)));
    assert_eq!(fenced, Ok(Fenced::Now));
    assert!(matches!(world.written().map(|lease| lease.state), Some(LeaseState::Fenced { .. })));
}
