//! Each rule, left out, is caught: a checker that nobody has seen fail is no checker.

use wasmkeep_sim::sweep::{Until, sweep};
use wasmkeep_supervisors::twin::Twin;

enum Expected {
    /// Some of so many seeds, from 0 on, breaks a promise.
    Caught { within: u64 },
    /// Another rule keeps the promises without it: so many seeds, and none breaks one.
    Covered { in_all: u64 },
}

/// Where one seed in so many catches a twin, about ten times as many, so that another order of draws finds
/// one too.
fn expected(twin: Twin) -> Expected {
    let within = match twin {
        Twin::AcknowledgesPastHorizon => 800,
        Twin::HorizonFromAnswer => 4_000,
        Twin::KeepsSessionOverLapse => 100,
        Twin::VerdictFromReceiptWithoutFence => 2_000,
        Twin::VoidByCachedSession => 200,
        Twin::StartsBesideItself => 300,
        Twin::ListsBeforeAcquire => 800,
        Twin::GenerationNotAboveHistory => 100,
        Twin::FastPathAfterUnknown => 1_500,
        Twin::ResumesAfterUnknownRelease => 200,
        Twin::CollectsAtRestoredHead => 6_000,
        Twin::AcknowledgesNothingWithoutFence => 2_500,
        Twin::RetriesBlindly => 200,
        Twin::TrustsFileAfterCrash => 1_500,
        Twin::SendsPastHorizon => 100,
        Twin::AcknowledgesUncaptured => 100,
        // The generation and the session already make each ownership record unlike all before it.
        Twin::RecordsWithoutNonce => return Expected::Covered { in_all: 300 },
        // What is below an acknowledged snapshot is on no later chain, whoever holds.
        Twin::CollectsWithoutRecord => return Expected::Covered { in_all: 300 },
    };
    Expected::Caught { within }
}

#[test]
fn each_rule_left_out_is_caught() {
    let mut wrong = Vec::new();
    for twin in Twin::ALL {
        match expected(*twin) {
            Expected::Caught { within } => {
                let sweep = sweep(0..within, Some(*twin), Until::OneBreaks);
                match sweep.broken.first() {
                    Some((seed, why)) => println!("{twin:?}: seed {seed}: {why}"),
                    None => wrong.push(format!("{twin:?} is not caught within {within} seeds")),
                }
            }
            Expected::Covered { in_all } => {
                let sweep = sweep(0..in_all, Some(*twin), Until::OneBreaks);
                for (seed, why) in sweep.broken {
                    wrong.push(format!("{twin:?} is no more covered: seed {seed}: {why}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
