//! Each rule, left out, is caught: a checker that nobody has seen fail is no checker.

use wasmkeep_sim::sweep::{Until, sweep};
use wasmkeep_supervisors::twin::Twin;

enum Expected {
    /// Some of so many seeds, from 0 on, breaks a promise.
    Caught { within: u64 },
    /// Another rule keeps the promises without it: so many seeds, and none breaks one.
    Covered { in_all: u64 },
}

/// About three times the first seed at which it was caught, and no fewer than a hundred.
fn expected(twin: Twin) -> Expected {
    let within = match twin {
        Twin::AcknowledgesPastHorizon => 400,
        Twin::HorizonFromAnswer => 1_500,
        Twin::KeepsSessionOverLapse => 100,
        Twin::VerdictFromReceiptWithoutFence => 1_500,
        Twin::VoidByCachedSession => 200,
        Twin::StartsBesideItself => 200,
        Twin::ListsBeforeAcquire => 500,
        Twin::GenerationNotAboveHistory => 100,
        Twin::FastPathAfterUnknown => 600,
        Twin::ResumesAfterUnknownRelease => 600,
        Twin::CollectsAtRestoredHead => 2_500,
        Twin::AcknowledgesNothingWithoutFence => 700,
        Twin::RetriesBlindly => 100,
        Twin::TrustsFileAfterCrash => 300,
        Twin::SendsPastHorizon => 100,
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
