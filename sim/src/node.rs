//! One node, made of the real parts, on its machine's clock and disk and its way to the bucket.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use wasmkeep_supervisors::address::{Address, App, NodeId};
use wasmkeep_supervisors::lease::{
    Ended, LeaseKeeper, LeaseParts, Load, Order, Session, Told, Validity, lease_key,
};
use wasmkeep_supervisors::node::{Peers, PeersParts};
use wasmkeep_supervisors::ownership::{Owners, OwnersParts};
use wasmkeep_supervisors::ports::{Bucket, Clock, Random, Steady};
use wasmkeep_supervisors::replica::{ReplicaParts, ReplicaSupervisor, Replicas};
use wasmkeep_supervisors::testing::SeededRandom;

use crate::bucket::NodeBucket;
use crate::clock::{MachineClock, NodeClock, WallClock};
use crate::database::TokenDatabase;
use crate::dice::Dice;
use crate::disk::{Disk, NodeFiles};
use crate::gate::Gate;
use crate::shared::Shared;

/// What outlives a node.
pub struct Machine {
    pub number: usize,
    pub node: NodeId,
    pub clock: MachineClock,
    pub disk: Mutex<Arc<Disk>>,
    skew: Duration,
}

impl Machine {
    /// Machines of one number beyond the first ones share their names.
    pub fn new(number: usize, named: usize, dice: &Dice) -> Self {
        let shown = dice.seconds(1_000.0, 1_000_000.0);
        Self {
            number,
            node: NodeId::parse(&format!("n{named}")).expect("a legal name"),
            clock: MachineClock::new(dice.between(0.85, 1.2), shown),
            disk: Mutex::default(),
            skew: dice.seconds(0.0, 100_000.0),
        }
    }

    pub fn disk(&self) -> Arc<Disk> {
        Arc::clone(&self.disk.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a node's lease ended, told to whoever starts nodes again.
pub struct EndOfNode {
    pub machine: usize,
    pub session: Option<Session>,
    pub ended: Ended,
}

/// A node from its start to its end. Its tasks are its only life: aborted, it is gone.
pub struct Node {
    pub machine: Arc<Machine>,
    pub shared: Arc<Shared>,
    /// Unlike every other node's.
    pub number: u64,
    pub gate: Gate,
    pub clock: Arc<dyn Steady>,
    pub dice: Dice,
    pub peers: Arc<Peers>,
    pub owners: Arc<Owners>,
    pub replicas: Arc<Replicas>,
    validity: Arc<Validity>,
    disk: Arc<Disk>,
    orders: watch::Sender<Order>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// Of each node those ports that it has everywhere.
struct Ports {
    bucket: Arc<dyn Bucket>,
    clock: Arc<dyn Steady>,
    random: Arc<dyn Random>,
    validity: Arc<Validity>,
}

impl Node {
    pub fn start(
        shared: &Arc<Shared>,
        machine: &Arc<Machine>,
        ends: mpsc::UnboundedSender<EndOfNode>,
    ) -> Arc<Self> {
        let dice = shared.dice.fork();
        let gate = Gate::new(dice.fork());
        let clock: Arc<dyn Steady> =
            Arc::new(NodeClock { machine: machine.clock.clone(), gate: gate.clone() });
        let validity = Validity::new(Arc::clone(&clock));
        let term = Arc::clone(&validity);
        let bucket = NodeBucket {
            store: Arc::clone(&shared.store),
            fates: shared.fates.clone(),
            gate: gate.clone(),
            clock: machine.clock.clone(),
            machine: machine.number,
            own_lease: lease_key(&machine.node),
            may_write: Box::new(move || term.term().is_some()),
        };
        let random = Arc::new(SeededRandom::new(dice.next()));
        let ports = Ports { bucket: Arc::new(bucket), clock, random, validity };
        let disk = machine.disk();
        let (orders, ordered) = watch::channel(Order::Serve);
        let peers = Arc::new(Peers::new(ports.peers(machine)));
        let owners = Arc::new(Owners::new(ports.owners(machine, &peers)));
        let files = NodeFiles { disk: Arc::clone(&disk), gate: gate.clone() };
        let wall = WallClock { began: shared.began, skew: machine.skew };
        let replicas = Replicas::new(ports.replicas(shared, &owners, (files, wall)));
        let node = Arc::new(Self {
            machine: Arc::clone(machine),
            shared: Arc::clone(shared),
            number: dice.next(),
            gate,
            clock: Arc::clone(&ports.clock),
            dice,
            peers,
            owners,
            replicas,
            validity: Arc::clone(&ports.validity),
            disk,
            orders,
            tasks: Mutex::default(),
        });
        node.keep_lease(&ports, ordered, ends);
        let peers = Arc::clone(&node.peers);
        node.spawn(async move { peers.watch().await });
        let replicas = Arc::clone(&node.replicas);
        node.spawn(async move {
            ReplicaSupervisor::start(replicas).await.expect("it has no start to fail in");
        });
        node
    }

    fn keep_lease(
        self: &Arc<Self>,
        ports: &Ports,
        ordered: watch::Receiver<Order>,
        ends: mpsc::UnboundedSender<EndOfNode>,
    ) {
        let last: Arc<Mutex<Option<Session>>> = Arc::default();
        let (disk, gate, begun) = (Arc::clone(&self.disk), self.gate.clone(), Arc::clone(&last));
        let remember = move |session| {
            *begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
            if !gate.is_dead() {
                disk.remember(session);
            }
        };
        let keeper = LeaseKeeper::new(LeaseParts {
            bucket: Arc::clone(&ports.bucket),
            clock: Arc::clone(&ports.clock),
            random: Arc::clone(&ports.random),
            validity: Arc::clone(&ports.validity),
            node: self.machine.node.clone(),
            told: Told {
                address: format!("machine-{}:1", self.machine.number),
                key: [self.machine.number as u8; 32],
                serves: Vec::new(),
                version: "0".into(),
                features: Vec::new(),
            },
            last_session: self.disk.last_session(),
            remember: Arc::new(remember),
            load: Arc::new(Load::default),
        });
        let machine = self.machine.number;
        self.spawn(async move {
            let ended = keeper.run(ordered).await;
            let session = *last.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ends.send(EndOfNode { machine, session, ended });
        });
    }

    /// A task that is of this node, and gone with it.
    pub fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let running = tokio::spawn(task);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(running.abort_handle());
        let (shared, machine) = (Arc::clone(&self.shared), self.machine.number);
        tokio::spawn(async move {
            if running.await.is_err_and(|error| error.is_panic()) {
                shared.checker.breaks(format!("a task of machine {machine} panicked"));
            }
        });
    }

    pub fn is_live(&self) -> bool {
        !self.gate.is_dead() && self.validity.term().is_some()
    }

    pub fn order(&self, order: Order) {
        self.orders.send_replace(order);
    }

    pub fn ordered(&self) -> Order {
        *self.orders.borrow()
    }

    pub fn open(&self, address: &Address) -> TokenDatabase {
        TokenDatabase::open(&self.disk, address, &self.gate)
    }

    /// All it had in memory is gone, and nothing it started goes on.
    pub fn crash(&self) {
        self.gate.close_for_good();
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

impl Ports {
    fn peers(&self, machine: &Machine) -> PeersParts {
        PeersParts {
            bucket: Arc::clone(&self.bucket),
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            validity: Arc::clone(&self.validity),
            node: machine.node.clone(),
        }
    }

    fn owners(&self, machine: &Machine, peers: &Arc<Peers>) -> OwnersParts {
        OwnersParts {
            bucket: Arc::clone(&self.bucket),
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            validity: Arc::clone(&self.validity),
            peers: Arc::clone(peers),
            node: machine.node.clone(),
            app: App::default_app(),
        }
    }

    fn replicas(
        &self,
        shared: &Shared,
        owners: &Arc<Owners>,
        (files, wall): (NodeFiles, WallClock),
    ) -> ReplicaParts {
        let wall: Arc<dyn Clock> = Arc::new(wall);
        ReplicaParts {
            bucket: Arc::clone(&self.bucket),
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            owners: Arc::clone(owners),
            files: Arc::new(files),
            wall,
            metrics: Arc::clone(&shared.metrics),
            retention: Duration::from_secs(if shared.mood.retains { 30 } else { 0 }),
        }
    }
}
