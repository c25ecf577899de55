//! `is_void`: what is read and written before it says so.

use super::*;
use crate::twin::{Twin, leave_out};

#[tokio::test(start_paused = true)]
async fn a_session_that_is_renewed_stands() {
    let world = World::watching();
    let asks = async {
        for _ in 0..600 {
            assert!(!world.is_void(T).await);
            sleep(seconds(0.1)).await;
        }
    };
    tokio::join!(world.beats(T, seconds(61.0)), asks);
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_is_fenced_before_it_is_void() {
    for is_watched in [true, false] {
        let world = if is_watched { World::watching() } else { World::new() };
        world.put(a_lease(T, LeaseState::Live)).await;
        let took = world.until_void(T).await;
        assert!((seconds(15.0)..seconds(15.5)).contains(&took), "{took:?}");
        let fence = world.written().expect("a lease");
        assert_eq!(fence.session, T);
        let LeaseState::Fenced { by, reason } = fence.state else { panic!("it is not fenced") };
        assert_eq!((by, reason.as_str()), (node("n2"), "expired"));
        let asked = world.bucket.asked(Operation::Get);
        assert!(world.is_void(T).await);
        assert_eq!(world.bucket.asked(Operation::Get), asked, "what has ended is read again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_ended_by_itself_is_void_at_once() {
    for state in [LeaseState::Released, fenced()] {
        let world = World::new();
        world.put(a_lease(T, state)).await;
        assert!(world.is_void(T).await);
        assert_eq!(world.bucket.asked(Operation::Put), 0);
    }
}

/// The cache shows one session, the bucket the one after it, which is asked about.
async fn asks_about_a_session_newer_than_its_cache() -> bool {
    let world = World::new();
    world.put(a_lease(OTHER, LeaseState::Released)).await;
    assert!(world.is_void(OTHER).await);
    world.put(a_lease(T, LeaseState::Live)).await;
    world.is_void(T).await
}

#[tokio::test(start_paused = true)]
async fn a_session_newer_than_the_cache_is_not_void() {
    assert!(!asks_about_a_session_newer_than_its_cache().await);
    let _broken = leave_out(Twin::VoidByCachedSession);
    assert!(asks_about_a_session_newer_than_its_cache().await);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_another_took_the_place_of_is_void() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    assert!(!world.is_void(T).await);
    world.put(a_lease(OTHER, LeaseState::Live)).await;
    assert!(world.is_void(T).await);
    assert!(!world.is_void(OTHER).await);
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_read_showed_meanwhile_is_no_answer() {
    let world = World::new();
    world.put(a_lease(OTHER, LeaseState::Live)).await;
    for late in [1.5, 1.0] {
        world.bucket.fails(Operation::Get, BucketFault::AnsweredLate(seconds(late)));
    }
    let earlier = async { world.is_void(OTHER).await };
    let asks = async {
        sleep(seconds(0.5)).await;
        world.put(a_lease(T, LeaseState::Live)).await;
        sleep(seconds(0.5)).await;
        // The earlier read, of the session before, is answered before this one.
        world.is_void(T).await
    };
    let (_, is_void) = tokio::join!(earlier, asks);
    assert!(!is_void);
}

/// A read that is answered long after it was sent, while the node goes on.
async fn asks_with_a_late_answer() -> bool {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    assert!(!world.is_void(T).await);
    world.bucket.fails(Operation::Get, BucketFault::AnsweredLate(seconds(20.0)));
    let (is_void, ()) = tokio::join!(world.is_void(T), world.beats(T, seconds(25.0)));
    is_void
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_ends_nothing() {
    assert!(!asks_with_a_late_answer().await);
    let _broken = leave_out(Twin::VerdictFromReceiptWithoutFence);
    assert!(asks_with_a_late_answer().await);
}

#[tokio::test(start_paused = true)]
async fn a_missing_lease_is_fenced_by_one() {
    let world = World::new();
    let took = world.until_void(T).await;
    assert!(took >= seconds(15.0), "{took:?}");
    let fence = world.written().expect("a lease");
    assert_eq!(fence.session, T);
    assert!(matches!(fence.state, LeaseState::Fenced { .. }));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_fenced_as_well() {
    let world = World::new();
    world.put_bytes(&node("n1"), Bytes::from_static(b"\xffnobody's")).await;
    let took = world.until_void(T).await;
    assert!(took >= seconds(15.0), "{took:?}");
    assert_eq!(world.written().map(|lease| lease.session), Some(T));
    // A lease under another's key says nothing of it.
    let world = World::new();
    world
        .put_bytes(
            &node("n1"),
            LeaseRecord { node: node("n9"), ..a_lease(OTHER, fenced()) }.encode(),
        )
        .await;
    assert!(!world.is_void(T).await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_renews_just_before_it_is_fenced_stands() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    assert!(!world.is_void(T).await);
    sleep(seconds(15.0)).await;
    // The read is late enough; when its answer comes, the node has been there.
    world.bucket.fails(Operation::Get, BucketFault::AnsweredLate(seconds(1.0)));
    let renews = async {
        sleep(seconds(0.5)).await;
        world.put(a_lease(T, LeaseState::Live)).await;
    };
    let (is_void, ()) = tokio::join!(world.is_void(T), renews);
    assert!(!is_void);
    assert_eq!(world.bucket.asked(Operation::Put), 1, "it did not try to fence");
    assert_eq!(world.written().map(|lease| lease.state), Some(LeaseState::Live));
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_landed_unseen_counts() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    assert!(!world.is_void(T).await);
    sleep(seconds(15.0)).await;
    world.bucket.fails(Operation::Put, BucketFault::LostAnswer);
    assert!(world.is_void(T).await);
    assert_eq!(world.bucket.asked(Operation::Put), 1);
}

#[tokio::test(start_paused = true)]
async fn of_many_that_fence_all_find_it_void_and_one_wrote() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    assert!(!world.is_void(T).await);
    sleep(seconds(15.0)).await;
    // So that all have read before the first writes.
    for _ in 0..5 {
        world.bucket.fails(Operation::Get, BucketFault::AnsweredLate(seconds(1.0)));
    }
    let asks = (0..5).map(|_| {
        let peers = Arc::clone(&world.peers);
        tokio::spawn(async move { peers.is_void(&node("n1"), T).await })
    });
    for asks in asks.collect::<Vec<_>>() {
        assert_eq!(asks.await.expect("no panic"), Ok(true));
    }
}

#[tokio::test(start_paused = true)]
async fn of_itself_a_node_knows() {
    let world = World::new();
    let own = session(0xee);
    assert_eq!(world.peers.is_void(&node("n2"), own).await, Ok(false));
    assert_eq!(world.bucket.asked(Operation::Get), 0);
    let lease = |session| LeaseRecord { node: node("n2"), ..a_lease(session, LeaseState::Live) };
    world.put(lease(own)).await;
    assert_eq!(world.peers.is_void(&node("n2"), T).await, Ok(true));
    world.validity.end();
    assert_eq!(world.peers.is_void(&node("n2"), T).await, Err(PeersError::NotLive));
    assert_eq!(world.bucket.asked(Operation::Get), 1);
}

/// Its clock stood still, so it does not know that its term is over.
#[tokio::test(start_paused = true)]
async fn a_later_session_of_its_own_name_is_not_void() {
    let world = World::new();
    world.put(LeaseRecord { node: node("n2"), ..a_lease(T, LeaseState::Live) }).await;
    assert_eq!(world.peers.is_void(&node("n2"), T).await, Err(PeersError::NotLive));
}

#[tokio::test(start_paused = true)]
async fn who_has_no_lease_fences_nobody() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    assert!(!world.is_void(T).await);
    sleep(seconds(15.0)).await;
    world.validity.end();
    let asked = world.peers.is_void(&node("n1"), T).await;
    assert_eq!(asked, Err(PeersError::NotLive));
    assert_eq!(world.written().map(|lease| lease.state), Some(LeaseState::Live));
}

#[tokio::test(start_paused = true)]
async fn who_loses_its_lease_while_it_fences_sends_nothing_more() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Live)).await;
    assert!(!world.is_void(T).await);
    sleep(seconds(15.0)).await;
    world.bucket.fails(Operation::Put, BucketFault::LostRequest);
    let lapses = async {
        sleep(seconds(1.0)).await;
        world.validity.end();
    };
    let n1 = node("n1");
    let (asked, ()) = tokio::join!(world.peers.is_void(&n1, T), lapses);
    assert!(matches!(asked, Err(PeersError::Unknown(_))), "{asked:?}");
    assert_eq!(world.bucket.asked(Operation::Put), 1);
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_says_nothing_is_no_verdict() {
    let world = World::new();
    world.put(a_lease(T, LeaseState::Released)).await;
    world.bucket.cut_off(true);
    let asked = world.peers.is_void(&node("n1"), T).await;
    assert!(matches!(asked, Err(PeersError::Unknown(_))), "{asked:?}");
    world.bucket.cut_off(false);
    world.bucket.fails(Operation::Get, BucketFault::Denied);
    let asked = world.peers.is_void(&node("n1"), T).await;
    assert!(matches!(asked, Err(PeersError::Denied(_))), "{asked:?}");
}
