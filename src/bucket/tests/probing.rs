use wasmkeep_supervisors::ports::{Doubt, Random};
use wasmkeep_supervisors::testing::SeededRandom;
use wasmkeep_testbucket::{Dialect, Fault, Operation, TestBucket, What};

use super::*;

async fn probe_of(settings: &BucketSettings) -> Result<Probed, ProbeError> {
    probe(&connect(settings), &SystemRandom).await
}

#[tokio::test]
async fn each_broken_dialect_is_refused_by_name_and_nothing_is_left_in_it() {
    for (dialect, violation) in [
        (Dialect::IgnoresAbsent, Violation::IgnoresAbsent),
        (Dialect::IgnoresMatch, Violation::IgnoresMatch),
        (Dialect::WritesWhenMissing, Violation::WritesWhenMissing),
        (Dialect::WeakEtags, Violation::NoVersions),
        (Dialect::NoConditions, Violation::NoConditions),
        (Dialect::NeverMatches, Violation::NeverMatches),
    ] {
        let store = TestBucket::start(dialect);
        let refused = probe_of(&settings(&store)).await;
        assert_eq!(refused, Err(ProbeError::Violated(violation)), "{dialect}");
        assert!(store.keys().is_empty(), "{dialect}: {:?}", store.keys());
    }
}

#[tokio::test]
async fn every_dialect_is_either_honest_or_refused() {
    for dialect in Dialect::ALL {
        let store = TestBucket::start(dialect);
        let is_fit = probe_of(&settings(&store)).await.is_ok();
        assert_eq!(is_fit, Dialect::HONEST.contains(&dialect), "{dialect}");
    }
}

#[tokio::test]
async fn an_answer_that_decides_nothing_is_no_violation() {
    for what in [What::Status(500), What::StatusAfterAll(503), What::LostAnswer, What::Status(409)]
    {
        for operation in [Operation::Put, Operation::Get, Operation::List, Operation::Delete] {
            let store = TestBucket::start(Dialect::Aws);
            store.fails(&Fault::once(operation, what.clone()));
            let probed = probe_of(&settings(&store)).await;
            assert!(probed.is_ok(), "{operation:?} {what:?}: {probed:?}");
            assert!(store.keys().is_empty(), "{operation:?} {what:?}: {:?}", store.keys());
        }
    }
}

#[tokio::test]
async fn a_store_that_never_decides_is_left_undecided() {
    let store = TestBucket::start(Dialect::Aws);
    store.fails(&Fault::always(Operation::Put, What::Status(503)));
    let undecided = probe_of(&settings(&store)).await;
    let doubt = Doubt::Answered { status: 503, code: "SlowDown".into() };
    assert_eq!(undecided, Err(ProbeError::Inconclusive { doing: "create an object", doubt }));
}

#[tokio::test]
async fn a_listing_that_hides_what_was_written_is_refused() {
    let store = TestBucket::start(Dialect::Aws);
    let empty =
        "<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated></ListBucketResult>";
    store.fails(&Fault::always(Operation::List, What::Body(empty.into())));
    let refused = probe_of(&settings(&store)).await;
    assert_eq!(refused, Err(ProbeError::Violated(Violation::StaleListing)));
}

#[tokio::test]
async fn a_store_that_denies_a_step_is_told_with_it() {
    for (operation, step) in [
        (Operation::Put, "create an object"),
        (Operation::Get, "read what won a race"),
        (Operation::List, "list objects"),
        (Operation::Delete, "delete an object"),
    ] {
        let store = TestBucket::start(Dialect::Aws);
        store.fails(&Fault::always(operation, What::Status(403)));
        let Err(ProbeError::Denied { doing, denial }) = probe_of(&settings(&store)).await else {
            panic!("{operation:?} was not denied");
        };
        assert_eq!((doing, denial.status, denial.code.as_str()), (step, 403, "AccessDenied"));
    }
}

#[test]
fn probes_do_not_meet() {
    let mut drawn = [[0; 16]; 2];
    for bytes in &mut drawn {
        SystemRandom.fill(bytes);
    }
    assert_ne!(drawn[0], drawn[1]);
    assert_ne!(SeededRandom::new(1).next(), SeededRandom::new(2).next());
}
