//! How a node begins, and beside whom it does not.

use super::*;
use crate::twin::leave_out;

/// Two processes with one id. How long it takes until both are valid at once, if they ever are.
async fn both_act(world: &World, last_session: Option<Session>) -> bool {
    let first = world.keep();
    first.term().await;
    let second = world.keep_after(last_session);
    for _ in 0..1200 {
        sleep(seconds(0.1)).await;
        if first.validity.term().is_some() && second.validity.term().is_some() {
            return true;
        }
    }
    assert!(first.validity.term().is_some(), "the first one has lost its lease");
    let why = second.view.borrow().why.clone();
    assert_eq!(why, Some(Why::Beside { address: "10.0.0.1:7000".into() }));
    false
}

#[tokio::test(start_paused = true)]
async fn nobody_starts_beside_a_live_node_of_the_same_name() {
    assert!(!both_act(&World::new(), None).await);
    // A session file of an earlier process says nothing about the one that runs.
    let other = Some(Session::from_bytes([9; 16]));
    assert!(!both_act(&World::new(), other).await);

    let _broken = leave_out(Twin::StartsBesideItself);
    assert!(both_act(&World::new(), None).await);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_has_ended_is_replaced_at_once() {
    for state in [LeaseState::Released, fenced()] {
        let world = World::new();
        world.put(a_lease(1, state).encode()).await;
        let began = world.now();
        let term = world.keep().term().await;
        assert!(world.now().since(began) < seconds(0.1));
        assert_ne!(term.session(), Session::from_bytes([1; 16]));
        assert_eq!(world.written().map(|lease| lease.session), Some(term.session()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_follows_its_own_crash_does_not_wait() {
    for state in [LeaseState::Live, LeaseState::Draining] {
        let world = World::new();
        world.put(a_lease(1, state).encode()).await;
        let began = world.now();
        let last = Session::from_bytes([1; 16]);
        let term = world.keep_after(Some(last)).term().await;
        assert!(world.now().since(began) < seconds(0.1));
        assert_ne!(term.session(), last);
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_lease_of_another_is_waited_for_by_its_own_numbers() {
    let patient = LeaseRecord { ttl: seconds(60.0), ..a_lease(1, LeaseState::Live) };
    for (body, wait) in [
        (a_lease(1, LeaseState::Live).encode(), 15.0),
        (a_lease(1, LeaseState::Draining).encode(), 15.0),
        (patient.encode(), 65.0),
        (Bytes::from_static(b"wasmkeep node 2\nof a newer program\n"), 15.0),
        (Bytes::from_static(b"\xff\xfe nobody's"), 15.0),
    ] {
        let world = World::new();
        world.put(body.clone()).await;
        let began = world.now();
        let kept = world.keep();
        kept.term().await;
        let waited = world.now().since(began);
        assert!((seconds(wait)..seconds(wait + 0.2)).contains(&waited), "{body:?}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_starts_the_wait_anew() {
    let world = World::new();
    world.put(a_lease(1, LeaseState::Live).encode()).await;
    let began = world.now();
    let kept = world.keep();
    sleep(seconds(10.0)).await;
    world.put(a_lease(2, LeaseState::Live).encode()).await;
    kept.term().await;
    assert!(world.now().since(began) >= seconds(25.0));
}

#[tokio::test(start_paused = true)]
async fn reads_that_fail_do_not_count_as_watching() {
    let world = World::new();
    world.put(a_lease(1, LeaseState::Live).encode()).await;
    let began = world.now();
    let kept = world.keep();
    sleep(seconds(1.0)).await;
    world.bucket.cut_off(true);
    sleep(seconds(13.0)).await;
    world.bucket.cut_off(false);
    kept.term().await;
    // The version that was seen first is still there after the time, so that is what counts.
    let waited = world.now().since(began);
    assert!((seconds(15.0)..seconds(19.0)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn every_write_of_a_start_has_a_session_of_its_own_which_is_remembered_before() {
    let world = World::new();
    // The first lands unseen, and is fenced before it is found.
    world.fails(Operation::Put, &[BucketFault::LostAnswer]);
    let kept = world.keep();
    sleep(seconds(1.0)).await;
    let first = world.written().expect("it landed").session;
    world.fence().await;
    let term = kept.term().await;
    assert_ne!(term.session(), first, "a session that others saw fenced came back");
    let remembered = world.remembered.lock().expect("no panic").clone();
    assert_eq!(remembered, [first, term.session()]);
}

#[tokio::test(start_paused = true)]
async fn a_first_write_that_is_answered_too_late_begins_no_term() {
    let world = World::new();
    world.fails(Operation::Put, &[BucketFault::AnsweredLate(seconds(11.0))]);
    let kept = world.keep();
    let term = kept.term().await;
    let remembered = world.remembered.lock().expect("no panic").clone();
    assert_eq!(remembered.len(), 2);
    assert_eq!(remembered[1], term.session());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_to_release_while_it_starts_just_ends() {
    let world = World::new();
    world.bucket.cut_off(true);
    let kept = world.keep();
    sleep(seconds(5.0)).await;
    assert!(matches!(kept.view.borrow().why, Some(Why::Unknown(_))));
    kept.order(Order::Release);
    assert_eq!(kept.keeper.await.expect("no panic"), Ended::Released);
}

#[tokio::test(start_paused = true)]
async fn a_denied_start_is_the_end() {
    for operation in [Operation::Get, Operation::Put] {
        let world = World::new();
        world.fails(operation, &[BucketFault::Denied]);
        let ended = world.keep().keeper.await.expect("no panic");
        assert!(matches!(ended, Ended::Denied(_)), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_drains_is_draining_from_its_first_beat() {
    let world = World::new();
    world.bucket.cut_off(true);
    let kept = world.keep();
    kept.order(Order::Drain);
    sleep(seconds(5.0)).await;
    world.bucket.cut_off(false);
    kept.term().await;
    assert_eq!(world.written().map(|lease| lease.state), Some(LeaseState::Draining));
    assert_eq!(kept.phase(), Phase::Draining);
}
