//! Holders one after the other, on a bucket where anything may land late, twice or never. Whoever has the
//! actor must find every row that was acknowledged. The rules that need two uploads to land late, one
//! before a restore and one after it, have tests of their own in `late`.

use std::collections::BTreeSet;

use super::*;

/// Enough for the rules that they are left out of one by one below.
const SEEDS: u64 = 20;

struct Run {
    world: World,
    random: SeededRandom,
    nodes: Vec<Node>,
    acknowledged: BTreeSet<String>,
    doubtful: Vec<String>,
    written: u64,
    counts: Counts,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    holds: u64,
    acknowledged: u64,
    refused: u64,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let world = World::new();
        let mut nodes = Vec::new();
        for node in 0..3 {
            nodes.push(world.node(&format!("n{node}")).await);
        }
        Self {
            world,
            random: SeededRandom::new(seed.wrapping_mul(0x9e37_79b9)),
            nodes,
            acknowledged: BTreeSet::new(),
            doubtful: Vec::new(),
            written: 0,
            counts: Counts::default(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.next() % bound
    }

    fn late(&self) -> BucketFault {
        BucketFault::Late(Duration::from_secs(31 + self.below(200)))
    }

    /// The next writes and deletes fail in some way, or do not.
    fn some_faults(&self) {
        if self.below(4) == 0 {
            self.world.bucket.fails(Operation::Delete, self.late());
        }
        if self.below(6) == 0 {
            self.world.bucket.fails(Operation::Get, BucketFault::Answered(503));
        }
    }

    fn fails_the_next_put(&self) {
        let fault = match self.below(6) {
            0 => BucketFault::LostRequest,
            1 => BucketFault::AnsweredAfterAll(500),
            2 => BucketFault::Answered(409),
            _ => self.late(),
        };
        self.world.bucket.fails(Operation::Put, fault);
    }

    async fn go(&mut self, holds: u64) -> Result<(), String> {
        for _ in 0..holds {
            let at = self.below(3) as usize;
            self.all_beat().await;
            self.some_faults();
            match self.nodes[at].replicas.hold(&address()).await {
                Ok(Holding::Here(held)) => self.held(at, held).await?,
                Ok(Holding::Elsewhere(node)) => {
                    // The holder's node is gone for good.
                    let gone = self.nodes.iter().position(|known| known.name == node);
                    self.node_ends(gone.ok_or("nobody's")?).await;
                }
                Err(HoldError::Acquire(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
            if self.below(3) == 0 {
                pass(self.below(90)).await;
            }
        }
        Ok(())
    }

    /// Every node that lives renews its lease.
    async fn all_beat(&self) {
        for node in &self.nodes {
            let session = node.validity.term().expect("it lives").session();
            self.world.lives(&node.name, session).await;
        }
    }

    async fn held(&mut self, at: usize, held: Held) -> Result<(), String> {
        self.counts.holds += 1;
        let databases = self.nodes[at].databases.clone();
        self.check(&databases)?;
        let Ok(database) = databases.open(&address()) else { return Err("not opened".into()) };
        let mut actor = Actor { held, database };
        for _ in 0..[0, 0, 1, 2, 6, 18][self.below(6) as usize] {
            if !self.event(&databases, &mut actor).await {
                break;
            }
        }
        match self.below(8) {
            0 => drop(actor),
            1 => self.node_crashes(at, actor).await,
            2 => actor.give_up(),
            3 => _ = actor.held.park(Some(actor.database)).await,
            _ => actor.leave().await,
        }
        Ok(())
    }

    /// A durable write of something new, or of what somebody was not told about. False when the hold is
    /// lost.
    async fn event(&mut self, databases: &MemoryDatabases, actor: &mut Actor) -> bool {
        if self.below(8) == 0 {
            self.fails_the_next_put();
        }
        let again = !self.doubtful.is_empty() && self.below(2) == 0;
        let row = if again {
            self.doubtful[self.below(self.doubtful.len() as u64) as usize].clone()
        } else {
            self.written += 1;
            format!("row {}", self.written)
        };
        if !databases.rows(&address()).contains(&row) {
            actor.database.exec(&row, Vec::new()).expect("it writes");
        }
        match actor.durable().await {
            Ok(()) => {
                self.counts.acknowledged += 1;
                self.acknowledged.insert(row);
                true
            }
            Err(_) => {
                self.counts.refused += 1;
                self.doubtful.push(row);
                false
            }
        }
    }

    fn check(&self, databases: &MemoryDatabases) -> Result<(), String> {
        let found: BTreeSet<String> = databases.rows(&address()).into_iter().collect();
        let lost: Vec<_> = self.acknowledged.difference(&found).collect();
        if lost.is_empty() { Ok(()) } else { Err(format!("lost: {lost:?}")) }
    }

    /// The process dies with its database open; another one starts on the same disk.
    async fn node_crashes(&mut self, at: usize, actor: Actor) {
        drop(actor);
        self.node_ends(at).await;
    }

    async fn node_ends(&mut self, at: usize) {
        let node = &self.nodes[at];
        self.world.dies(node).await;
        let (name, disk) = (node.name.to_string(), node.databases.clone());
        self.nodes[at] = self.world.node_with(&name, disk).await;
    }
}

async fn run(seed: u64) -> Result<Counts, String> {
    let mut run = Run::new(seed).await;
    run.go(30).await?;
    Ok(run.counts)
}

#[tokio::test(start_paused = true)]
async fn whatever_lands_late_no_acknowledged_row_is_lost() {
    let mut all = Counts::default();
    for seed in 0..SEEDS {
        let counts = run(seed).await.unwrap_or_else(|lost| panic!("seed {seed}: {lost}"));
        all.holds += counts.holds;
        all.acknowledged += counts.acknowledged;
        all.refused += counts.refused;
    }
    assert!(
        all.holds > 8 * SEEDS && all.acknowledged > 8 * SEEDS && all.refused > SEEDS,
        "{all:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rule_left_out_loses_some() {
    for twin in [Twin::FastPathAfterUnknown, Twin::TrustsFileAfterCrash] {
        let _twin = leave_out(twin);
        let mut failed = None;
        for seed in 0..100 {
            if run(seed).await.is_err() {
                failed = Some(seed);
                break;
            }
        }
        assert!(failed.is_some(), "{twin:?} was not noticed");
    }
}
