use std::time::Duration;

use super::super::{Since, oldest_needed};
use super::*;

fn base(generation: u64, seq: u64) -> Base {
    Base { at: at(generation, seq), hash: ObjectHash([seq as u8; 32]) }
}

/// A hold of generation 5 that restored 3.4, and sent so many segments that landed.
fn progress(own: u8) -> Progress {
    let mut progress = Progress::new(generation(5), Some(base(3, 4)), Some(at(2, 1)));
    for seq in 0..own {
        progress.sent(ObjectHash([seq; 32]), false);
        progress.landed();
    }
    progress
}

#[test]
fn segments_go_out_one_at_a_time_each_on_the_one_before() {
    let mut progress = progress(0);
    assert_eq!(progress.next(), Some((at(5, 1), Some(base(3, 4)))));
    progress.sent(ObjectHash([9; 32]), false);
    assert_eq!((progress.next(), progress.head()), (None, Some(base(3, 4))));
    assert_eq!(progress.landed(), Some(at(5, 1)));
    let first = Base { at: at(5, 1), hash: ObjectHash([9; 32]) };
    assert_eq!(progress.next(), Some((at(5, 2), Some(first))));
    assert_eq!(progress.landed(), None);
}

#[test]
fn what_was_only_restored_is_durable_after_a_fence() {
    let mut progress = progress(0);
    assert_eq!(progress.durable(true), Durable::Fence);
    assert_eq!(progress.durable(false), Durable::Wait);
    progress.sent(ObjectHash([9; 32]), false);
    assert_eq!(progress.durable(true), Durable::Wait);
    progress.landed();
    assert_eq!(progress.durable(true), Durable::Already);
    assert_eq!(progress.durable(false), Durable::Wait);
}

#[test]
fn stand_ins_rest_on_what_this_hold_has_acknowledged() {
    let none = progress(0);
    assert_eq!(may_anchor(&none, at(3, 4)), Permission::FenceFirst);
    assert_eq!(may_anchor(&none, at(5, 1)), Permission::NotOnChain);
    let two = progress(2);
    assert_eq!(may_anchor(&two, at(3, 4)), Permission::Granted);
    assert_eq!(may_anchor(&two, at(5, 2)), Permission::Granted);
    for other in [at(5, 3), at(3, 3), at(3, 5), at(4, 1), at(6, 1)] {
        assert_eq!(may_anchor(&two, other), Permission::NotOnChain);
    }
}

#[test]
fn a_collection_takes_what_is_older_than_the_snapshot_and_leaves_the_reset() {
    let mut listing = Listing::default();
    let prefix = prefix();
    let kept = [
        ObjectKey::Segment(at(5, 3)),
        ObjectKey::Merged { at: at(5, 2), from: 1 },
        ObjectKey::Segment(at(5, 2)),
        ObjectKey::Snapshot(at(5, 2)),
        ObjectKey::Segment(at(2, 1)),
        ObjectKey::Snapshot(at(2, 1)),
    ];
    let gone = [
        ObjectKey::Segment(at(5, 1)),
        ObjectKey::Snapshot(at(5, 1)),
        ObjectKey::Segment(at(4, 9)),
        ObjectKey::Segment(at(3, 4)),
        ObjectKey::Merged { at: at(2, 8), from: 2 },
        ObjectKey::Segment(at(1, 1)),
    ];
    kept.iter().chain(&gone).for_each(|key| listing.add(&prefix, &prefix.key(*key)));
    let two = progress(2);
    let collection = Collection {
        progress: &two,
        snapshot: at(5, 2),
        hold_is_valid: true,
        record: generation(5),
    };
    assert_eq!(collect(&listing, collection), Ok(gone.to_vec()));
    let refused = |collection| collect(&listing, collection).expect_err("it is refused");
    assert_eq!(refused(Collection { hold_is_valid: false, ..collection }), Refused::HoldEnded);
    let later = generation(6);
    assert_eq!(refused(Collection { record: later, ..collection }), Refused::HeldBy(later));
    assert_eq!(refused(Collection { snapshot: at(3, 4), ..collection }), Refused::NoSnapshot);
    assert_eq!(refused(Collection { snapshot: at(5, 3), ..collection }), Refused::NotOnChain);
    let none = progress(0);
    let restored = Collection { progress: &none, snapshot: at(3, 4), ..collection };
    assert_eq!(refused(restored), Refused::FenceFirst);
}

#[test]
fn the_window_keeps_the_snapshot_its_beginning_rests_on() {
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let snapshots = [(at(5, 9), hours(1)), (at(5, 1), hours(30)), (at(4, 2), hours(50))];
    assert_eq!(oldest_needed(snapshots, Duration::ZERO), Some(at(5, 9)));
    assert_eq!(oldest_needed(snapshots, hours(24)), Some(at(5, 1)));
    assert_eq!(oldest_needed(snapshots, hours(72)), None);
}

#[test]
fn snapshots_and_merged_objects_come_due() {
    const MIB: u64 = 1024 * 1024;
    let mut since = Since::default();
    for _ in 0..15 {
        since.segment(MIB / 16);
    }
    assert!(!since.snapshot_is_due(0) && !since.snapshot_is_due_at_hibernation(4096));
    since.segment(MIB / 16);
    assert!(since.snapshot_is_due(2 * MIB) && !since.snapshot_is_due(3 * MIB));
    assert!(since.snapshot_is_due_at_hibernation(4096));
    assert!(!since.snapshot_is_due_at_hibernation(4 * MIB) && !since.merge_is_due());
    for _ in 0..48 {
        since.segment(1);
    }
    assert!(since.merge_is_due());
    since.merged();
    assert!(!since.merge_is_due() && since.segments == 64);
    since.snapshot();
    assert_eq!(since, Since::default());
}
