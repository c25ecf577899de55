//! A tree over the ports of this module.

use std::sync::Arc;

use super::{ManualClock, MemoryDatabases, ScriptedGuest};
use crate::access::Access;
use crate::address::{Class, Tenant};
use crate::limits::{IDLE_TIMEOUT, WALL_BUDGET};
use crate::metrics::Metrics;
use crate::tree::{ClassSpec, Tree, TreeConfig, TreePorts};
use crate::values::Values;

/// What a tree is started with.
pub struct TreeSetup {
    pub classes: Vec<(Class, ScriptedGuest, Access)>,
    pub databases: MemoryDatabases,
    pub clock: ManualClock,
    pub metrics: Arc<Metrics>,
    pub config: TreeConfig,
}

impl TreeSetup {
    pub fn new() -> Self {
        Self {
            classes: Vec::new(),
            databases: MemoryDatabases::new(),
            clock: ManualClock::new(1_000_000),
            metrics: Arc::new(Metrics::new().expect("a registry of its own")),
            config: TreeConfig {
                tenant: Tenant::default_tenant(),
                instances_max: 100,
                idle_timeout: IDLE_TIMEOUT,
                wall_budget: WALL_BUDGET,
            },
        }
    }

    pub fn class(self, class: &str, guest: &ScriptedGuest) -> Self {
        self.class_with(class, guest, Access::Open)
    }

    pub fn class_with(mut self, class: &str, guest: &ScriptedGuest, access: Access) -> Self {
        let class = Class::parse(class).expect("a legal class");
        self.classes.push((class, guest.clone(), access));
        self
    }

    pub async fn start(&self) -> Tree {
        let classes = self.classes.iter().cloned().map(|(class, guest, access)| {
            let values = Values::from_iter([("CLASS".to_owned(), class.to_string())]);
            (class, ClassSpec { guest: Arc::new(guest), access, values })
        });
        let ports = TreePorts {
            databases: Arc::new(self.databases.clone()),
            clock: Arc::new(self.clock.clone()),
            cluster: None,
        };
        let metrics = Arc::clone(&self.metrics);
        let tree = Tree::start(classes.collect(), ports, metrics, self.config.clone());
        tree.await.expect("its processes start")
    }
}

impl Default for TreeSetup {
    fn default() -> Self {
        Self::new()
    }
}
