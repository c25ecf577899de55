//! What a store holds beside the guest: WASI that reaches nothing, the scope its host calls go to,
//! and its limits.

use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderName;
use wasmkeep_supervisors::ports::{Clock, EventScope, GuestScope};
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{HostWallClock, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView,
    WasiHttpHooks, WasiHttpView,
};

use super::component::InstanceConfig;
use super::log::LogStream;
use super::meter::Meter;
use super::outbound::InstanceOutbound;

/// Host objects a guest may hold at once: streams, bodies, headers.
const HOST_OBJECTS_MAX: usize = 4096;
const RANDOM_BYTES_MAX: u64 = 64 * 1024;
/// Writes of a body, an answer's or an outbound request's, wait once this many pieces of this size
/// are unread.
const BODY_PIECES: usize = 4;
const BODY_PIECE_BYTES: usize = 64 * 1024;
/// Elements of one table.
const TABLE_ELEMENTS_MAX: usize = 100_000;

pub struct HostState {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: HttpHooks,
    pub table: ResourceTable,
    pub scope: Arc<dyn GuestScope>,
    actor: Option<Arc<dyn EventScope>>,
    pub meter: Meter,
    pub cpu_budget: Duration,
    pub memory_limit: MemoryLimit,
}

impl HostState {
    /// For an instance of an actor.
    pub fn of_actor(scope: Arc<dyn EventScope>, config: &InstanceConfig) -> Self {
        let guest = Arc::clone(&scope) as Arc<dyn GuestScope>;
        let state = Self::of_front(guest, config);
        Self { actor: Some(scope), ..state }
    }

    /// For an instance of the front.
    pub fn of_front(scope: Arc<dyn GuestScope>, config: &InstanceConfig) -> Self {
        let mut wasi = WasiCtx::builder();
        wasi.stdout(LogStream::new(Arc::clone(&scope), false))
            .stderr(LogStream::new(Arc::clone(&scope), true))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .socket_addr_check(|_, _| Box::pin(async { false }))
            .max_random_size(RANDOM_BYTES_MAX);
        if let Some(clock) = &config.clock {
            wasi.wall_clock(GuestClock(Arc::clone(clock)));
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(HOST_OBJECTS_MAX);
        Self {
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            hooks: HttpHooks {
                outbound: config.outbound.of_an_instance(),
                scope: Arc::clone(&scope),
            },
            table,
            scope,
            actor: None,
            meter: Meter::default(),
            cpu_budget: config.cpu_budget,
            memory_limit: MemoryLimit { bytes_max: config.memory_bytes_max },
        }
    }
}

impl HostState {
    /// What only an actor may ask.
    pub fn actor(&self) -> &dyn EventScope {
        self.actor.as_deref().expect("the front is linked to no interface that is the actors'")
    }

    /// Host objects the guest has not dropped.
    pub fn kept_objects(&mut self) -> usize {
        self.table.iter_mut().count()
    }

    /// Ends the requests the event sent and did not finish with.
    pub fn end_outbound(&self) {
        self.hooks.outbound.end_event();
    }
}

/// The time of day as a guest sees it, when it is not the machine's.
struct GuestClock(Arc<dyn Clock>);

impl HostWallClock for GuestClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.now().0)
    }
}

impl WasiView for HostState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for HostState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

/// Where outbound requests go, and the size of bodies' pieces.
struct HttpHooks {
    outbound: InstanceOutbound,
    scope: Arc<dyn GuestScope>,
}

type Sent = wasmtime_wasi_http::Result<(
    ::http::Response<WasiBody>,
    Box<dyn Future<Output = wasmtime_wasi_http::Result<()>> + Send>,
)>;

impl WasiHttpHooks for HttpHooks {
    fn send_request(
        &mut self,
        request: ::http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _finished: Box<dyn Future<Output = wasmtime_wasi_http::Result<()>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let answer = self.outbound.send(request, options, self.scope.before_output());
        // The answer's body keeps its own connection going.
        Box::new(async { Ok((answer.await?, Box::new(async { Ok(()) }) as _)) })
    }

    // As it is by default, without an allocation for each header.
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        DEFAULT_FORBIDDEN_HEADERS.contains(name)
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        BODY_PIECES
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_PIECE_BYTES
    }
}

/// Refuses memory past the limit; the guest's allocator then fails or traps.
pub struct MemoryLimit {
    bytes_max: usize,
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= self.bytes_max)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }
}
