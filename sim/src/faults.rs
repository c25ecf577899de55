//! What goes wrong with machines, as data: drawn before the run begins, or written down by a test.

use std::time::Duration;

use crate::dice::Dice;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Nothing of the node moves for so long. Then its connections are gone for a while.
    Pause { time: Duration, clock_stands: bool, cut: Duration },
    /// The node is gone, and is started again after so long.
    Crash { down: Duration, what: Crashed },
    /// It is told to stop, gives everything back, and is started again after so long.
    Restart { down: Duration },
    /// Nearly nothing about its own lease gets through.
    CutLease { time: Duration },
    /// Nearly nothing gets through.
    Cut { time: Duration },
    /// Most of its writes take long.
    Slow { time: Duration },
    /// An operator ends the machine's node by a command that another one runs; without force.
    Fence { by: usize },
    /// A second process under the first machine's name, with a disk of its own.
    Double,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crashed {
    Process,
    /// What was not synced is torn, and the session's file is of another boot.
    Machine,
    /// The disk is another one.
    Disk,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planned {
    /// Since the run began.
    pub at: Duration,
    pub machine: usize,
    pub fault: Fault,
}

/// Faults of so many machines, in the order of their time.
pub fn plan(dice: &Dice, machines: usize, until: f64) -> Vec<Planned> {
    let mut plan = Vec::new();
    // A clock that stands still lets two nodes think that they hold. So that runs without one can be
    // held to more, only some have it.
    let has_standing = dice.chance(0.2);
    for machine in 0..machines {
        let mut at = dice.between(3.0, 25.0);
        while at < until {
            let fault = draw(dice, machine, machines, has_standing);
            plan.push(Planned { at: Duration::from_secs_f64(at), machine, fault });
            at += dice.between(4.0, 30.0);
        }
    }
    if dice.chance(0.15) {
        let at = Duration::from_secs_f64(dice.between(5.0, until));
        plan.push(Planned { at, machine: machines, fault: Fault::Double });
    }
    plan.sort_by_key(|planned| planned.at);
    plan
}

fn draw(dice: &Dice, machine: usize, machines: usize, has_standing: bool) -> Fault {
    match dice.unit() {
        x if x < 0.30 => {
            let longest = if dice.chance(0.2) { 60.0 } else { 40.0 };
            let clock_stands = has_standing && dice.chance(0.5);
            let cut = if dice.chance(0.3) { dice.seconds(2.0, 12.0) } else { Duration::ZERO };
            Fault::Pause { time: dice.seconds(1.0, longest), clock_stands, cut }
        }
        x if x < 0.45 => {
            let what = match dice.unit() {
                x if x < 0.6 => Crashed::Process,
                x if x < 0.9 => Crashed::Machine,
                _ => Crashed::Disk,
            };
            Fault::Crash { down: dice.seconds(0.1, 20.0), what }
        }
        x if x < 0.50 => Fault::Restart { down: dice.seconds(0.1, 5.0) },
        x if x < 0.68 => Fault::CutLease { time: dice.seconds(5.0, 30.0) },
        x if x < 0.75 => Fault::Cut { time: dice.seconds(5.0, 30.0) },
        x if x < 0.95 => Fault::Slow { time: dice.seconds(3.0, 25.0) },
        _ => {
            let by = (machine + 1 + (dice.unit() * (machines - 1) as f64) as usize) % machines;
            Fault::Fence { by }
        }
    }
}
