//! Builds the shells, starts the tree, binds the port, and stops it all in order: the only place
//! that sees every shell.

mod adoption;
mod boot_clock;
mod clock;
mod cluster;
mod components;
mod console;
mod lease_thread;
mod limits;
mod operate;
mod together;
mod trim;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use wasmkeep_supervisors::address::{App, Class, Tenant};
use wasmkeep_supervisors::call::reserve;
use wasmkeep_supervisors::front::rules::{Shares, share};
use wasmkeep_supervisors::front::{FrontConfig, FrontSpec};
use wasmkeep_supervisors::limits::FRONT_WALL_BUDGET;
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::ports::Guest;
use wasmkeep_supervisors::tree::{ClassSpec, Tree, TreeConfig, TreePorts};

pub use self::boot_clock::BootClock;
pub use self::cluster::UnfitBucket;
pub use self::components::{Reload, Source};
pub use self::lease_thread::LeaseThread;
pub use self::operate::{OfflineError, offline};
pub use self::together::run_together;

use self::clock::Clocks;
use self::cluster::{Joined, Joining, Member};
use self::components::{Files, Loaded};
use self::console::Console;
use crate::config::ServeConfig;
use crate::database::{DataDir, DatabaseConfig, LocalDatabases};
use crate::edge::{Commands, ConsoleSpec, Edge, EdgeState, Serves};
use crate::host::{Components, EngineConfig, GuestEngine, InstanceConfig, Outbound};

/// Threads that take what other nodes hand over.
const CLUSTER_WORKERS: usize = 1;

/// After everything has stopped: how long threads of the runtime may take to end.
const RUNTIME_WAIT: Duration = Duration::from_secs(1);

/// What a person is told once the node takes traffic.
pub struct Started {
    pub address: SocketAddr,
    pub data_dir: PathBuf,
    pub reload: Reload,
}

/// Runs a node until it is told to stop.
pub fn run(config: &ServeConfig, source: Source, tell: impl FnOnce(Started)) -> Result<()> {
    run_until(config, source, watch::channel(false).1, tell)
}

/// Runs a node until it is told to stop, or the others of its process are.
fn run_until(
    config: &ServeConfig,
    source: Source,
    stop: watch::Receiver<bool>,
    tell: impl FnOnce(Started),
) -> Result<()> {
    for file in &config.exposed_files {
        tracing::warn!(file = %file.display(), "everybody can read this file, and it holds secrets: chmod 600");
    }
    let data_dir = Arc::new(DataDir::open(&config.data_dir)?);
    let instances_max = limits::instances(config.instances_max)?;
    let shares = shares(config, instances_max)?;
    let engine = GuestEngine::start(&EngineConfig {
        instances_max,
        memory_bytes_max: config.memory_bytes_max,
    })?;
    let metrics = Arc::new(Metrics::new().context("register the metrics")?);
    let outbound = Outbound::new(config.outbound.clone(), Arc::clone(&metrics))?;
    let clocks = Clocks::new(config.clock);
    let instances = InstanceConfig {
        outbound,
        cpu_budget: config.cpu_budget,
        memory_bytes_max: config.memory_bytes_max,
        clock: clocks.of_guests,
    };
    let compiled = config.compiled.clone().unwrap_or_else(|| data_dir.components());
    let components = Components::new(&engine.engine, compiled, instances)?;
    let files = Files::new(components, source, config);
    let Loaded { front, classes } = files.load()?;
    let classes = class_specs(classes, config);
    let front = config.front.as_ref().zip(front);
    let app = App::default_app();
    let databases = Arc::new(LocalDatabases::new(
        Arc::clone(&data_dir),
        app.clone(),
        DatabaseConfig {
            sql_cpu_budget: config.sql_cpu_budget,
            captured: config.cluster.is_some(),
            ..DatabaseConfig::default()
        },
    ));
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let runtime = actors_runtime(cores)?;
    trim::begin(&runtime, Arc::clone(&metrics));
    let tenant = Tenant::default_tenant();
    let served: Vec<Class> = classes.keys().cloned().collect();
    let member = config.cluster.as_ref().map(|settings| {
        runtime.block_on(Member::prepare(Joining {
            settings,
            data_dir: Arc::clone(&data_dir),
            databases: Arc::clone(&databases),
            metrics: Arc::clone(&metrics),
            wall: Arc::clone(&clocks.of_alarms),
            app: app.clone(),
        }))
    });
    let member = member.transpose()?;
    let tree = runtime.block_on(Tree::start(
        classes,
        TreePorts {
            databases: Arc::clone(&databases) as _,
            clock: clocks.of_alarms,
            cluster: member.as_ref().map(Member::ports),
        },
        Arc::clone(&metrics),
        TreeConfig {
            tenant: tenant.clone(),
            instances_max: shares.residents,
            idle_timeout: config.idle_timeout,
            wall_budget: config.wall_budget,
        },
    ))?;
    let tree = Arc::new(tree);
    let front = front.map(|(settings, guest)| {
        let _on_it = runtime.enter();
        let spec = FrontSpec { guest, values: settings.values.clone() };
        let front = FrontConfig {
            tenant: tenant.clone(),
            slots: shares.slots,
            wall_budget: FRONT_WALL_BUDGET,
            call_limit: config.wall_budget - reserve(config.wall_budget),
        };
        Arc::new(tree.front(spec, front))
    });
    // In a cluster the lease says so.
    let ready = Arc::new(AtomicBool::new(config.cluster.is_none()));
    let operator = operate::of_node(&data_dir, &tree, &tenant, &app, clocks.manual);
    let console = {
        let _on_it = runtime.enter();
        Arc::new(Console::new(Arc::clone(&operator)))
    };
    let public = EdgeState {
        tree: Arc::clone(&tree),
        front: front.clone(),
        metrics,
        tenant: tenant.clone(),
        ready: Arc::clone(&ready),
        console: None,
        serves: Serves::Everything,
    };
    let (edge, admin_edge) = start_edges(config, public, cores, &console)?;
    // Last: from here on other nodes leave actors to this one.
    let joined = member
        .map(|member| member.join(runtime.handle(), &tree, (&tenant, served), CLUSTER_WORKERS));
    let mut joined = joined.transpose()?;
    if let Some(joined) = &joined {
        joined.follow(runtime.handle(), &ready);
    }
    let signals = {
        let _on_it = runtime.enter();
        Signals::listen()?
    };
    let admin = {
        let _on_it = runtime.enter();
        operate::listen(&data_dir, operator)
    };
    tree.begin_alarms();
    // In a cluster what the databases of this disk say may be long over.
    if joined.is_some() {
        runtime.block_on(adoption::adopt_all(&databases, &tree, &tenant))?;
    } else {
        mend_index(&runtime, databases, tenant, Arc::clone(&tree));
    }
    let reload = Reload { files, tree: Arc::clone(&tree), front: front.clone() };
    tell(Started { address: edge.address, data_dir: data_dir.path().to_owned(), reload });
    let ended = runtime.block_on(async {
        let ended = until_told(signals, stop, &tree, joined.as_mut()).await;
        ready.store(false, Ordering::Relaxed);
        if let Some(joined) = &joined {
            joined.begin_to_leave();
        }
        // Before the actors: what it still answers may call them.
        if let Some(front) = front {
            front.stop(config.shutdown_grace).await;
        }
        tree.stop(config.shutdown_grace).await;
        if let Some(joined) = joined {
            joined.leave().await;
        }
        console.stop();
        edge.stop().await;
        if let Some(edge) = admin_edge {
            edge.stop().await;
        }
        if let Some(admin) = admin {
            admin.stop().await;
        }
        ended
    });
    runtime.shutdown_timeout(RUNTIME_WAIT);
    ended
}

/// After a start of the machine the index of alarms may be late: it is mended while the node serves.
fn mend_index(runtime: &Runtime, databases: Arc<LocalDatabases>, tenant: Tenant, tree: Arc<Tree>) {
    runtime.spawn_blocking(move || match databases.mend_index(&tenant) {
        Ok(None) => {}
        Ok(Some(actors)) => {
            tracing::info!(actors, "the machine was started anew: they look for their alarms");
            tree.begin_alarms();
        }
        Err(error) => tracing::error!(%error, "index of alarms not mended; the next start tries"),
    });
}

/// How actors and the front share the instances of this node.
fn shares(config: &ServeConfig, instances: usize) -> Result<Shares> {
    let Some(front) = &config.front else { return Ok(Shares { residents: instances, slots: 0 }) };
    Ok(share(instances, front.requests_max, !config.actors.is_empty())?)
}

/// Listens on the public address, and on that of the console if it has one of its own.
fn start_edges(
    config: &ServeConfig,
    mut public: EdgeState,
    workers: usize,
    console: &Arc<Console>,
) -> Result<(Edge, Option<Edge>)> {
    let Some(settings) = &config.console else {
        return Ok((Edge::start(config.listen, workers, public)?, None));
    };
    let commands = Arc::clone(console) as Arc<dyn Commands>;
    let spec = ConsoleSpec { commands, token: settings.token.as_str().to_owned() };
    let Some(address) = settings.listen else {
        public.console = Some(spec);
        return Ok((Edge::start(config.listen, workers, public)?, None));
    };
    let operators =
        EdgeState { front: None, console: Some(spec), serves: Serves::Operators, ..public.clone() };
    let edge = Edge::start(config.listen, workers, public)?;
    let admin_edge = Edge::start(address, 1, operators)?;
    tracing::info!("the console is at http://{}/_wasmkeep/console", admin_edge.address);
    Ok((edge, Some(admin_edge)))
}

/// The classes with what their actors may read, and who may reach them.
fn class_specs(
    classes: Vec<(Class, Arc<dyn Guest>)>,
    config: &ServeConfig,
) -> HashMap<Class, ClassSpec> {
    let specs = classes.into_iter().map(|(class, guest)| {
        let access = config.access.get(&class).cloned().unwrap_or_default();
        let values = config.values.get(&class).cloned().unwrap_or_default();
        (class, ClassSpec { guest, access, values })
    });
    specs.collect()
}

fn actors_runtime(workers: usize) -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("actors")
        .enable_all()
        .build()
        .context("start the actors' runtime")
}

/// What asks a node to stop. Listened to before anybody is told that the node is ready: one that comes
/// earlier would end the process in the middle of what it does.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listen for SIGINT")?,
        })
    }
}

/// Waits for a signal, for the end of another node of this process, or for the tree to give up. A
/// second signal ends the process at once.
async fn until_told(
    signals: Signals,
    mut stop: watch::Receiver<bool>,
    tree: &Tree,
    joined: Option<&mut Joined>,
) -> Result<()> {
    let Signals { mut terminate, mut interrupt } = signals;
    let mut given_up = tree.given_up();
    let lease_lost = async {
        match joined {
            Some(joined) => joined.lost().await,
            None => std::future::pending().await,
        }
    };
    let others_stop = async {
        if stop.wait_for(|stop| *stop).await.is_err() {
            // A node on its own.
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        // Signals first: one that is left would count as the second.
        biased;
        _ = terminate.recv() => {
            tracing::info!("SIGTERM: stopping");
            Ok(())
        }
        _ = interrupt.recv() => {
            tracing::info!("SIGINT: stopping");
            Ok(())
        }
        () = others_stop => {
            tracing::info!("another node of this process has ended: stopping");
            Ok(())
        }
        _ = given_up.wait_for(|given_up| *given_up) => {
            Err(anyhow!("the node's processes keep failing: see the log above"))
        }
        why = lease_lost => Err(anyhow!("the node has no lease any more: {why}")),
    };
    tokio::spawn(exit_at_once(terminate, interrupt));
    ended
}

async fn exit_at_once(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::warn!("told again: stopping at once");
    std::process::exit(1);
}
