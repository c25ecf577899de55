//! What the benches need: a tree over real shells, without HTTP before it.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use wasmkeep::database::{DataDir, DatabaseConfig, LocalDatabases};
use wasmkeep::host::{
    Components, EngineConfig, GuestEngine, InstanceConfig, Outbound, OutboundConfig,
};
use wasmkeep_supervisors::access::Access;
use wasmkeep_supervisors::address::{ActorName, Address, App, Class, Tenant};
use wasmkeep_supervisors::event::{
    Body, Caller, Event, ReplyTo, Request, RequestHead, Task, Ticket,
};
use wasmkeep_supervisors::limits::{CPU_BUDGET, GUEST_MEMORY_BYTES, WALL_BUDGET};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::ports::{Database, Databases, Guest};
use wasmkeep_supervisors::testing::ManualClock;
use wasmkeep_supervisors::tree::{ClassSpec, Tree, TreeConfig, TreePorts};
use wasmkeep_supervisors::values::Values;

pub const TABLE: &str = "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER NOT NULL)";
pub const WRITE: &str = "INSERT INTO t VALUES (?, 1) ON CONFLICT (k) DO UPDATE SET v = v + 1";
pub const READ: &str = "SELECT v FROM t WHERE k = ?";

const INSTANCES: usize = 100;

/// A node without an edge, in a folder of its own.
pub struct Node {
    pub runtime: Runtime,
    tree: Tree,
    // Dropped last: the tree works in it.
    _engine: Option<GuestEngine>,
    _folder: TempDir,
}

/// An address of the class that is served.
pub fn address(name: &str) -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("bench").expect("a legal class"),
        name: ActorName::parse(name).expect("a legal name"),
    }
}

/// Databases in a folder.
pub fn databases(folder: &Path) -> (Arc<DataDir>, LocalDatabases) {
    let data_dir = Arc::new(DataDir::open(folder).expect("a data directory"));
    let app = App::default_app();
    let databases = LocalDatabases::new(Arc::clone(&data_dir), app, DatabaseConfig::default());
    (data_dir, databases)
}

/// An actor's database, in an event without an end.
pub fn open(databases: &LocalDatabases, name: &str) -> Box<dyn Database> {
    let mut database = databases.open(&address(name)).expect("a database");
    database.begin_event(far());
    database
}

/// The end of an event that has none.
pub fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

impl Node {
    /// One that serves a component.
    pub fn of_component(path: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config =
            EngineConfig { instances_max: INSTANCES, memory_bytes_max: GUEST_MEMORY_BYTES };
        let engine = GuestEngine::start(&config).expect("an engine");
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let nobody = OutboundConfig { ranges: vec![], ports: vec![], ca_files: vec![] };
        let outbound = Outbound::new(nobody, metrics).expect("no way out");
        let instances = InstanceConfig {
            outbound,
            cpu_budget: CPU_BUDGET,
            memory_bytes_max: GUEST_MEMORY_BYTES,
            clock: None,
        };
        let cache = folder.path().join("compiled");
        let components = Components::new(&engine.engine, cache, instances).expect("a linker");
        let bytes = std::fs::read(path).expect("`cargo xtask guests` makes the component");
        let guest = components.load(path, &bytes).expect("an actor");
        Self::serving(guest, Some(engine), folder)
    }

    /// One that serves a guest without WebAssembly: what is left is queues and processes.
    pub fn of_guest(guest: Arc<dyn Guest>) -> Self {
        Self::serving(guest, None, tempfile::tempdir().expect("a folder"))
    }

    fn serving(guest: Arc<dyn Guest>, engine: Option<GuestEngine>, folder: TempDir) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let (_, databases) = databases(&folder.path().join("data"));
        let class = ClassSpec { guest, access: Access::Open, values: Values::from_iter([]) };
        let ports = TreePorts {
            databases: Arc::new(databases),
            clock: Arc::new(ManualClock::new(1_000_000)),
            cluster: None,
        };
        let config = TreeConfig {
            tenant: Tenant::default_tenant(),
            instances_max: INSTANCES,
            idle_timeout: Duration::from_secs(3600),
            wall_budget: WALL_BUDGET,
        };
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let classes = [(Class::parse("bench").expect("a legal class"), class)].into();
        let tree = runtime.block_on(Tree::start(classes, ports, metrics, config));
        Self { tree: tree.expect("its processes start"), runtime, _engine: engine, _folder: folder }
    }

    /// One event, and its whole answer: how many bytes it has.
    pub async fn ask(&self, actor: &Address, method: &str, path: &str) -> usize {
        let (reply, from) = ReplyTo::channel();
        let head = RequestHead {
            method: method.into(),
            path: path.into(),
            authority: "bench".into(),
            headers: Vec::new(),
        };
        let request = Request { head, body: Body::Empty, caller: Caller::Outside };
        let task = Task::Request(request);
        let event = Event { address: actor.clone(), task, reply, ticket: Ticket::default() };
        let reply = self.tree.deliver(event, from).await.expect("it is answered");
        assert!(reply.status < 300, "{} {path}: {}", method, reply.status);
        match reply.body {
            Body::Empty => 0,
            Body::Whole(bytes) => bytes.len(),
            Body::Stream(mut stream) => {
                let mut length = 0;
                while let Some(piece) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
                    length += piece.expect("a whole body").len();
                }
                length
            }
        }
    }
}
