//! The supervision tree and its one door: `Tree::start`, `deliver`, `stop`.
//!
//! Promises: a failure of one actor reaches nobody else; an event that `deliver` refuses with
//! `not-run` has not run; out of restarts, `given_up` says so and the node stops. The drawing of
//! the tree, and what each exit means, is in `supervisors/README.md`.

mod class_supervisor;
mod directory;
mod dispatcher;
mod elsewhere;
mod from_peers;
mod lapses;
mod restart;
mod root_supervisor;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor as _, ActorRef};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::access::Access;
use crate::actor::inspection::Inspection;
use crate::actor::mailbox::ActorMessage;
use crate::actor::process::ClassRuntime;
use crate::actor::scope::ScopePorts;
use crate::actor::{InspectError, Inspected, QueueLength, Residents, Served, Standing};
use crate::address::{Address, Class, NodeId, Tenant};
use crate::alarm::{Bell, TimerParts};
use crate::call::CallPorts;
use crate::event::{Caller, Event, OpenRequest, Reason, Refusal, Reply, ReplyFrom};
use crate::front::{Front, FrontConfig, FrontSpec};
use crate::lease::{Load, Validity};
use crate::limits::{
    ALARMS_AT_ONCE, SOCKET_CLOSES_AT_ONCE, SOCKET_STOP_WAIT, TAKEOVER_LOOK_AGAIN, TAKEOVER_WAIT,
};
use crate::metrics::Metrics;
use crate::node::Peers;
use crate::ports::{Clock, Database, Databases, Deliver, Guest, PeerLink};
use crate::replica::Replicas;
use crate::socket::{Line, Opened, Sockets, SocketsParts};
use crate::tap::{Listener, Tap};
use crate::values::Values;
use directory::Directory;
use dispatcher::Dispatcher;
use elsewhere::{Elsewhere, NotOpened};
pub use from_peers::PeersOfTree;
use lapses::LapsesParts;
use root_supervisor::{RootSupervisor, StartChild};

/// How often a stop looks whether the last actor has left memory.
const STOP_POLL: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeConfig {
    pub tenant: Tenant,
    pub instances_max: usize,
    pub idle_timeout: Duration,
    pub wall_budget: Duration,
}

/// One class as it is served.
pub struct ClassSpec {
    pub guest: Arc<dyn Guest>,
    pub access: Access,
    pub values: Values,
}

/// What the processes use of the world.
#[derive(Clone)]
pub struct TreePorts {
    pub databases: Arc<dyn Databases>,
    pub clock: Arc<dyn Clock>,
    /// None on a node of its own.
    pub cluster: Option<ClusterPorts>,
}

/// What a node of a cluster has beside: the right to act, the bucket, and the other nodes.
#[derive(Clone)]
pub struct ClusterPorts {
    pub validity: Arc<Validity>,
    pub replicas: Arc<Replicas>,
    pub peers: Arc<Peers>,
    pub link: Arc<dyn PeerLink>,
}

/// A running supervision tree.
pub struct Tree {
    root: ActorRef<StartChild>,
    classes: HashMap<Class, Arc<ClassRuntime>>,
    calls: Arc<CallPorts>,
    dispatcher: Arc<Dispatcher>,
    residents: Arc<Residents>,
    bell: Arc<Bell>,
    sockets: Arc<Sockets>,
    replicas: Option<Arc<Replicas>>,
    idle_timeout: Duration,
    given_up: watch::Receiver<bool>,
}

impl Tree {
    /// Starts the processes of `classes` on the current runtime. Alarms wait for `begin_alarms`.
    pub async fn start(
        classes: HashMap<Class, ClassSpec>,
        ports: TreePorts,
        metrics: Arc<Metrics>,
        config: TreeConfig,
    ) -> Result<Self, ractor::SpawnErr> {
        let residents = Residents::new(config.instances_max, Arc::clone(&metrics));
        let directory = Arc::new(Directory::default());
        let bell = Arc::new(Bell::default());
        let tap = Tap::new(Arc::clone(&ports.clock), Arc::clone(&metrics));
        let dispatcher = Arc::new(Dispatcher {
            access: classes
                .iter()
                .map(|(class, spec)| (class.clone(), spec.access.clone()))
                .collect(),
            directory: Arc::clone(&directory),
            residents: Arc::clone(&residents),
            databases: Arc::clone(&ports.databases),
            metrics: Arc::clone(&metrics),
            tap: Arc::clone(&tap),
            wall_budget: config.wall_budget,
            elsewhere: ports.cluster.as_ref().map(|cluster| {
                let (link, peers) = (Arc::clone(&cluster.link), Arc::clone(&cluster.peers));
                Elsewhere::new(link, peers, Arc::clone(&ports.databases))
            }),
        });
        let deliver: Arc<dyn Deliver> = Arc::clone(&dispatcher) as _;
        let timer = TimerParts {
            databases: Arc::clone(&ports.databases),
            deliver: Arc::clone(&deliver),
            clock: Arc::clone(&ports.clock),
            bell: Arc::clone(&bell),
            classes: classes.keys().map(|class| (config.tenant.clone(), class.clone())).collect(),
            at_once: ALARMS_AT_ONCE.min(config.instances_max.div_ceil(4)).max(1),
            most: config.instances_max.div_ceil(2).max(1),
            metrics: Arc::clone(&metrics),
        };
        let sockets = Sockets::new(
            Arc::clone(&deliver),
            Arc::clone(&ports.clock),
            Arc::clone(&metrics),
            config.wall_budget,
        );
        let calls =
            Arc::new(CallPorts { deliver, metrics: Arc::clone(&metrics), tap: Arc::clone(&tap) });
        let class_runtime = |(class, spec): (Class, ClassSpec)| {
            let scope = ScopePorts {
                databases: Arc::clone(&ports.databases),
                calls: Arc::clone(&calls),
                clock: Arc::clone(&ports.clock),
                bell: Arc::clone(&bell),
                values: Arc::new(spec.values),
                metrics: Arc::clone(&metrics),
                tap: Arc::clone(&tap),
                sockets: Arc::clone(&sockets),
                sockets_end_with_actor: spec.access != Access::Open,
                wall_budget: config.wall_budget,
                replicas: ports.cluster.as_ref().map(|cluster| Arc::clone(&cluster.replicas)),
            };
            let runtime = ClassRuntime {
                guest: watch::Sender::new(spec.guest),
                access: spec.access,
                scope: Arc::new(scope),
                residents: Arc::clone(&residents),
                metrics: Arc::clone(&metrics),
                counters: metrics.class(&class),
                idle_timeout: config.idle_timeout,
            };
            (class, Arc::new(runtime))
        };
        let classes: HashMap<_, _> = classes.into_iter().map(class_runtime).collect();
        let (given_up_sender, given_up) = watch::channel(false);
        let supervisor = RootSupervisor {
            directory,
            classes: classes.clone(),
            timer: Arc::new(timer),
            sockets: Arc::new(SocketsParts {
                sockets: Arc::clone(&sockets),
                at_once: SOCKET_CLOSES_AT_ONCE.min(config.instances_max.div_ceil(4)),
                handed: Arc::default(),
            }),
            lapses: ports.cluster.as_ref().map(|cluster| {
                Arc::new(LapsesParts {
                    validity: Arc::clone(&cluster.validity),
                    residents: Arc::clone(&residents),
                    sockets: Arc::clone(&sockets),
                })
            }),
            replicas: ports.cluster.as_ref().map(|cluster| Arc::clone(&cluster.replicas)),
            residents: Arc::clone(&residents),
            metrics: Arc::clone(&metrics),
            given_up: given_up_sender,
        };
        let (root, _joined) = RootSupervisor::spawn(None, supervisor, ()).await?;
        let idle_timeout = config.idle_timeout;
        Ok(Self {
            root,
            classes,
            calls,
            dispatcher,
            residents,
            bell,
            sockets,
            replicas: ports.cluster.map(|cluster| cluster.replicas),
            idle_timeout,
            given_up,
        })
    }

    /// A front before this tree's actors. Its requests run on the current runtime.
    pub fn front(&self, spec: FrontSpec, config: FrontConfig) -> Front {
        Front::new(spec, Arc::clone(&self.calls), config)
    }

    /// Delivers an event and returns the head of its answer. A caller that stops polling leaves:
    /// the event is then not run, unless it has started or its body is still arriving.
    pub fn deliver(
        &self,
        event: Event,
        reply: ReplyFrom,
    ) -> impl Future<Output = Result<Reply, Refusal>> + Send + '_ {
        self.dispatcher.deliver(Box::new(event), reply)
    }

    /// Asks an actor whether it takes a WebSocket; an error when it was not asked, or failed. Like
    /// `deliver`: who stops polling leaves.
    pub async fn open_socket(
        &self,
        address: &Address,
        request: OpenRequest,
        caller: Caller,
    ) -> Result<Opened, Refusal> {
        let opened = match &self.dispatcher.elsewhere {
            None => self.open_socket_here(address, request, caller).await,
            Some(elsewhere) => self.open_anywhere(elsewhere, address, request, caller).await,
        };
        if let Err(refusal) = &opened
            && refusal.reason == Reason::TooManySockets
        {
            self.dispatcher.metrics.refused(refusal.reason);
        }
        opened
    }

    async fn open_socket_here(
        &self,
        address: &Address,
        request: OpenRequest,
        caller: Caller,
    ) -> Result<Opened, Refusal> {
        Line::open(&self.sockets, address, request, caller).await
    }

    /// Where the actor is. An upgrade is held until a dead node's actors have moved.
    async fn open_anywhere(
        &self,
        elsewhere: &Elsewhere,
        address: &Address,
        request: OpenRequest,
        caller: Caller,
    ) -> Result<Opened, Refusal> {
        let until = Instant::now() + TAKEOVER_WAIT;
        loop {
            if elsewhere.learned(address).is_none() {
                let opened = self.open_socket_here(address, request.clone(), caller.clone()).await;
                match opened {
                    Err(refusal) if self.owner_elsewhere(address, &refusal).is_some() => {}
                    opened => return opened,
                }
            }
            let Some(owner) = elsewhere.learned(address) else { continue };
            let asked = (request.clone(), caller.clone());
            let refusal = match elsewhere.open_socket(owner, address, asked).await {
                Ok(opened) => return Ok(opened),
                Err(NotOpened::Refused(refusal)) => return Err(refusal),
                Err(NotOpened::NotReached(refusal)) => refusal,
            };
            if Instant::now() >= until {
                return Err(refusal);
            }
            sleep(TAKEOVER_LOOK_AGAIN).await;
        }
    }

    /// The node that has the actor, if a refusal says that this one has not.
    fn owner_elsewhere(&self, address: &Address, refusal: &Refusal) -> Option<NodeId> {
        let elsewhere = self.dispatcher.elsewhere.as_ref()?;
        (refusal.reason == Reason::OwnerUnreachable).then(|| elsewhere.learned(address))?
    }

    #[cfg(test)]
    pub(crate) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Has an operator read an actor's database, between two of its events. Makes the actor
    /// resident, runs none of its code, and makes no database. Waits for the event that runs now;
    /// who stops polling leaves, and a statement that runs then is ended.
    pub async fn inspect<T: Send + 'static>(
        &self,
        address: &Address,
        read: impl FnOnce(&mut dyn Database) -> T + Send + 'static,
    ) -> Inspected<T> {
        let (inspection, inspector) = Inspection::new(read);
        self.dispatcher.inspect(address, inspection).await.map_err(InspectError::Refused)?;
        inspector.answer().await
    }

    /// What the processes know of an actor, without asking it.
    pub fn standing(&self, address: &Address) -> Standing {
        let served = self.classes.get(&address.class).map(|class| Served {
            component: class.guest.borrow().component().to_owned(),
            access: class.access.clone(),
        });
        let queue = self.residents.find(address).map(|mailbox| QueueLength {
            waiting: mailbox.shared.gate.waiting(),
            is_running: mailbox.shared.gate.is_running(),
        });
        Standing {
            served,
            queue,
            sockets: self.sockets.count_of(address),
            quarantined: self.residents.quarantined_for(address),
            node_is_stopping: self.residents.is_stopping(),
        }
    }

    /// Follows what happens from now on.
    pub fn listen(&self) -> Listener {
        self.calls.tap.listen()
    }

    /// Serves another version of a class from now on: each actor goes over to it with its next
    /// event, and runs `on-init` before that. Data and WebSockets stay. False when the class is not
    /// served.
    pub fn replace(&self, class: &Class, guest: Arc<dyn Guest>) -> bool {
        self.classes.get(class).is_some_and(|runtime| {
            runtime.guest.send_replace(guest);
            true
        })
    }

    /// The WebSockets that an actor has, those being opened among them.
    pub fn sockets_of(&self, address: &Address) -> usize {
        self.sockets.count_of(address)
    }

    /// How much of what this node may take it has, as other nodes are told.
    pub fn load(&self) -> Load {
        let gauge = |value: i64| u64::try_from(value).unwrap_or_default();
        let metrics = &self.dispatcher.metrics;
        let resident = gauge(metrics.residents.get());
        Load {
            resident,
            capacity: resident + self.residents.free_seats() as u64,
            sockets: gauge(metrics.sockets.get()),
        }
    }

    pub fn is_resident(&self, address: &Address) -> bool {
        self.residents.find(address).is_some()
    }

    pub fn serves(&self, class: &Class) -> bool {
        self.classes.contains_key(class)
    }

    /// The node takes traffic: due alarms run from now on.
    pub fn begin_alarms(&self) {
        self.bell.open();
    }

    /// Has an actor leave memory, and returns once it has. False when it is not idle.
    pub async fn hibernate(&self, address: &Address) -> bool {
        let Some(mailbox) = self.residents.find(address) else { return true };
        if !mailbox.shared.gate.close_if_idle() {
            return false;
        }
        let _ = mailbox.process.send_message(ActorMessage::Hibernate);
        mailbox.shared.gone().await;
        true
    }

    /// The wall clock was moved by so much: alarms that are due now run, and actors that would have
    /// been idle for long enough leave memory. For clocks of tests; an ordinary one may move too,
    /// and is looked at once in a while.
    pub async fn clock_moved(&self, by: Duration) {
        self.bell.look();
        if by < self.idle_timeout {
            return;
        }
        for mailbox in self.residents.all() {
            self.hibernate(&mailbox.shared.address).await;
        }
    }

    /// True once the tree has given up restarting: the node must stop.
    pub fn given_up(&self) -> watch::Receiver<bool> {
        self.given_up.clone()
    }

    /// Stops admitting events, lets queued ones run for `grace`, refuses the rest, and closes
    /// every database and every socket. Events still running at the end of a second grace are cut off.
    pub async fn stop(&self, grace: Duration) {
        for mailbox in self.residents.stop() {
            let _ = mailbox.process.send_message(ActorMessage::Close);
        }
        if !self.empty_within(grace).await {
            self.residents.end_grace();
            if !self.empty_within(grace).await {
                for mailbox in self.residents.all() {
                    tracing::warn!(actor = %mailbox.shared.address, "cut off by the stop");
                    mailbox.process.kill();
                }
            }
        }
        // Last: what queued events sent still leaves.
        self.sockets.stop(SOCKET_STOP_WAIT).await;
        self.release_parked().await;
        let _ = self.root.stop_and_wait(None, Some(grace)).await;
    }

    /// The holds of actors that left memory with sockets, which have none any more.
    async fn release_parked(&self) {
        let Some(replicas) = &self.replicas else { return };
        let mut releases = JoinSet::new();
        for held in replicas.unpark_all() {
            releases.spawn(held.leave(None, None));
        }
        releases.join_all().await;
    }

    async fn empty_within(&self, grace: Duration) -> bool {
        let emptied = timeout(grace, async {
            while !self.residents.is_empty() {
                sleep(STOP_POLL).await;
            }
        });
        emptied.await.is_ok()
    }
}
