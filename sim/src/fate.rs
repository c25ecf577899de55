//! What becomes of one request to the bucket: drawn, or scripted by a test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::dice::Dice;

/// The longest a write is under way: what a client waits for it.
const LATEST: f64 = 30.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Get,
    Put,
    List,
    Delete,
}

impl Operation {
    fn writes(self) -> bool {
        matches!(self, Self::Put | Self::Delete)
    }
}

/// Who asks for what.
#[derive(Debug, Clone)]
pub struct Asked {
    pub machine: usize,
    pub operation: Operation,
    /// Or the prefix of a listing.
    pub key: String,
    /// It is the asking node's own lease.
    pub is_own_lease: bool,
}

impl Asked {
    fn is_of_a_lease(&self) -> bool {
        self.key.starts_with("nodes/")
    }

    fn is_a_segment(&self) -> bool {
        self.key.ends_with(".seg")
    }
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// When it reaches the bucket; none when it is lost.
    pub reaches: Option<Duration>,
    /// How long after that the answer is there; none when that is lost.
    pub answered: Option<Duration>,
    /// The bucket says that it failed.
    pub status: Option<u16>,
    /// It is carried out, whatever the bucket says.
    pub is_carried_out: bool,
    /// A page of a listing ends after so many keys.
    pub keys_max: u16,
}

impl Fate {
    pub fn good() -> Self {
        Self::after(Duration::from_millis(20))
    }

    /// It takes so long to the bucket.
    pub fn after(time: Duration) -> Self {
        Self {
            reaches: Some(time),
            answered: Some(Duration::from_millis(20)),
            status: None,
            is_carried_out: true,
            keys_max: u16::MAX,
        }
    }

    /// It lands so much later, and nobody hears of it.
    pub fn late(time: Duration) -> Self {
        Self { answered: None, ..Self::after(time) }
    }

    pub fn lost() -> Self {
        Self { reaches: None, ..Self::good() }
    }

    pub fn unanswered() -> Self {
        Self { answered: None, ..Self::good() }
    }
}

/// How a machine's way to the bucket is, until when.
#[derive(Debug, Clone, Copy, Default)]
pub struct Way {
    /// Nearly nothing about its own lease comes through.
    pub lease_cut: Option<Instant>,
    /// Nearly nothing comes through.
    pub cut: Option<Instant>,
    /// Most writes take long.
    pub slow: Option<Instant>,
}

/// What the whole run is like.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mood {
    /// Many segments land long after whoever sent them has given up. Without this, what a late segment
    /// does to a later holder is seen about never.
    pub late_segments: bool,
    /// Answers about leases are often slow.
    pub slow_polls: bool,
    /// Every way to the bucket is long.
    pub far: bool,
    /// States of a while ago can be restored.
    pub retains: bool,
    /// Some holds have many events.
    pub bursts: bool,
    /// No faults at all but those of a script.
    pub calm: bool,
}

struct Scripted {
    machine: usize,
    operation: Operation,
    part: String,
    fate: Fate,
}

struct State {
    ways: Vec<Way>,
    script: VecDeque<Scripted>,
    is_calm: bool,
}

/// Clones are the same.
#[derive(Clone)]
pub struct Fates {
    mood: Mood,
    dice: Arc<Dice>,
    state: Arc<Mutex<State>>,
}

impl Fates {
    pub fn new(dice: Dice, mood: Mood, machines: usize) -> Self {
        let ways = vec![Way::default(); machines];
        let state = State { ways, script: VecDeque::new(), is_calm: mood.calm };
        Self { mood, dice: Arc::new(dice), state: Arc::new(Mutex::new(state)) }
    }

    /// The machine's next request of this kind whose key has `part` in it fares like this.
    pub fn script(&self, machine: usize, operation: Operation, part: &str, fate: Fate) {
        let scripted = Scripted { machine, operation, part: part.to_owned(), fate };
        self.state().script.push_back(scripted);
    }

    /// Nothing is scripted for the machine any more.
    pub fn forget(&self, machine: usize) {
        self.state().script.retain(|scripted| scripted.machine != machine);
    }

    pub fn change(&self, machine: usize, change: impl FnOnce(&mut Way)) {
        change(&mut self.state().ways[machine]);
    }

    /// Nothing goes wrong from here on.
    pub fn heal(&self) {
        self.state().is_calm = true;
    }

    pub fn draw(&self, asked: &Asked) -> Fate {
        let mut state = self.state();
        let is_meant = |of: &Scripted| {
            of.machine == asked.machine
                && of.operation == asked.operation
                && asked.key.contains(&of.part)
        };
        if let Some(at) = state.script.iter().position(is_meant) {
            return state.script.remove(at).map_or_else(Fate::good, |scripted| scripted.fate);
        }
        if state.is_calm { Fate::good() } else { self.drawn(asked, state.ways[asked.machine]) }
    }

    fn drawn(&self, asked: &Asked, way: Way) -> Fate {
        let dice = &self.dice;
        let writes = asked.operation.writes();
        let lasts = |until: Option<Instant>| until.is_some_and(|until| until > Instant::now());
        let is_cut = (asked.is_own_lease && lasts(way.lease_cut)) || lasts(way.cut);
        let is_slow = writes && !asked.is_of_a_lease() && lasts(way.slow);
        let is_late_one = self.mood.late_segments && asked.is_a_segment();
        let mean = if self.mood.far { 0.4 } else { 0.05 };
        let mut fate = Fate::after(dice.delay(mean));
        let (bad, back) = (dice.unit(), dice.unit());
        let often = if is_slow {
            0.7
        } else if is_late_one {
            0.4
        } else {
            0.05
        };
        if writes && bad < often {
            fate.reaches = Some(dice.seconds(0.0, LATEST));
        }
        if bad > 0.98 || (is_cut && dice.chance(0.9)) {
            fate.reaches = None;
        }
        fate.answered = match back {
            lost if lost < 0.04 => None,
            slow if slow > 0.97 => Some(dice.seconds(0.0, 6.0)),
            _ if self.mood.slow_polls && asked.is_of_a_lease() && dice.chance(0.3) => {
                Some(dice.seconds(0.0, 2.4))
            }
            _ => Some(dice.delay(mean)),
        };
        if dice.chance(0.02) {
            fate.status = Some(*dice.one_of(&[409, 429, 500, 503]));
            fate.is_carried_out = dice.chance(0.5);
        }
        if asked.operation == Operation::List && dice.chance(0.1) {
            fate.keys_max = dice.between(1.0, 6.0) as u16;
        }
        fate
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
