//! The interleavings that the argument for the protocol rests on, one by one. Where a rule matters, the
//! same scene without it breaks a promise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use wasmkeep_sim::fate::{Fate, Operation};
use wasmkeep_sim::faults::{Crashed, Fault};
use wasmkeep_sim::scene::{RECORD, SEGMENT, SNAPSHOT, Scene, play};
use wasmkeep_sim::workload::Next;
use wasmkeep_supervisors::twin::Twin;

const N0: &str = "nodes/n0";
const PUT_SEGMENT: (Operation, &str) = (Operation::Put, SEGMENT);
const PUT_RECORD: (Operation, &str) = (Operation::Put, RECORD);
const PUT_N0: (Operation, &str) = (Operation::Put, N0);

fn late(seconds: u64) -> Fate {
    Fate::late(Duration::from_secs(seconds))
}

/// Keeps its promises, and with any of these rules left out does not.
#[track_caller]
fn needs<F: Future>(twins: &[Twin], scene: impl Fn(Scene) -> F) {
    assert_eq!(play(None, &scene), None);
    for twin in twins {
        let broken = catch_unwind(AssertUnwindSafe(|| play(Some(*twin), &scene)));
        // What the scene itself expects may fail first.
        assert!(!matches!(broken, Ok(None)), "{twin:?} is not caught");
    }
}

#[track_caller]
fn keeps<F: Future>(scene: impl Fn(Scene) -> F) {
    needs(&[], scene);
}

#[test]
fn a_write_whose_node_pauses_before_the_answer_is_not_acknowledged_and_is_kept() {
    needs(&[Twin::AcknowledgesPastHorizon], async |scene: Scene| {
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let mut visit = scene.hold(&a).await;
        let token = scene.token();
        let slow = Fate { answered: Some(Duration::from_millis(500)), ..Fate::good() };
        scene.next(0, PUT_SEGMENT, slow);
        let writes = scene.write(&mut visit, token);
        let meanwhile = async {
            scene.wait(0.2).await;
            scene.pause(0, 40.0, false);
            let mut taken = scene.hold(&b).await;
            assert!(taken.has(token), "it landed before the take");
            assert!(scene.write(&mut taken, scene.token()).await);
            // Goes on until the first one wakes.
            scene.wait(30.0).await;
        };
        let (is_acknowledged, ()) = tokio::join!(writes, meanwhile);
        assert!(!is_acknowledged);
        visit.give_up();
    });
}

/// F2 of the review: the retry that changes nothing is answered by what was only read.
#[test]
fn a_retry_that_changes_nothing_survives_a_later_landing_of_an_earlier_holder() {
    needs(&[Twin::AcknowledgesNothingWithoutFence], async |scene: Scene| {
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let c = scene.live(2).await;
        let mut first = scene.hold(&a).await;
        assert!(scene.write(&mut first, scene.token()).await);
        let (paid, other) = (scene.token(), scene.token());
        // It lands after the second one has listed, and before the third does.
        scene.next(0, PUT_SEGMENT, late(25));
        first.commit(paid).expect("it commits");
        let _ = tokio::time::timeout(Duration::from_secs(1), first.durable()).await;
        scene.crash(0);
        let mut second = scene.hold(&b).await;
        assert!(!second.has(paid));
        scene.next(1, PUT_SEGMENT, late(90));
        second.commit(other).expect("it commits");
        let _ = tokio::time::timeout(Duration::from_secs(1), second.durable()).await;
        scene.crash(1);
        scene.wait(15.0).await;
        let mut third = scene.hold(&c).await;
        assert!(third.has(paid), "it landed");
        assert!(scene.write(&mut third, paid).await);
        third.give_up();
        scene.wait(90.0).await;
    });
}

/// F1 of the review: what rests on a head that was only read is taken away below an earlier upload.
#[test]
fn nothing_is_collected_below_a_head_that_was_only_read() {
    needs(&[Twin::CollectsAtRestoredHead], async |scene: Scene| {
        scene.history(20);
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let c = scene.live(2).await;
        let mut first = scene.hold(&a).await;
        scene.next(0, PUT_SEGMENT, late(25));
        first.commit(scene.token()).expect("it commits");
        let _ = tokio::time::timeout(Duration::from_secs(1), first.durable()).await;
        scene.crash(0);
        let mut second = scene.hold(&b).await;
        scene.next(1, PUT_SEGMENT, late(90));
        second.commit(scene.token()).expect("it commits");
        let _ = tokio::time::timeout(Duration::from_secs(1), second.durable()).await;
        scene.crash(1);
        scene.wait(15.0).await;
        scene.hold(&c).await.leave().await;
        scene.wait(90.0).await;
    });
}

/// F3 of the review.
#[test]
fn a_release_that_lands_late_frees_nothing_that_is_held_again() {
    needs(&[Twin::ResumesAfterUnknownRelease], async |scene: Scene| {
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        scene.next(0, PUT_RECORD, late(14));
        for _ in 0..20 {
            // Whatever it tries until its time is over is lost.
            scene.next(0, PUT_RECORD, Fate::lost());
        }
        visit.leave().await;
        scene.forget(0);
        let mut again = scene.hold(&a).await;
        assert!(scene.write(&mut again, scene.token()).await);
        scene.wait(6.0).await;
        let taken = scene.try_hold(&b).await;
        assert!(scene.write(&mut again, scene.token()).await);
        assert!(taken.is_none());
    });
}

/// F4 of the review.
#[test]
fn a_session_that_the_last_poll_did_not_show_is_not_taken_for_ended() {
    needs(&[Twin::VoidByCachedSession], async |scene: Scene| {
        let (_, b) = (scene.live(0).await, scene.live(1).await);
        scene.wait(7.0).await;
        scene.crash(0);
        let a = scene.live(0).await;
        let mut visit = scene.hold(&a).await;
        assert!(scene.try_hold(&b).await.is_none());
        assert!(scene.write(&mut visit, scene.token()).await);
    });
}

/// F9 of the review: the same directory on another machine.
#[test]
fn a_second_process_of_one_name_waits_until_the_first_ones_lease_has_expired() {
    needs(&[Twin::StartsBesideItself], async |scene: Scene| {
        let a = scene.live(0).await;
        let mut visit = scene.hold(&a).await;
        let double = scene.start(3);
        for _ in 0..30 {
            scene.wait(1.0).await;
            assert!(scene.write(&mut visit, scene.token()).await);
            if double.is_live() {
                scene.hold(&double).await;
            }
        }
        scene.crash(0);
        let crashed = scene.now();
        let taken = scene.hold(&double).await;
        assert!(scene.now() - crashed >= 12.0);
        taken.give_up();
    });
}

#[test]
fn after_a_crash_the_same_node_is_back_at_once_and_above_its_own_hold() {
    keeps(async |scene: Scene| {
        let a = scene.live(0).await;
        let mut visit = scene.hold(&a).await;
        let token = scene.token();
        assert!(scene.write(&mut visit, token).await);
        let before = visit.held().generation();
        for what in [Crashed::Process, Crashed::Machine, Crashed::Disk] {
            scene.crash(0);
            scene.damage(0, what);
            let crashed = scene.now();
            let a = scene.live(0).await;
            let is_fast = scene.now() - crashed < 2.0;
            assert_eq!(is_fast, what == Crashed::Process, "{what:?}");
            let visit = scene.hold(&a).await;
            assert!(visit.has(token) && visit.held().generation() > before);
            visit.leave().await;
        }
    });
}

#[test]
fn a_beat_that_lands_late_changes_nothing() {
    keeps(async |scene: Scene| {
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let mut visit = scene.hold(&a).await;
        for _ in 0..4 {
            scene.next(0, PUT_N0, late(5));
        }
        for _ in 0..20 {
            scene.wait(1.0).await;
            if scene.try_hold(&b).await.is_some() {
                break;
            }
            let _ = scene.write(&mut visit, scene.token()).await;
        }
    });
}

#[test]
fn a_node_that_wakes_while_it_is_fenced_is_fenced_or_stays() {
    for pause in [14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 22.0] {
        keeps(async |scene: Scene| {
            let (a, b) = (scene.live(0).await, scene.live(1).await);
            let mut visit = scene.hold(&a).await;
            assert!(scene.write(&mut visit, scene.token()).await);
            scene.pause(0, pause, false);
            let takes = async {
                for _ in 0..60 {
                    scene.wait(0.5).await;
                    if let Some(mut taken) = scene.try_hold(&b).await {
                        return scene.write(&mut taken, scene.token()).await;
                    }
                }
                false
            };
            let writes = async {
                for _ in 0..60 {
                    scene.wait(0.5).await;
                    let _ = scene.write(&mut visit, scene.token()).await;
                }
            };
            tokio::join!(takes, writes)
        });
    }
}

#[test]
fn what_a_stopped_clock_still_holds_is_not_acknowledged() {
    keeps(async |scene: Scene| {
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        scene.pause(0, 40.0, true);
        let mut taken = scene.hold(&b).await;
        assert!(scene.write(&mut taken, scene.token()).await);
        scene.wait(40.0).await;
        let stale = scene.token();
        assert!(!scene.write(&mut visit, stale).await, "the bucket's clock went on");
        visit.give_up();
        assert!(scene.write(&mut taken, scene.token()).await);
    });
}

/// Found in a random run: its own name was all that it asked for.
#[test]
fn a_stopped_clock_takes_nothing_from_a_later_process_of_the_same_name() {
    keeps(async |scene: Scene| {
        let a = scene.live(0).await;
        scene.pause(0, 60.0, true);
        let double = scene.live(3).await;
        let mut visit = scene.hold(&double).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        // It asks for the actor right after it wakes.
        let wakes = async {
            assert!(scene.try_hold(&a).await.is_none());
        };
        let b = async {
            let b = scene.live(1).await;
            for _ in 0..90 {
                scene.wait(1.0).await;
                assert!(scene.try_hold(&b).await.is_none());
                assert!(scene.write(&mut visit, scene.token()).await);
            }
        };
        tokio::join!(wakes, b)
    });
}

#[test]
fn of_two_takers_one_takes() {
    keeps(async |scene: Scene| {
        let a = scene.live(0).await;
        let (b, c) = (scene.live(1).await, scene.live(2).await);
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        scene.crash(0);
        let takes = async |node| {
            for _ in 0..200 {
                scene.wait(0.2).await;
                if let Some(mut taken) = scene.try_hold(node).await {
                    assert!(scene.write(&mut taken, scene.token()).await);
                    scene.wait(5.0).await;
                    taken.leave().await;
                }
            }
        };
        tokio::join!(takes(&b), takes(&c))
    });
}

#[test]
fn a_taker_that_dies_before_its_first_segment_leaves_the_actor_to_the_next() {
    keeps(async |scene: Scene| {
        let a = scene.live(0).await;
        let (b, c) = (scene.live(1).await, scene.live(2).await);
        let token = scene.token();
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, token).await);
        scene.crash(0);
        scene.hold(&b).await;
        scene.crash(1);
        let mut last = scene.hold(&c).await;
        assert!(last.has(token) && scene.write(&mut last, scene.token()).await);
    });
}

#[test]
fn deletes_of_a_collection_that_land_late_remove_nothing_needed() {
    keeps(async |scene: Scene| {
        scene.history(20);
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        scene.next(0, (Operation::Delete, SEGMENT), late(28));
        visit.leave().await;
        assert_eq!(scene.counts().snapshots, 1);
        scene.crash(0);
        let mut next = scene.hold(&b).await;
        for _ in 0..10 {
            scene.wait(4.0).await;
            assert!(scene.write(&mut next, scene.token()).await);
        }
    });
}

#[test]
fn the_own_release_is_the_head_only_if_nobody_held_in_between() {
    keeps(async |scene: Scene| {
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        visit.leave().await;
        let mut woken = scene.hold(&a).await;
        assert!(scene.write(&mut woken, scene.token()).await);
        woken.leave().await;
        let mut other = scene.hold(&b).await;
        let token = scene.token();
        assert!(scene.write(&mut other, token).await);
        other.leave().await;
        let back = scene.hold(&a).await;
        assert!(back.has(token));
        back.leave().await;
    });
}

#[test]
fn a_hold_that_is_given_up_and_had_again_leaves_its_late_segment_behind() {
    needs(&[Twin::FastPathAfterUnknown], async |scene: Scene| {
        let a = scene.live(0).await;
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        let lost = scene.token();
        for _ in 0..100 {
            scene.next(0, PUT_SEGMENT, late(40));
        }
        visit.commit(lost).expect("it commits");
        visit.leave().await;
        scene.forget(0);
        let mut again = scene.hold(&a).await;
        assert!(scene.write(&mut again, scene.token()).await);
        scene.wait(60.0).await;
        assert!(scene.write(&mut again, scene.token()).await);
    });
}

#[test]
fn no_lost_answer_loses_a_write_or_an_actor() {
    for (operation, part) in [
        PUT_N0,
        PUT_RECORD,
        PUT_SEGMENT,
        (Operation::Put, SNAPSHOT),
        (Operation::Delete, SEGMENT),
        (Operation::Get, RECORD),
        (Operation::List, "history"),
    ] {
        for fate in [Fate::unanswered(), Fate::lost(), late(9)] {
            keeps(async |scene: Scene| {
                scene.history(20);
                let (a, b) = (scene.live(0).await, scene.live(1).await);
                scene.next(0, (operation, part), fate.clone());
                let mut visit = scene.hold(&a).await;
                while !scene.write(&mut visit, scene.token()).await {
                    visit.give_up();
                    visit = scene.hold(&a).await;
                }
                scene.next(0, (operation, part), fate.clone());
                visit.leave().await;
                // Of a release that is not known to have landed the record may still name the node.
                scene.disown(&a).await;
                let mut next = scene.hold(&b).await;
                assert!(scene.write(&mut next, scene.token()).await);
            });
        }
    }
}

#[test]
fn an_observer_that_starts_midway_watches_for_the_whole_time() {
    keeps(async |scene: Scene| {
        let a = scene.live(0).await;
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        scene.crash(0);
        scene.wait(12.0).await;
        let b = scene.live(1).await;
        let began = scene.now();
        scene.hold(&b).await;
        assert!(scene.now() - began >= 12.0, "it has watched for {} s", scene.now() - began);
    });
}

#[test]
fn an_acquisition_that_lands_after_its_node_gave_up_is_nobodys_hold() {
    keeps(async |scene: Scene| {
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        scene.next(0, PUT_RECORD, late(15));
        for _ in 0..20 {
            scene.next(0, PUT_RECORD, Fate::lost());
        }
        assert!(scene.try_hold(&a).await.is_none());
        scene.forget(0);
        scene.wait(10.0).await;
        assert!(scene.try_hold(&b).await.is_none(), "the record names a node that lives");
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        visit.leave().await;
        let mut visit = scene.hold(&b).await;
        assert!(scene.write(&mut visit, scene.token()).await);
    });
}

#[test]
fn a_reset_that_lands_late_is_carried_out_or_not_and_never_half() {
    for seconds in [3, 9, 25] {
        keeps(async |scene: Scene| {
            scene.history(5);
            let (a, b) = (scene.live(0).await, scene.live(1).await);
            let mut visit = scene.hold(&a).await;
            assert!(scene.write(&mut visit, scene.token()).await);
            scene.next(0, PUT_SEGMENT, late(seconds));
            let reset = visit.reset().await;
            scene.crash(0);
            let mut next = scene.hold(&b).await;
            assert!(reset != Next::Goes || !next.has(1), "what was deleted is back");
            assert!(scene.write(&mut next, scene.token()).await);
            scene.wait(40.0).await;
        });
    }
}

#[test]
fn a_parked_hold_wakes_only_within_its_session() {
    keeps(async |scene: Scene| {
        let (a, b) = (scene.live(0).await, scene.live(1).await);
        let mut visit = scene.hold(&a).await;
        assert!(scene.write(&mut visit, scene.token()).await);
        let generation = visit.held().generation();
        visit.park().await;
        scene.wait(5.0).await;
        let woken = scene.hold(&a).await;
        assert_eq!(woken.held().generation(), generation);
        woken.park().await;
        scene.strike(0, Fault::Pause { time: Duration::from_secs(40), clock_stands: false });
        let mut taken = scene.hold(&b).await;
        let token = scene.token();
        assert!(scene.write(&mut taken, token).await);
        taken.leave().await;
        scene.wait(40.0).await;
        let back = scene.hold(&scene.live_again(0).await).await;
        assert!(back.has(token) && back.held().generation() > generation);
    });
}
