//! What a node of a cluster has beside what one of its own has: the bucket, the lease, the other nodes,
//! and the port they come in by.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use thiserror::Error;
use tokio::runtime::Handle;
use wasmkeep_supervisors::address::{App, Class, NodeId, Tenant};
use wasmkeep_supervisors::lease::{
    Ended, LeaseKeeper, LeaseParts, LeaseView, Load, Phase, Serves, Session, Told, Validity,
    lease_key,
};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::node::{Peer, Peers, PeersParts};
use wasmkeep_supervisors::ownership::{Owners, OwnersParts};
use wasmkeep_supervisors::ports::{Bucket, Clock, PeerAt, PeerLink, Steady, Wait};
use wasmkeep_supervisors::replica::{ReplicaParts, Replicas};
use wasmkeep_supervisors::tree::{ClusterPorts, PeersOfTree, Tree};

use super::boot_clock::BootClock;
use super::lease_thread::LeaseThread;
use crate::bucket::{FolderBucket, ProbeError, S3Bucket, SystemRandom, explain, probe};
use crate::config::{ClusterSettings, SharedBucket};
use crate::database::{DataDir, LocalDatabases};
use crate::edge::{ClusterPort, ClusterSpec};
use crate::identity::Identity;
use crate::peer_link::PeerLinks;

/// How long a node that has started looks for others to greet.
const GREET_LOOKS: u32 = 30;
const GREET_LOOK: Duration = Duration::from_millis(100);

/// How often a node that waits for its lease says why.
const SAY_WHY_EVERY: Duration = Duration::from_secs(5);

/// The bucket does not keep the promises that actors rest on.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UnfitBucket(String);

/// What joining a cluster stands on.
pub struct Joining<'a> {
    pub settings: &'a ClusterSettings,
    pub data_dir: Arc<DataDir>,
    pub databases: Arc<LocalDatabases>,
    pub metrics: Arc<Metrics>,
    pub wall: Arc<dyn Clock>,
    pub app: App,
}

/// A node's part of a cluster, before it has a lease.
pub struct Member {
    settings: ClusterSettings,
    data_dir: Arc<DataDir>,
    metrics: Arc<Metrics>,
    bucket: Arc<dyn Bucket>,
    /// With connections of its own: the lease's are never behind an upload.
    lease_bucket: Arc<dyn Bucket>,
    identity: Arc<Identity>,
    link: Arc<PeerLinks>,
    app: App,
    ports: ClusterPorts,
    validity: Arc<Validity>,
}

/// A node that has its lease and answers the others.
pub struct Joined {
    lease: LeaseThread,
    port: ClusterPort,
    is_leaving: Arc<AtomicBool>,
    /// The keeper has ended by itself.
    is_lost: bool,
}

/// The bucket as the node has it, and as its lease does.
struct Buckets {
    bucket: Arc<dyn Bucket>,
    lease_bucket: Arc<dyn Bucket>,
}

impl Buckets {
    /// Tries a store out. Of a folder it is known what it does.
    async fn open(settings: &SharedBucket, metrics: &Arc<Metrics>) -> Result<Self> {
        let settings = match settings {
            SharedBucket::S3(settings) => settings,
            SharedBucket::Folder(path) => {
                let open = || anyhow::Ok(Arc::new(FolderBucket::open(path)?));
                return Ok(Self { bucket: open()?, lease_bucket: open()? });
            }
        };
        let bucket = S3Bucket::new(settings, Arc::clone(metrics))?;
        let probed = match probe(&bucket, &SystemRandom).await {
            Ok(probed) => probed,
            Err(error @ ProbeError::Violated(_)) => {
                return Err(UnfitBucket(explain(settings, &error)).into());
            }
            Err(error) => bail!("{}", explain(settings, &error)),
        };
        let lease_bucket = S3Bucket::new(settings, Arc::clone(metrics))?;
        Ok(Self {
            bucket: Arc::new(bucket.with_form(probed.form)),
            lease_bucket: Arc::new(lease_bucket.with_form(probed.form)),
        })
    }
}

impl Member {
    /// Tries the bucket out, and makes what the tree needs. Nothing of this node is in the bucket yet.
    pub async fn prepare(joining: Joining<'_>) -> Result<Self> {
        let Joining { settings, data_dir, databases, metrics, wall, app } = joining;
        let Buckets { bucket, lease_bucket } = Buckets::open(&settings.bucket, &metrics).await?;
        let identity = Arc::new(Identity::draw()?);
        let clock: Arc<dyn Steady> = Arc::new(BootClock);
        let validity = Validity::new(Arc::clone(&clock));
        let peers = Arc::new(Peers::new(PeersParts {
            bucket: Arc::clone(&bucket),
            clock: Arc::clone(&clock),
            random: Arc::new(SystemRandom),
            validity: Arc::clone(&validity),
            node: settings.node.clone(),
        }));
        let owners = Arc::new(Owners::new(OwnersParts {
            bucket: Arc::clone(&bucket),
            clock: Arc::clone(&clock),
            random: Arc::new(SystemRandom),
            validity: Arc::clone(&validity),
            peers: Arc::clone(&peers),
            node: settings.node.clone(),
            app: app.clone(),
        }));
        let replicas = Replicas::new(ReplicaParts {
            bucket: Arc::clone(&bucket),
            clock,
            random: Arc::new(SystemRandom),
            owners,
            files: databases,
            wall,
            metrics: Arc::clone(&metrics),
            retention: Duration::ZERO,
        });
        let link = PeerLinks::new(Arc::clone(&identity), Arc::clone(&metrics));
        let ports = ClusterPorts {
            validity: Arc::clone(&validity),
            replicas,
            peers,
            link: Arc::clone(&link) as _,
        };
        Ok(Self {
            settings: settings.clone(),
            data_dir,
            metrics,
            bucket,
            lease_bucket,
            identity,
            link,
            app,
            ports,
            validity,
        })
    }

    pub fn ports(&self) -> ClusterPorts {
        self.ports.clone()
    }

    /// Listens for the other nodes, and gets the lease: from then on this node may act. Waits for as
    /// long as another process acts under its name.
    pub fn join(
        self,
        runtime: &Handle,
        tree: &Arc<Tree>,
        (tenant, classes): (&Tenant, Vec<Class>),
        workers: usize,
    ) -> Result<Joined> {
        let peers = Arc::clone(&self.ports.peers);
        let port = ClusterPort::start(
            self.settings.listen,
            workers,
            ClusterSpec {
                tls: self.identity.of_peers()?,
                node: Arc::new(PeersOfTree { tree: Arc::clone(tree), peers: Arc::clone(&peers) }),
                metrics: Arc::clone(&self.metrics),
            },
        )?;
        let serves = Serves { tenant: tenant.clone(), app: self.app.clone(), classes };
        let keeper = self.keeper(port.address(), serves, tree)?;
        let lease = LeaseThread::start(keeper)?;
        runtime.spawn({
            let peers = Arc::clone(&peers);
            async move { peers.watch().await }
        });
        runtime.block_on(until_live(&lease, &self.settings.node))?;
        tracing::info!(node = %self.settings.node, cluster = %port.address(), "joined the cluster");
        runtime.spawn(self.greets());
        Ok(Joined { lease, port, is_leaving: Arc::default(), is_lost: false })
    }

    /// Tells the others that this node has started: they look at its lease at once.
    fn greets(&self) -> impl Future<Output = ()> + Send + use<> {
        let (link, peers) = (Arc::clone(&self.link), Arc::clone(&self.ports.peers));
        let (bucket, key) = (self.bucket.clone(), lease_key(&self.settings.node));
        async move {
            let lease = match bucket.get(&key, Wait::Lease).await {
                Ok(lease) => lease.body,
                Err(error) => return tracing::debug!(%error, "own lease not read"),
            };
            // Nodes that start together find one another by what they send.
            link.says(lease.clone());
            // Its own first look at the others goes on meanwhile.
            for _ in 0..GREET_LOOKS {
                if !peers.all().is_empty() {
                    break;
                }
                tokio::time::sleep(GREET_LOOK).await;
            }
            for peer in peers.all().into_iter().filter(Peer::is_live) {
                let to = PeerAt { node: peer.node, address: peer.address, key: peer.key };
                let name = to.node.clone();
                if let Err(error) = PeerLink::hello(&*link, to, lease.clone()).await {
                    tracing::debug!(peer = %name, %error, "hello not heard");
                }
            }
        }
    }

    fn keeper(&self, listens: SocketAddr, serves: Serves, tree: &Arc<Tree>) -> Result<LeaseKeeper> {
        let advertised = self.settings.advertise.as_ref();
        let address = advertised.map_or_else(|| listens.to_string(), ToString::to_string);
        let last_session = self.data_dir.last_session().context("read the last session")?;
        let (data_dir, tree) = (Arc::clone(&self.data_dir), Arc::clone(tree));
        let remember = move |session: Session| {
            if let Err(error) = data_dir.remember_session(session) {
                tracing::warn!(%error, "session not kept: the next start waits for the lease");
            }
        };
        let load = move || -> Load { tree.load() };
        Ok(LeaseKeeper::new(LeaseParts {
            bucket: Arc::clone(&self.lease_bucket),
            clock: Arc::new(BootClock),
            random: Arc::new(SystemRandom),
            validity: Arc::clone(&self.validity),
            node: self.settings.node.clone(),
            told: Told {
                address,
                key: self.identity.key(),
                serves: vec![serves],
                version: env!("CARGO_PKG_VERSION").to_owned(),
                features: Vec::new(),
            },
            last_session,
            remember: Arc::new(remember),
            load: Arc::new(load),
        }))
    }
}

impl Joined {
    /// Keeps `ready` true while the node may act.
    pub fn follow(&self, runtime: &Handle, ready: &Arc<AtomicBool>) {
        let (mut view, ready) = (self.lease.view(), Arc::clone(ready));
        let is_leaving = Arc::clone(&self.is_leaving);
        ready.store(true, Ordering::SeqCst);
        runtime.spawn(async move {
            loop {
                let seen = view.borrow_and_update().clone();
                let may_act = seen.phase == Phase::Live && !is_leaving.load(Ordering::SeqCst);
                if ready.swap(may_act, Ordering::SeqCst) != may_act {
                    tell(&seen);
                }
                if view.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// How the lease was lost for good.
    pub async fn lost(&mut self) -> String {
        let ended = self.lease.ended().await;
        self.is_lost = true;
        match ended {
            Some(Ended::Released) => "the lease was released".into(),
            Some(ended) => ended.to_string(),
            None => "the process that keeps the lease failed".into(),
        }
    }

    /// The others are told that this node takes nothing more.
    pub fn begin_to_leave(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
        self.lease.drain();
    }

    /// Gives the lease back. All holds are released.
    pub async fn leave(self) {
        let Joined { lease, port, is_lost, .. } = self;
        if !is_lost
            && let Some(ended) = lease.release().await
            && ended != Ended::Released
        {
            tracing::warn!(%ended, "lease not released");
        }
        port.stop().await;
    }
}

fn tell(view: &LeaseView) {
    match (&view.why, view.phase) {
        (_, Phase::Live) => tracing::info!("the node may act again"),
        (Some(why), _) => tracing::error!(%why, "the node may not act: its actors are refused"),
        (None, _) => {}
    }
}

/// Returns once the node may act; meanwhile it says why not.
async fn until_live(lease: &LeaseThread, node: &NodeId) -> Result<()> {
    let mut view = lease.view();
    loop {
        let live = view.wait_for(|view| matches!(view.phase, Phase::Live | Phase::Ended));
        let seen = tokio::time::timeout(SAY_WHY_EVERY, live).await;
        match seen.map(|seen| seen.map(|view| view.clone())) {
            Ok(Ok(LeaseView { phase: Phase::Live, .. })) => return Ok(()),
            Ok(Ok(LeaseView { why: Some(why), .. })) => {
                bail!("the node {node} gets no lease: {why}")
            }
            Ok(_) => bail!("the process that keeps the lease failed: see the log above"),
            Err(_) => {
                let why = view.borrow().why.clone();
                let why = why.map_or_else(
                    || "the bucket has not answered yet".into(),
                    |why| why.to_string(),
                );
                tracing::info!(%node, %why, "waiting for the lease");
            }
        }
    }
}
