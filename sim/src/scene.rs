//! One interleaving, written down: nothing goes wrong but what the scene says. The oracle watches as it
//! does in random runs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use wasmkeep_supervisors::replica::Holding;
use wasmkeep_supervisors::twin::{Twin, leave_out};

use crate::before;
use crate::checker::Counts;
use crate::dice::Dice;
use crate::fate::{Fate, Mood, Operation};
use crate::faults::{Crashed, Fault};
use crate::image::Token;
use crate::node::Node;
use crate::runtime;
use crate::shared::Shared;
use crate::workload::{Next, Visit};
use crate::world::{NODES, World};

/// Parts of keys.
pub const SEGMENT: &str = ".seg";
pub const SNAPSHOT: &str = ".snp";
pub const RECORD: &str = "/owners/";

/// A scene that takes longer waits for what does not come.
const LONGEST: Duration = Duration::from_secs(1_000);

#[derive(Clone)]
pub struct Scene(Arc<World>);

/// Plays a scene, with one rule left out if a twin is given. Returns the promise that it broke.
pub fn play<F: Future>(twin: Option<Twin>, scene: impl FnOnce(Scene) -> F) -> Option<String> {
    let _left_out = twin.map(leave_out);
    runtime::of(0).block_on(async {
        let mood = Mood { calm: true, ..Mood::default() };
        let world = World::new(Arc::new(Shared::new(Dice::new(7), mood, (NODES + 1, 1), true)));
        let shared = Arc::clone(&world.shared);
        let _tells = TellsWhenItFails(Arc::clone(&shared));
        tokio::select! {
            biased;
            () = shared.checker.stopped() => {}
            ended = timeout(LONGEST, scene(Scene(Arc::clone(&world)))) => {
                assert!(ended.is_ok(), "the scene does not end");
                world.stop();
                sleep(Duration::from_secs(120)).await;
            }
        }
        shared.checker.broken()
    })
}

struct TellsWhenItFails(Arc<Shared>);

impl Drop for TellsWhenItFails {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.trace.take().iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl Scene {
    /// The actor has so many segments, and nobody has held it for long.
    pub fn history(&self, segments: u64) {
        before::history(&self.0.shared, 0, (1, segments));
    }

    /// The machine's next request of this kind with that part in its key.
    pub fn next(&self, machine: usize, (operation, part): (Operation, &str), fate: Fate) {
        self.0.shared.fates.script(machine, operation, part, fate);
    }

    /// What is scripted for the machine, and was not needed, does not come.
    pub fn forget(&self, machine: usize) {
        self.0.shared.fates.forget(machine);
    }

    /// The node that the machine has, or has after a restart, once its lease is valid.
    pub async fn live_again(&self, machine: usize) -> Arc<Node> {
        loop {
            match self.0.node(machine) {
                Some(node) if node.is_live() => return node,
                Some(_) => {}
                None => _ = self.start(machine),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn strike(&self, machine: usize, fault: Fault) {
        self.0.strike(machine, fault);
    }

    pub fn pause(&self, machine: usize, seconds: f64, clock_stands: bool) {
        let time = Duration::from_secs_f64(seconds);
        self.strike(machine, Fault::Pause { time, clock_stands });
    }

    /// For good, unless `start` brings it back.
    pub fn crash(&self, machine: usize) {
        self.0.crash(machine);
    }

    pub fn damage(&self, machine: usize, what: Crashed) {
        self.0.damage(machine, what);
    }

    /// Starts a machine's node, and waits until its lease is valid.
    pub async fn live(&self, machine: usize) -> Arc<Node> {
        let node = self.start(machine);
        while !node.is_live() {
            sleep(Duration::from_millis(50)).await;
        }
        node
    }

    pub fn start(&self, machine: usize) -> Arc<Node> {
        self.0.start_without_clients(machine)
    }

    pub async fn wait(&self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds)).await;
    }

    pub fn now(&self) -> f64 {
        Instant::now().duration_since(self.0.shared.began).as_secs_f64()
    }

    pub fn token(&self) -> Token {
        self.0.shared.checker.new_token()
    }

    pub fn counts(&self) -> Counts {
        self.0.shared.checker.counts()
    }

    /// One try.
    pub async fn try_hold(&self, node: &Arc<Node>) -> Option<Visit> {
        match node.replicas.hold(&self.0.shared.actors[0]).await {
            Ok(Holding::Here(held)) => Some(Visit::begin(node, 0, held)),
            Ok(Holding::Elsewhere(_)) | Err(_) => None,
        }
    }

    /// Tries until the node holds the actor.
    pub async fn hold(&self, node: &Arc<Node>) -> Visit {
        loop {
            if let Some(visit) = self.try_hold(node).await {
                return visit;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// A node without a hold frees a record that names it.
    pub async fn disown(&self, node: &Node) {
        let _ = node.owners.disown(&self.0.shared.actors[0]).await;
    }

    /// Writes a token durably; whether it was acknowledged.
    pub async fn write(&self, visit: &mut Visit, token: Token) -> bool {
        visit.commit(token).is_ok() && visit.durable().await == Next::Goes
    }
}
