//! What clients ask of the nodes: each node tries for each actor again and again, and has some events
//! when it gets it. Clients whose write is in doubt try it again, anywhere.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::select;
use wasmkeep_supervisors::address::NodeId;
use wasmkeep_supervisors::event::Mark;
use wasmkeep_supervisors::lease::Order;
use wasmkeep_supervisors::ownership::AcquireError;
use wasmkeep_supervisors::ports::StorageFault;
use wasmkeep_supervisors::replica::{Held, HoldError, Holding, Lost};

use crate::checker::Watched;
use crate::database::TokenDatabase;
use crate::image::Token;
use crate::node::Node;

/// Whoever does not wait longer for an answer leaves it at that.
const EARLY: Duration = Duration::from_secs(2);

/// An event may stop the node's work on an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Goes,
    GivesUp,
}

/// Runs for as long as the node does.
pub async fn serve(node: Arc<Node>, actor: usize) {
    loop {
        node.clock.sleep(node.dice.seconds(0.2, 5.0)).await;
        if node.ordered() != Order::Serve {
            for held in node.replicas.unpark_all() {
                held.leave(None, None).await;
            }
            continue;
        }
        let address = &node.shared.actors[actor];
        match node.replicas.hold(address).await {
            Ok(Holding::Here(held)) => Visit::begin(&node, actor, held).run().await,
            Ok(Holding::Elsewhere(_)) => {}
            Err(error) => failed(&node, actor, &error),
        }
        if node.dice.chance(0.1) {
            let _ = node.owners.disown(address).await;
        }
    }
}

/// Nothing in the run makes a history unreadable, or makes the bucket refuse.
fn failed(node: &Node, actor: usize, error: &HoldError) {
    let is_expected = matches!(error, HoldError::Acquire(error) if !matches!(error, AcquireError::Denied(_) | AcquireError::Record(_)));
    let machine = node.machine.number;
    if is_expected || node.gate.is_dead() {
        node.shared.trace.note(|| format!("machine {machine} does not hold {actor}: {error}"));
    } else {
        node.shared.checker.breaks(format!("machine {machine} cannot hold {actor}: {error}"));
    }
}

/// One hold, from its first event to its last.
pub struct Visit {
    node: Arc<Node>,
    actor: usize,
    held: Held,
    database: TokenDatabase,
    watched: u64,
    /// Writes whose clients wait, while the actor goes on: the how manyth each is.
    waiting: VecDeque<(Mark, Token)>,
    marks: Mark,
    /// Segments are small and many.
    is_burst: bool,
}

impl Visit {
    pub fn begin(node: &Arc<Node>, actor: usize, held: Held) -> Self {
        let shared = &node.shared;
        let database = node.open(&shared.actors[actor]);
        let (right, gate) = (held.right().clone(), node.gate.clone());
        let clock = node.machine.clock.clone();
        let watched = Watched {
            machine: node.machine.number,
            node: node.number,
            actor,
            generation: held.generation(),
            has_stood: Arc::new(move || clock.has_stood()),
            is_capable: Arc::new(move || !gate.is_dead() && right.is_valid()),
        };
        let watched = shared.checker.hold_begins(watched, held.head(), database.image());
        let is_burst = shared.mood.bursts && node.dice.chance(0.5);
        let node = Arc::clone(node);
        let (waiting, marks) = (VecDeque::new(), 0);
        Self { node, actor, held, database, watched, waiting, marks, is_burst }
    }

    async fn run(mut self) {
        let node = Arc::clone(&self.node);
        let dice = &node.dice;
        let mut events: u32 = match self.is_burst {
            true => *dice.one_of(&[20, 80, 100]),
            false => *dice.one_of(&[0, 0, 1, 2, 3, 5]),
        };
        if self.held.opened(&mut self.database).await.is_err() {
            return self.give_up();
        }
        loop {
            if events == 0 || self.node.ordered() != Order::Serve {
                match dice.unit() {
                    x if x < 0.15 && self.node.ordered() == Order::Serve => {
                        self.wait(dice.seconds(0.0, 12.0)).await;
                    }
                    x if x < 0.3 && self.node.ordered() == Order::Serve => {
                        return self.park().await;
                    }
                    _ => return self.leave().await,
                }
                events = *dice.one_of(&[0, 1, 2]);
            }
            events = events.saturating_sub(1);
            let most = if self.is_burst { 0.3 } else { 1.5 };
            self.wait(dice.seconds(0.0, most)).await;
            if self.held.is_lost() {
                return self.give_up();
            }
            self.answer();
            if !self.held.may_run() {
                continue;
            }
            if let Next::GivesUp = self.event().await {
                return self.give_up();
            }
        }
    }

    /// Between two events what was committed goes to the bucket.
    pub async fn wait(&mut self, time: Duration) {
        let clock = Arc::clone(&self.node.clock);
        let until = clock.sleep(time);
        tokio::pin!(until);
        loop {
            select! {
                biased;
                () = &mut until => return,
                () = self.held.shipped() => {}
            }
            if self.held.is_lost() || self.held.event_ended(Some(&mut self.database)).is_err() {
                return until.await;
            }
            self.answer();
        }
    }

    async fn event(&mut self) -> Next {
        let node = Arc::clone(&self.node);
        let (dice, checker) = (&node.dice, &node.shared.checker);
        let is_quiet = node.shared.is_quiet();
        match dice.unit() {
            x if x < 0.03 && !is_quiet => return self.reset().await,
            x if x < 0.3 && !is_quiet => {
                let token = checker.new_token();
                if self.commit(token).is_err() {
                    return Next::GivesUp;
                }
                self.marks += 1;
                self.held.wrote(self.marks);
                self.waiting.push_back((self.marks, token));
            }
            x => {
                let doubtful = checker.in_doubt(self.actor);
                // The newest ones: whoever retries does so soon.
                let newest = &doubtful[doubtful.len().saturating_sub(4)..];
                let is_retry = x < 0.75 && !newest.is_empty();
                let token = if is_retry { *dice.one_of(newest) } else { checker.new_token() };
                match self.commit(token) {
                    Ok(changes) => checker.count(|counts| counts.unchanged += u64::from(!changes)),
                    Err(_) => return Next::GivesUp,
                }
                if let Next::GivesUp = self.durable().await {
                    return Next::GivesUp;
                }
            }
        }
        match self.held.event_ended(Some(&mut self.database)) {
            Ok(()) => Next::Goes,
            Err(_) => Next::GivesUp,
        }
    }

    /// Tells those who waited that their writes are durable, as far as they are.
    fn answer(&mut self) {
        let durable = self.held.durable_mark();
        let count = self.waiting.partition_point(|(mark, _)| *mark <= durable);
        let tokens: Vec<Token> = self.waiting.drain(..count).map(|(_, token)| token).collect();
        if !tokens.is_empty() {
            self.node.shared.checker.acknowledges(self.watched, &tokens);
        }
    }

    pub fn held(&self) -> &Held {
        &self.held
    }

    pub fn has(&self, token: Token) -> bool {
        self.database.has(token)
    }

    /// Whether it changed anything.
    pub fn commit(&mut self, token: Token) -> Result<bool, StorageFault> {
        if !self.database.has(token) {
            self.node.shared.checker.issues(self.actor, token);
        }
        self.database.add(token)
    }

    /// Everything that is in the database now.
    pub async fn durable(&mut self) -> Next {
        let node = Arc::clone(&self.node);
        let tokens: BTreeSet<Token> = self.database.image().tokens().unwrap_or_default();
        let patience = match node.shared.mood.late_segments {
            true => EARLY,
            false => Duration::from_secs(1000),
        };
        let result = select! {
            biased;
            result = self.held.durable(Some(&mut self.database)) => result.map_err(drop),
            () = node.clock.sleep(patience) => {
                // Some give the actor up at that, as a failure of the disk would; some go on.
                return if node.dice.chance(0.7) { Next::GivesUp } else { Next::Goes };
            }
        };
        match result {
            Ok(()) => {
                let tokens: Vec<Token> = tokens.into_iter().collect();
                node.shared.checker.acknowledges(self.watched, &tokens);
                Next::Goes
            }
            Err(()) => Next::GivesUp,
        }
    }

    pub async fn reset(&mut self) -> Next {
        // Who waits is told before what was written goes.
        if !self.waiting.is_empty()
            && let Next::GivesUp = self.durable().await
        {
            return Next::GivesUp;
        }
        self.answer();
        self.waiting.clear();
        let checker = Arc::clone(&self.node.shared.checker);
        let began = checker.reset_begins();
        if self.database.clear().is_err() || self.held.reset(&mut self.database).await.is_err() {
            return Next::GivesUp;
        }
        checker.reset_acknowledged(self.watched, began);
        Next::Goes
    }

    pub fn give_up(self) {
        let checker = &self.node.shared.checker;
        checker.hold_ends(self.watched);
        if self.held.lost() == Some(Lost::Conflict) {
            let machine = self.node.machine.number;
            checker
                .breaks(format!("machine {machine} met another's segment in its own generation"));
        }
        drop(self.database);
        self.held.give_up();
    }

    /// The actor leaves memory, and the hold stays: the next event finds it, if it is still valid.
    pub async fn park(self) {
        let Self { node, held, database, watched, .. } = self;
        if !held.park(Some(Box::new(database))).await {
            node.shared.checker.hold_ends(watched);
        }
    }

    /// The hold ends for its clients before anything of the release is sent.
    pub async fn leave(self) {
        let Self { node, held, database, watched, .. } = self;
        node.shared.checker.hold_ends(watched);
        let next = match !node.shared.mood.calm && node.dice.chance(0.1) {
            true => NodeId::parse(node.dice.one_of::<&str>(&["n0", "n1", "n2"])).ok(),
            false => None,
        };
        held.leave(Some(Box::new(database)), next).await;
    }
}
