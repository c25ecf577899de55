//! The oracle: it sees every landing, acknowledgement and hold of all nodes at their real moments, and
//! says which promise was broken first.
//!
//! 1. Every acknowledged durable write is in every later state of the bucket, unless a reset follows it.
//! 2. Nothing that an acknowledged reset removed comes back.
//! 3. At any real instant at most one node can acknowledge for an actor.
//! 4. Generations only rise, and each is of one session.
//! 5. What the bucket holds can always be restored, by someone who lists at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use wasmkeep_supervisors::address::{Address, App};
use wasmkeep_supervisors::history::{Base, Generation, HistoryPrefix, Position};
use wasmkeep_supervisors::lease::{LEASES, Session};

use crate::image::{Image, Token};
use crate::leases::Leases;
use crate::past::Past;
use crate::records::Records;
use crate::trace::Trace;

/// How much happened, so that a run in which nothing does is not taken for a good one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub acknowledged: u64,
    pub unchanged: u64,
    pub resets: u64,
    pub holds: u64,
    pub taken: u64,
    /// Parked holds that woke.
    pub woken: u64,
    /// Holds without a listing, after the node's own release.
    pub unlisted: u64,
    pub snapshots: u64,
    pub merged: u64,
    pub removed: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.unchanged += other.unchanged;
        self.resets += other.resets;
        self.holds += other.holds;
        self.taken += other.taken;
        self.woken += other.woken;
        self.unlisted += other.unlisted;
        self.snapshots += other.snapshots;
        self.merged += other.merged;
        self.removed += other.removed;
    }
}

/// A node's hold on an actor, as the oracle sees it.
#[derive(Clone)]
pub struct Watched {
    pub machine: usize,
    /// Which of the machine's nodes, one after the other.
    pub node: u64,
    pub actor: usize,
    pub generation: Generation,
    /// Its machine's clock stood still at some time: two may then think that they hold, and only what
    /// they acknowledge counts.
    pub has_stood: Arc<dyn Fn() -> bool + Send + Sync>,
    /// It could acknowledge at this moment.
    pub is_capable: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Watched {
    fn is_the_same(&self, other: &Self) -> bool {
        let of = |hold: &Self| (hold.machine, hold.node, hold.actor, hold.generation);
        of(self) == of(other)
    }
}

struct Actor {
    prefix: HistoryPrefix,
    past: Past,
    records: Records,
    acknowledged: BTreeMap<Token, Position>,
    removed: BTreeSet<Token>,
    issued: BTreeMap<Token, u64>,
    acknowledgements: u64,
}

#[derive(Default)]
struct State {
    actors: Vec<Actor>,
    leases: Leases,
    holds: BTreeMap<u64, Watched>,
    numbers: u64,
    counts: Counts,
    broken: Option<String>,
}

pub struct Checker {
    state: Mutex<State>,
    trace: Arc<Trace>,
    stop: Notify,
}

impl Checker {
    pub fn new(actors: &[Address], app: &App, trace: Arc<Trace>) -> Arc<Self> {
        let actor = |address: &Address| Actor {
            prefix: HistoryPrefix::new(address, app),
            past: Past::default(),
            records: Records::new(address, app),
            acknowledged: BTreeMap::new(),
            removed: BTreeSet::new(),
            issued: BTreeMap::new(),
            acknowledgements: 0,
        };
        let state = State { actors: actors.iter().map(actor).collect(), ..State::default() };
        Arc::new(Self { state: Mutex::new(state), trace, stop: Notify::new() })
    }

    /// Returns when a promise was broken.
    pub async fn stopped(&self) {
        self.stop.notified().await;
    }

    pub fn broken(&self) -> Option<String> {
        self.state().broken.clone()
    }

    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    pub fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
    }

    /// A token that no write has had yet.
    pub fn new_token(&self) -> Token {
        let mut state = self.state();
        state.numbers += 1;
        state.numbers
    }

    /// Something that the run itself saw to be wrong.
    pub fn breaks(&self, why: String) {
        let mut state = self.state();
        self.note(&mut state, Err(why));
    }

    pub fn landed(&self, key: &str, body: &[u8]) {
        let mut state = self.state();
        let result = state.landed(key, body);
        self.note(&mut state, result);
    }

    pub fn removed(&self, key: &str) {
        let mut state = self.state();
        let result = state.removed(key);
        self.note(&mut state, result);
    }

    /// A hold is ready for events, with this database. Returns its number.
    pub fn hold_begins(&self, hold: Watched, head: Option<Base>, image: &Image) -> u64 {
        let mut state = self.state();
        let result = state.hold_begins(&hold, head, image);
        self.trace.note(|| {
            let at = head.map_or("nothing".into(), |head| head.at.to_string());
            format!(
                "hold: machine {} holds {} in {} on {at}",
                hold.machine, hold.actor, hold.generation
            )
        });
        self.note(&mut state, result);
        state.numbers += 1;
        let number = state.numbers;
        state.holds.insert(number, hold);
        number
    }

    /// Whoever asked for its events is told nothing more by it.
    pub fn hold_ends(&self, number: u64) {
        if let Some(hold) = self.state().holds.remove(&number) {
            self.trace.note(|| {
                format!(
                    "hold: machine {} leaves {} in {}",
                    hold.machine, hold.actor, hold.generation
                )
            });
        }
    }

    /// A write is about to be carried out; a retry is a new one.
    pub fn issues(&self, actor: usize, token: Token) {
        let mut state = self.state();
        state.numbers += 1;
        let number = state.numbers;
        state.actors[actor].issued.insert(token, number);
        state.actors[actor].removed.remove(&token);
    }

    /// A client is told that these writes are durable.
    pub fn acknowledges(&self, hold: u64, tokens: &[Token]) {
        let mut state = self.state();
        let result = state.acknowledges(hold, tokens);
        self.trace.note(|| match state.holds.get(&hold) {
            Some(hold) => format!(
                "acknowledged: {tokens:?} of {} by machine {} in {}",
                hold.actor, hold.machine, hold.generation
            ),
            None => format!("acknowledged: {tokens:?} by nobody"),
        });
        self.note(&mut state, result);
    }

    /// A reset is about to be sent. Returns what `reset_acknowledged` wants.
    pub fn reset_begins(&self) -> u64 {
        let mut state = self.state();
        state.numbers += 1;
        state.numbers
    }

    /// A client is told that all before it is gone.
    pub fn reset_acknowledged(&self, hold: u64, began: u64) {
        let mut state = self.state();
        let result = state.reset_acknowledged(hold, began);
        self.trace.note(|| format!("acknowledged: reset in hold {hold}"));
        self.note(&mut state, result);
    }

    /// How often a client of the actor was told that something is durable.
    pub fn acknowledgements(&self, actor: usize) -> u64 {
        self.state().actors[actor].acknowledgements
    }

    /// Acknowledged before the run began.
    pub fn begins_with(&self, actor: usize, token: Token, at: Position) {
        let mut state = self.state();
        state.numbers += 1;
        let number = state.numbers;
        state.actors[actor].issued.insert(token, number);
        state.actors[actor].acknowledged.insert(token, at);
    }

    /// A node was told by the bucket that its session is over.
    pub fn ended(&self, machine: usize, session: Session) {
        let mut state = self.state();
        let has_ended = state.leases.has_ended(session);
        let wrong = format!("machine {machine} took its own write for the end of its session");
        self.note(&mut state, if has_ended { Ok(()) } else { Err(wrong) });
    }

    /// The writes that were issued and not acknowledged, for retries.
    pub fn in_doubt(&self, actor: usize) -> Vec<Token> {
        let state = self.state();
        let actor = &state.actors[actor];
        let doubtful = |token: &&Token| !actor.acknowledged.contains_key(token);
        actor.issued.keys().filter(doubtful).copied().collect()
    }

    fn note(&self, state: &mut State, result: Result<(), String>) {
        let Err(why) = result else { return };
        self.trace.note(|| format!("BROKEN: {why}"));
        state.broken.get_or_insert(why);
        self.stop.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn landed(&mut self, key: &str, body: &[u8]) -> Result<(), String> {
        if key.starts_with(LEASES) {
            return self.leases.landed(key, body);
        }
        for (number, actor) in self.actors.iter_mut().enumerate() {
            if actor.records.key() == key {
                let taken = actor.records.landed(body)?;
                self.counts.taken += u64::from(taken);
                return Ok(());
            }
            if let Some(object) = actor.prefix.object(key) {
                actor.past.landed(object, body).map_err(|why| format!("actor {number}: {why}"))?;
                self.counts.snapshots += u64::from(key.ends_with(".snp"));
                self.counts.merged += u64::from(key.contains(".mrg-"));
                return actor.check(number);
            }
        }
        Ok(())
    }

    fn removed(&mut self, key: &str) -> Result<(), String> {
        for (number, actor) in self.actors.iter_mut().enumerate() {
            if let Some(object) = actor.prefix.object(key) {
                actor.past.removed(object);
                self.counts.removed += 1;
                return actor.check(number);
            }
        }
        Ok(())
    }

    fn hold_begins(
        &mut self,
        hold: &Watched,
        head: Option<Base>,
        image: &Image,
    ) -> Result<(), String> {
        let before = self.holds.len();
        self.holds.retain(|_, of| !of.is_the_same(hold));
        // A parked one that woke.
        let is_known = self.holds.len() < before;
        self.counts.woken += u64::from(is_known);
        self.counts.holds += 1;
        self.is_alone(hold, None, "begins a hold")?;
        if (hold.has_stood)() {
            return Ok(());
        }
        let actor = &self.actors[hold.actor];
        let newest = actor.past.newest().filter(|at| at.generation() >= hold.generation);
        if let (Some(above), false) = (newest, is_known) {
            let (machine, of) = (hold.machine, hold.generation);
            return Err(format!("machine {machine} holds in {of}, and {above} has been written"));
        }
        let whose = format!("machine {} restored actor {}", hold.machine, hold.actor);
        let tokens = image.tokens().map_err(|why| format!("{whose} torn: {why}"))?;
        // What landed since the listing is not of this chain, be it newer.
        let mut reset = None;
        if let Some(head) = head {
            let known = actor.past.find(head);
            let known = known.ok_or_else(|| format!("{whose} at {}, which never was", head.at))?;
            if known.image != *image {
                return Err(format!("{whose} at {} with other pages than were there", head.at));
            }
            reset = known.reset;
        }
        actor.keeps(&tokens, reset).map_err(|why| format!("{whose}: {why}"))
    }

    fn acknowledges(&mut self, number: u64, tokens: &[Token]) -> Result<(), String> {
        let hold =
            self.holds.get(&number).ok_or("an acknowledgement of a hold that is over")?.clone();
        self.is_alone(&hold, Some(number), "acknowledges")?;
        let actor = &mut self.actors[hold.actor];
        let newest = actor.past.newest_of(hold.generation);
        let newest = newest.or_else(|| actor.past.head().map(|(at, _)| at));
        let at = newest.ok_or_else(|| {
            format!("machine {} acknowledges what is not in the bucket", hold.machine)
        })?;
        for token in tokens {
            let is_new = actor.acknowledged.insert(*token, at).is_none();
            self.counts.acknowledged += u64::from(is_new);
        }
        actor.acknowledgements += 1;
        actor.check(hold.actor)
    }

    fn reset_acknowledged(&mut self, number: u64, began: u64) -> Result<(), String> {
        let hold =
            self.holds.get(&number).ok_or("an acknowledgement of a hold that is over")?.clone();
        self.is_alone(&hold, Some(number), "acknowledges a reset")?;
        self.counts.resets += 1;
        let actor = &mut self.actors[hold.actor];
        let earlier = actor.issued.iter().filter(|(_, issued)| **issued < began);
        let earlier: BTreeSet<Token> = earlier.map(|(token, _)| *token).collect();
        actor.acknowledged.retain(|token, _| !earlier.contains(token));
        actor.removed.extend(earlier);
        actor.check(hold.actor)
    }

    /// Only what a node says counts, not what it might: unless all clocks went on, the bucket's word
    /// on each single acknowledgement is what keeps writes.
    fn is_alone(&self, hold: &Watched, number: Option<u64>, what: &str) -> Result<(), String> {
        for (other, of) in &self.holds {
            let is_other = Some(*other) != number && of.actor == hold.actor;
            if is_other && (of.is_capable)() && !(of.has_stood)() && !(hold.has_stood)() {
                return Err(format!(
                    "two holders of actor {}: machine {} {what} in {} while machine {} could in {}",
                    hold.actor, hold.machine, hold.generation, of.machine, of.generation
                ));
            }
        }
        Ok(())
    }
}

impl Actor {
    /// What a restore of the bucket would give at this moment.
    fn check(&self, number: usize) -> Result<(), String> {
        if !self.past.is_restorable() {
            let head = self.past.head().map(|(at, _)| at.to_string()).unwrap_or_default();
            return Err(format!("actor {number} cannot be restored from its head {head}"));
        }
        let head = self.past.head();
        let tokens = head.map_or(Ok(BTreeSet::new()), |(_, landed)| landed.image.tokens())?;
        let reset = head.and_then(|(_, landed)| landed.reset);
        let at = head.map(|(at, _)| at.to_string()).unwrap_or_default();
        self.keeps(&tokens, reset).map_err(|why| format!("actor {number} at {at}: {why}"))
    }

    fn keeps(&self, tokens: &BTreeSet<Token>, reset: Option<Position>) -> Result<(), String> {
        let is_lost = |(token, at): &(&Token, &Position)| {
            !tokens.contains(*token) && reset.is_none_or(|reset| reset < **at)
        };
        if let Some((token, at)) = self.acknowledged.iter().find(is_lost) {
            return Err(format!("write {token}, acknowledged at {at}, is lost"));
        }
        match self.removed.iter().find(|token| tokens.contains(token)) {
            Some(token) => Err(format!("write {token} came back after a reset")),
            None => Ok(()),
        }
    }
}
