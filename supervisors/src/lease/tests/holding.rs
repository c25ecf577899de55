//! A term: how long it lasts, and what ends it.

use super::*;
use crate::ports::Denial;
use crate::twin::leave_out;

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_every_period_and_says_how_the_node_is() {
    let world = World::new();
    let kept = world.keep();
    let term = kept.term().await;
    let first = world.written().expect("a lease");
    assert_eq!((first.session, first.beat), (term.session(), 1));
    assert_eq!((first.state.clone(), first.address.as_str()), (LeaseState::Live, "10.0.0.1:7000"));
    assert_eq!((first.ttl, first.grace), (LEASE_TTL, LEASE_GRACE));
    sleep(seconds(31.0)).await;
    let last = world.written().expect("a lease");
    assert_eq!((last.session, last.beat), (term.session(), 11));
    assert_ne!(last.nonce, first.nonce);
    assert!(term.is_valid() && term.renewed().is_some());
    assert_eq!(kept.phase(), Phase::Live);
    assert_eq!(kept.view.borrow().session, Some(term.session()));
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_at_its_horizon_though_a_renewal_hangs() {
    for fault in [BucketFault::Silent, BucketFault::LostRequest, BucketFault::Answered(503)] {
        let world = World::new();
        let began = world.now();
        let kept = world.keep();
        let term = kept.term().await;
        world.fails(Operation::Put, &vec![fault.clone(); 1000]);
        let ended = kept.ended(&term).await;
        let lasted = ended.since(began);
        assert!((LEASE_TTL..LEASE_TTL + seconds(0.1)).contains(&lasted), "{fault:?}: {lasted:?}");
        assert!(!term.is_valid());
    }
}

/// How long a term lasts whose only renewal lands at once, and is seen to have landed late.
async fn lasts_after_a_landing_seen_late() -> Duration {
    let world = World::new();
    let kept = world.keep();
    let term = kept.term().await;
    let began = world.now();
    world.fails(Operation::Put, &[BucketFault::LostAnswer]);
    world.fails(Operation::Put, &vec![BucketFault::Silent; 10]);
    kept.ended(&term).await.since(began)
}

#[tokio::test(start_paused = true)]
async fn the_horizon_counts_from_before_the_renewal_was_sent() {
    let right = LEASE_PERIOD + LEASE_TTL;
    let lasts = lasts_after_a_landing_seen_late().await;
    assert!((right..right + seconds(0.1)).contains(&lasts), "{lasts:?}");

    let _broken = leave_out(Twin::HorizonFromAnswer);
    let lasts = lasts_after_a_landing_seen_late().await;
    assert!(lasts > right + seconds(2.0), "{lasts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_found_to_have_landed_counts_by_when_it_was_written() {
    let world = World::new();
    let kept = world.keep();
    let term = kept.term().await;
    let first = term.renewed().expect("the bucket has a clock");
    world.fails(Operation::Put, &[BucketFault::LostAnswer]);
    sleep(seconds(5.9)).await;
    let renewed = term.renewed().expect("the bucket has a clock");
    // It landed three seconds after the first, and was read two and a half later.
    assert_eq!(renewed.0 - first.0, 3000);
}

/// The sessions before and after a renewal whose answer comes past the horizon.
async fn sessions_around_a_lapse(world: &World) -> (Term, Term) {
    let kept = world.keep();
    let before = kept.term().await;
    world.fails(Operation::Put, &[BucketFault::AnsweredLate(seconds(8.0))]);
    // Two reads: what became of the renewal, and what is there at the new start.
    world.fails(Operation::Get, &[BucketFault::None, BucketFault::AnsweredLate(seconds(1.0))]);
    before.ended().await;
    let why = kept.view.borrow().why.clone();
    assert!(matches!(why, Some(Why::Lapsed | Why::Unknown(_))), "{why:?}");
    (before, kept.term().await)
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_a_lapse_and_the_next_term_has_another_session() {
    let world = World::new();
    let (before, after) = sessions_around_a_lapse(&world).await;
    assert_ne!(before.session(), after.session());
    assert!(!before.is_valid() && after.is_valid(), "an old term holds in a new one");
    let written = world.written().expect("a lease");
    assert_eq!((written.session, written.beat), (after.session(), 1));
}

#[tokio::test(start_paused = true)]
async fn the_twin_that_keeps_its_session_over_a_lapse_keeps_its_holds() {
    let _broken = leave_out(Twin::KeepsSessionOverLapse);
    let world = World::new();
    let (before, after) = sessions_around_a_lapse(&world).await;
    assert_eq!(before.session(), after.session());
    assert!(before.is_valid(), "what the right rule refuses");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_node_stops_at_its_next_renewal_and_says_who_fenced_it() {
    let world = World::new();
    let kept = world.keep();
    let term = kept.term().await;
    sleep(seconds(4.0)).await;
    world.fence().await;
    term.ended().await;
    let ended = kept.keeper.await.expect("no panic");
    assert_eq!(ended, Ended::Fenced { by: node("n2"), reason: "expired".into() });
    assert!(matches!(world.written().expect("a lease").state, LeaseState::Fenced { .. }));
    assert_eq!(kept.view.borrow().phase, Phase::Ended);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_another_process_stands_in_for_stops_too() {
    for body in [a_lease(9, LeaseState::Live).encode(), Bytes::from_static(b"what is this")] {
        let world = World::new();
        let kept = world.keep();
        let term = kept.term().await;
        world.put(body.clone()).await;
        term.ended().await;
        let ended = kept.keeper.await.expect("no panic");
        assert!(matches!(&ended, Ended::Fenced { by, .. } if *by == node("n1")), "{ended:?}");
        assert_eq!(world.memory.body(KEY), Some(body), "it wrote over the other");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_fenced_after_its_own_lapse_begins_anew() {
    let world = World::new();
    let kept = world.keep();
    let before = kept.term().await;
    world.bucket.cut_off(true);
    before.ended().await;
    world.fence().await;
    sleep(seconds(20.0)).await;
    world.bucket.cut_off(false);
    let after = kept.term().await;
    assert_ne!(before.session(), after.session());
    assert_eq!(world.written().map(|lease| lease.session), Some(after.session()));
    assert!(!kept.keeper.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_gone_ends_its_term_and_a_new_one_begins() {
    let world = World::new();
    let kept = world.keep();
    let before = kept.term().await;
    world.memory.delete(KEY, Wait::Lease).await.expect("memory deletes all");
    before.ended().await;
    let after = kept.term().await;
    assert_ne!(before.session(), after.session());
}

#[tokio::test(start_paused = true)]
async fn a_denial_ends_it_for_good() {
    for operation in [Operation::Get, Operation::Put] {
        let world = World::new();
        let kept = world.keep();
        let term = kept.term().await;
        // A read is asked for when a write is not known to have landed.
        world.fails(Operation::Put, &[BucketFault::LostAnswer]);
        world.fails(operation, &[BucketFault::Denied]);
        term.ended().await;
        let ended = kept.keeper.await.expect("no panic");
        let Ended::Denied(Denial { status, .. }) = ended else { panic!("{ended:?}") };
        assert_eq!(status, 403);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_told_at_once_and_a_release_ends_the_term_before_it_is_told() {
    let world = World::new();
    let kept = world.keep();
    let term = kept.term().await;
    sleep(seconds(1.0)).await;
    kept.order(Order::Drain);
    sleep(seconds(0.1)).await;
    let draining = world.written().expect("a lease");
    assert_eq!((draining.state, draining.beat), (LeaseState::Draining, 2));
    assert_eq!(kept.phase(), Phase::Draining);
    sleep(seconds(20.0)).await;
    assert!(term.is_valid(), "a draining node goes on");

    world.fails(Operation::Put, &[BucketFault::AnsweredLate(seconds(1.0))]);
    kept.order(Order::Release);
    sleep(seconds(0.1)).await;
    assert!(!term.is_valid(), "others may take over while it still acts");
    assert_eq!(kept.keeper.await.expect("no panic"), Ended::Released);
    let released = world.written().expect("a lease");
    assert_eq!((released.state, released.session), (LeaseState::Released, term.session()));
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_no_longer_than_the_horizon() {
    let world = World::new();
    let kept = world.keep();
    kept.term().await;
    let began = world.now();
    world.bucket.cut_off(true);
    kept.order(Order::Release);
    assert_eq!(kept.keeper.await.expect("no panic"), Ended::Released);
    assert!(world.now().since(began) <= LEASE_TTL + seconds(0.1));
}

#[tokio::test(start_paused = true)]
async fn whoever_drops_the_keeper_ends_the_term() {
    let world = World::new();
    let kept = world.keep();
    let term = kept.term().await;
    kept.keeper.abort();
    term.ended().await;
    assert!(!term.is_valid());
}

#[tokio::test(start_paused = true)]
async fn time_that_passed_while_the_machine_slept_counts() {
    let world = World::new();
    let kept = world.keep();
    let before = kept.term().await;
    world.clock.jump(seconds(60.0));
    assert!(!before.is_valid(), "before the keeper has noticed");
    before.ended().await;
    let after = kept.term().await;
    assert_ne!(before.session(), after.session());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_while_the_clock_stands() {
    let world = World::new();
    let kept = world.keep();
    let term = kept.term().await;
    world.clock.stop();
    let asked = world.bucket.asked(Operation::Put);
    sleep(seconds(100.0)).await;
    assert_eq!(world.bucket.asked(Operation::Put), asked);
    // A clock that stands cannot see its horizon: the others fence the node, and its next renewal
    // finds that out.
    assert!(term.is_valid());
    world.fence().await;
    world.clock.go_on();
    term.ended().await;
    assert!(matches!(kept.keeper.await.expect("no panic"), Ended::Fenced { .. }));
}

#[tokio::test(start_paused = true)]
async fn no_event_starts_shortly_before_the_horizon() {
    let world = World::new();
    let kept = world.keep();
    let term = kept.term().await;
    world.bucket.cut_off(true);
    sleep(seconds(8.9)).await;
    assert!(term.may_start());
    sleep(seconds(0.2)).await;
    assert!(!term.may_start() && term.is_valid());
}

/// Renewals over a bucket that fails in every way, on clocks that are not right: a term is never valid
/// for longer than the lease's time after its last landing, and no two have one session.
#[tokio::test(start_paused = true)]
async fn whatever_fails_no_term_outlives_its_lease() {
    for seed in 0..20 {
        let mut world = World::new();
        let random = SeededRandom::new(seed);
        world.clock = SteadyClock::new().with_rate(0.85 + (random.next() % 36) as f64 / 100.0);
        let kept = world.keep();
        let mut sessions: Vec<Session> = Vec::new();
        for _ in 0..60 {
            let operation = [Operation::Put, Operation::Get][(random.next() % 2) as usize];
            let fault = match random.next() % 6 {
                0 => BucketFault::LostAnswer,
                1 => BucketFault::LostRequest,
                2 => BucketFault::AnsweredAfterAll(500),
                3 => BucketFault::Late(Duration::from_millis(random.next() % 30_000)),
                4 => BucketFault::AnsweredLate(Duration::from_millis(random.next() % 12_000)),
                _ => BucketFault::None,
            };
            world.bucket.fails(operation, fault);
        }
        let mut last: Option<(Session, u64, NodeTime)> = None;
        for _ in 0..4000 {
            sleep(seconds(0.1)).await;
            let now = world.now();
            if let Some(lease) = world.written() {
                let version = (lease.session, lease.beat);
                if last.is_none_or(|(session, beat, _)| (session, beat) != version) {
                    last = Some((lease.session, lease.beat, now));
                }
            }
            let Some(term) = kept.validity.term() else { continue };
            if sessions.last() != Some(&term.session()) {
                assert!(!sessions.contains(&term.session()), "seed {seed}: a session came back");
                sessions.push(term.session());
            }
            let (session, _, landed) = last.expect("a term without a lease");
            assert_eq!(session, term.session(), "seed {seed}: another session is in the bucket");
            assert!(now.since(landed) <= LEASE_TTL, "seed {seed}: valid past its lease");
        }
        assert!(!sessions.is_empty(), "seed {seed}");
    }
}
