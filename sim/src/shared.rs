//! What all machines of one run share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus::proto::Metric;
use tokio::time::Instant;
use wasmkeep_supervisors::address::{ActorName, Address, App, Class, Tenant};
use wasmkeep_supervisors::metrics::Metrics;

use crate::bucket::Store;
use crate::checker::Checker;
use crate::dice::Dice;
use crate::fate::{Fates, Mood};
use crate::trace::Trace;

pub struct Shared {
    pub began: Instant,
    pub actors: Vec<Address>,
    pub mood: Mood,
    pub dice: Dice,
    pub trace: Arc<Trace>,
    pub checker: Arc<Checker>,
    pub store: Arc<Store>,
    pub fates: Fates,
    pub metrics: Arc<Metrics>,
    is_quiet: AtomicBool,
}

impl Shared {
    /// For so many machines and actors.
    pub fn new(
        dice: Dice,
        mood: Mood,
        (machines, actors): (usize, usize),
        keeps_trace: bool,
    ) -> Self {
        let trace = Arc::new(Trace::new(keeps_trace));
        let actors: Vec<Address> = (0..actors).map(address).collect();
        let checker = Checker::new(&actors, &App::default_app(), Arc::clone(&trace));
        let store = Store::new(Arc::clone(&checker), Arc::clone(&trace));
        let fates = Fates::new(dice.fork(), mood, machines);
        let (began, is_quiet) = (Instant::now(), AtomicBool::new(false));
        let metrics = Arc::new(Metrics::new().expect("names of metrics are legal"));
        Self { began, actors, mood, dice, trace, checker, store, fates, metrics, is_quiet }
    }

    /// Nothing goes wrong any more.
    pub fn quiet_begins(&self) {
        self.is_quiet.store(true, Ordering::Relaxed);
        self.fates.heal();
    }

    /// Holds that cost one write: nobody had held since the node's own release.
    pub fn unlisted_holds(&self) -> u64 {
        let families = self.metrics.registry.gather();
        let holds = families.iter().filter(|family| family.name() == "wasmkeep_holds_total");
        let all = holds.flat_map(|family| family.get_metric());
        let is_one = |of: &&Metric| of.get_label().iter().any(|label| label.value() == "unchanged");
        all.filter(is_one).map(|of| of.get_counter().get_value() as u64).sum()
    }

    pub fn is_quiet(&self) -> bool {
        self.is_quiet.load(Ordering::Relaxed)
    }
}

fn address(number: usize) -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("cart").expect("a legal class"),
        name: ActorName::parse(&format!("u-{number}")).expect("a legal name"),
    }
}
