//! One run: machines, their faults, and in the end a while without any, in which every actor must come
//! to some node and be written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::select;
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};
use wasmkeep_supervisors::lease::{Ended, Order};
use wasmkeep_supervisors::twin::{Twin, leave_out};

use crate::before;
use crate::checker::Counts;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::fate::Mood;
use crate::faults::{Crashed, Fault, Planned, plan};
use crate::image::Image;
use crate::node::{EndOfNode, Machine, Node};
use crate::runtime;
use crate::shared::Shared;
use crate::workload::serve;

/// Machines with names of their own; one more has the first one's name.
pub const NODES: usize = 3;
/// Nothing goes wrong after this.
const FAULTS_UNTIL: f64 = 130.0;
/// All faults are over.
const QUIET_FROM: f64 = 150.0;
/// Without faults every actor is written within this time: the longest upload, a takeover by a slow
/// clock, and some tries.
const RECOVERY: Duration = Duration::from_secs(120);
/// After the last request of a node is sent nothing lands later.
const LATE_WRITES: Duration = Duration::from_secs(35);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    pub seed: u64,
    /// The rule that is left out.
    pub twin: Option<Twin>,
    pub keeps_trace: bool,
}

impl Setup {
    pub fn of(seed: u64) -> Self {
        Self { seed, twin: None, keeps_trace: false }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The first promise that was broken.
    pub broken: Option<String>,
    pub counts: Counts,
    pub trace: Vec<String>,
}

/// Plays one seed to its end.
pub fn run(setup: Setup) -> Outcome {
    let _left_out = setup.twin.map(leave_out);
    runtime::of(setup.seed).block_on(async {
        let dice = Dice::new(setup.seed);
        let mood = Mood {
            late_segments: dice.chance(0.5),
            slow_polls: dice.chance(0.25),
            far: dice.chance(0.2),
            retains: dice.chance(0.3),
            bursts: dice.chance(0.1),
            calm: false,
        };
        let actors = *dice.one_of(&[1, 1, 2, 3]);
        let faults = plan(&dice, NODES, FAULTS_UNTIL);
        let shared = Shared::new(dice, mood, (NODES + 1, actors), setup.keeps_trace);
        let world = World::new(Arc::new(shared));
        before::fill(&world.shared);
        world.fill_disks();
        world.play(faults).await;
        let shared = &world.shared;
        shared.checker.count(|counts| counts.unlisted = shared.unlisted_holds());
        let broken = shared.checker.broken();
        Outcome { broken, counts: shared.checker.counts(), trace: shared.trace.take() }
    })
}

pub struct World {
    pub shared: Arc<Shared>,
    machines: Vec<Arc<Machine>>,
    nodes: Mutex<Vec<Option<Arc<Node>>>>,
    ends: mpsc::UnboundedSender<EndOfNode>,
    ended: Mutex<Option<mpsc::UnboundedReceiver<EndOfNode>>>,
}

impl World {
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        let machine = |number| Arc::new(Machine::new(number, number % NODES, &shared.dice));
        let machines: Vec<_> = (0..=NODES).map(machine).collect();
        let nodes = Mutex::new(vec![None; machines.len()]);
        let (ends, ended) = mpsc::unbounded_channel();
        Arc::new(Self { shared, machines, nodes, ends, ended: Mutex::new(Some(ended)) })
    }

    /// Some actors lived on the first machine while that had no bucket.
    fn fill_disks(&self) {
        let (shared, dice) = (&self.shared, &self.shared.dice);
        for (number, address) in shared.actors.iter().enumerate() {
            if dice.chance(0.1) {
                let mut image = Image::default();
                for _ in 0..5 {
                    let token = shared.checker.new_token();
                    shared.checker.issues(number, token);
                    image.add(token);
                }
                self.machines[0].disk().put_single(address, image);
            }
        }
    }

    /// The whole run, or up to the moment at which a promise was broken.
    async fn play(self: &Arc<Self>, faults: Vec<Planned>) {
        let whole = async {
            for machine in 0..NODES {
                self.start_after(machine, self.shared.dice.seconds(0.0, 4.0));
            }
            self.fail(faults).await;
            sleep_until(self.shared.began + Duration::from_secs_f64(QUIET_FROM)).await;
            self.recover().await;
        };
        select! {
            biased;
            () = self.shared.checker.stopped() => {}
            () = self.start_those_that_ended() => {}
            () = whole => {}
        }
        self.stop();
    }

    /// All nodes are gone.
    pub fn stop(&self) {
        (0..self.machines.len()).for_each(|machine| self.crash(machine));
    }

    async fn fail(self: &Arc<Self>, faults: Vec<Planned>) {
        for Planned { at, machine, fault } in faults {
            sleep_until(self.shared.began + at).await;
            self.shared.trace.note(|| format!("fault: machine {machine}: {fault:?}"));
            self.strike(machine, fault);
        }
    }

    pub fn strike(self: &Arc<Self>, machine: usize, fault: Fault) {
        let now = tokio::time::Instant::now();
        let fates = &self.shared.fates;
        match fault {
            Fault::Pause { time, clock_stands } => {
                let Some(node) = self.node(machine) else { return };
                node.gate.close_for(time);
                if clock_stands {
                    node.machine.clock.stop_for(time);
                }
            }
            Fault::Crash { down, what } => {
                if self.node(machine).is_some() {
                    self.crash(machine);
                    self.damage(machine, what);
                    self.start_after(machine, down);
                }
            }
            Fault::Restart { down } => self.restart(machine, down),
            Fault::CutLease { time } => {
                fates.change(machine, |way| way.lease_cut = Some(now + time))
            }
            Fault::Cut { time } => fates.change(machine, |way| way.cut = Some(now + time)),
            Fault::Slow { time } => fates.change(machine, |way| way.slow = Some(now + time)),
            Fault::Fence { by } => self.fence(machine, by),
            Fault::Double => self.start_after(machine, Duration::ZERO),
        }
    }

    pub fn damage(&self, machine: usize, what: Crashed) {
        let of = &self.machines[machine];
        match what {
            Crashed::Process => {}
            Crashed::Machine => of.disk().tear(&self.shared.dice),
            Crashed::Disk => *lock(&of.disk) = Arc::new(Disk::default()),
        }
    }

    /// It gives its actors back, then its lease. What takes too long is cut short.
    fn restart(self: &Arc<Self>, machine: usize, down: Duration) {
        let Some(node) = self.node(machine) else { return };
        node.order(Order::Drain);
        let world = Arc::clone(self);
        tokio::spawn(async move {
            sleep(Duration::from_secs(10)).await;
            node.order(Order::Release);
            sleep(Duration::from_secs(3) + down).await;
            if world.node(machine).is_some_and(|of| Arc::ptr_eq(&of, &node)) {
                world.crash(machine);
                world.start_after(machine, Duration::ZERO);
            }
        });
    }

    /// On an operator's word, which is true: the node is down.
    fn fence(self: &Arc<Self>, machine: usize, by: usize) {
        let (None, Some(by)) = (self.node(machine), self.node(by)) else { return };
        let target = self.machines[machine].node.clone();
        let peers = Arc::clone(&by.peers);
        by.spawn(async move {
            let _ = peers.fence(&target, "an operator said so", false).await;
        });
    }

    /// A process whose lease has ended exits, and its supervisor starts it again.
    async fn start_those_that_ended(self: &Arc<Self>) {
        let Some(mut ended) = lock(&self.ended).take() else { return };
        while let Some(EndOfNode { machine, session, ended }) = ended.recv().await {
            self.shared.trace.note(|| format!("machine {machine}: its lease ended: {ended:?}"));
            match (&ended, session) {
                (Ended::Fenced { .. }, Some(session)) => {
                    self.shared.checker.ended(machine, session)
                }
                (Ended::Denied(denial), _) => self.shared.checker.breaks(denial.to_string()),
                _ => {}
            }
            if matches!(ended, Ended::Fenced { .. }) && self.node(machine).is_some() {
                self.crash(machine);
                self.start_after(machine, self.shared.dice.seconds(1.0, 5.0));
            }
        }
    }

    /// Nothing goes wrong any more: every actor comes to some node, and is written.
    async fn recover(self: &Arc<Self>) {
        let checker = &self.shared.checker;
        self.shared.quiet_begins();
        self.shared.trace.note(|| "quiet begins".into());
        let actors = 0..self.shared.actors.len();
        let before: Vec<u64> =
            actors.clone().map(|actor| checker.acknowledgements(actor)).collect();
        let is_written = |actor: &usize| checker.acknowledgements(*actor) > before[*actor];
        let until = tokio::time::Instant::now() + RECOVERY;
        while !actors.clone().all(|actor| is_written(&actor)) {
            if tokio::time::Instant::now() > until {
                let dead = actors.clone().find(|actor| !is_written(actor));
                checker.breaks(format!("actor {dead:?} is not written after all faults are over"));
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        self.stop();
        sleep(LATE_WRITES).await;
    }

    pub fn start_after(self: &Arc<Self>, machine: usize, down: Duration) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            sleep(down).await;
            if world.node(machine).is_none() {
                world.start(machine);
            }
        });
    }

    fn start(&self, machine: usize) {
        let node = self.start_without_clients(machine);
        for actor in 0..self.shared.actors.len() {
            node.spawn(serve(Arc::clone(&node), actor));
        }
    }

    pub fn start_without_clients(&self, machine: usize) -> Arc<Node> {
        self.shared.trace.note(|| format!("machine {machine} starts"));
        let node = Node::start(&self.shared, &self.machines[machine], self.ends.clone());
        lock(&self.nodes)[machine] = Some(Arc::clone(&node));
        node
    }

    pub fn crash(&self, machine: usize) {
        let node = lock(&self.nodes)[machine].take();
        if let Some(node) = node {
            self.shared.trace.note(|| format!("machine {machine} is gone"));
            node.crash();
        }
    }

    pub fn node(&self, machine: usize) -> Option<Arc<Node>> {
        lock(&self.nodes)[machine].clone()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
