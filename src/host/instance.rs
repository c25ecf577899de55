//! A component in memory: makes it, runs one handler at a time, and says how each ended.

use tokio::sync::oneshot;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until, timeout_at};
use wasmkeep_supervisors::event::{ReplyTo, Request, SocketEvent, SocketId};
use wasmkeep_supervisors::ports::{GuestCall, GuestFault, GuestFuture, Instance};
use wasmkeep_wit::actor::{Actor, ActorPre};
use wasmkeep_wit::front::{Front, FrontPre};
use wasmtime::component::Resource;
use wasmtime::{CallHook, Engine, Store, Trap, UpdateDeadline};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::types::{HostIncomingRequest, HostResponseOutparam};

use super::http::{
    GuestRequest, GuestResponse, HandlerEnd, finished_reply, request_in, streamed_reply,
};
use super::meter::Meter;
use super::state::HostState;
use super::websockets;

/// Host objects an instance may keep between events before a fresh one takes its place.
const HOST_OBJECTS_KEPT_MAX: usize = 512;
/// Ticks until a guest that runs on is looked at: the first may come at once.
const FIRST_LOOK_TICKS: u64 = 2;

const UNFINISHED: &str =
    "the handler returned before it had written the body that its response's head announced";

/// A component's exports that both worlds have.
pub trait World: Send {
    /// Calls the HTTP handler.
    fn handle(
        &self,
        store: &mut Store<HostState>,
        request: Resource<HostIncomingRequest>,
        out: Resource<HostResponseOutparam>,
    ) -> impl Future<Output = wasmtime::Result<()>> + Send;
}

impl World for Front {
    async fn handle(
        &self,
        store: &mut Store<HostState>,
        request: Resource<HostIncomingRequest>,
        out: Resource<HostResponseOutparam>,
    ) -> wasmtime::Result<()> {
        self.wasi_http_incoming_handler().call_handle(store, request, out).await
    }
}

impl World for Actor {
    async fn handle(
        &self,
        store: &mut Store<HostState>,
        request: Resource<HostIncomingRequest>,
        out: Resource<HostResponseOutparam>,
    ) -> wasmtime::Result<()> {
        self.wasi_http_incoming_handler().call_handle(store, request, out).await
    }
}

/// A component in memory, an actor's or the front's.
pub struct GuestInstance<W> {
    store: Store<HostState>,
    world: W,
    /// The deadline of the event whose budgets are running: `on-init` and the handler that follows
    /// it share theirs.
    event: Option<Instant>,
}

/// A store with its hooks, in which code is metered from the beginning.
fn new_store(engine: &Engine, state: HostState) -> Store<HostState> {
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.memory_limit);
    store.call_hook(|context, hook| {
        match hook {
            CallHook::CallingHost | CallHook::ReturningFromWasm => {
                context.data().meter.host_runs();
            }
            CallHook::CallingWasm | CallHook::ReturningFromHost => {
                context.data().meter.guest_runs();
            }
        }
        Ok(())
    });
    store.epoch_deadline_callback(|context| {
        let state = context.data();
        if state.meter.used() >= state.cpu_budget {
            Ok(UpdateDeadline::Interrupt)
        } else {
            // Lets others run on this thread, and the wall's timer be looked at.
            Ok(UpdateDeadline::Yield(1))
        }
    });
    store.set_epoch_deadline(FIRST_LOOK_TICKS);
    store
}

impl GuestInstance<Actor> {
    pub async fn new(pre: &ActorPre<HostState>, state: HostState) -> wasmtime::Result<Self> {
        let meter = state.meter.clone();
        let mut store = new_store(pre.engine(), state);
        let world = meter.metered(pre.instantiate_async(&mut store)).await?;
        Ok(Self { store, world, event: None })
    }

    async fn init(&mut self, deadline: Instant) -> Result<(), GuestFault> {
        let meter = self.begin(deadline);
        let call = meter.metered(self.world.call_on_init(&mut self.store));
        let ended = timeout_at(deadline, call).await;
        self.ended(ended)
    }

    async fn alarm(&mut self, deadline: Instant) -> Result<(), GuestFault> {
        let meter = self.begin(deadline);
        let call = meter.metered(self.world.call_on_alarm(&mut self.store));
        let ended = timeout_at(deadline, call).await;
        self.ended(ended)
    }

    async fn socket(
        &mut self,
        socket: SocketId,
        event: SocketEvent,
        deadline: Instant,
    ) -> Result<(), GuestFault> {
        let meter = self.begin(deadline);
        let (actor, store, id) = (&self.world, &mut self.store, socket.0);
        let ended = match event {
            SocketEvent::Open(request) => {
                let request = websockets::request_in(request);
                let call = actor.call_on_websocket_open(store, id, &request);
                timeout_at(deadline, meter.metered(call)).await
            }
            SocketEvent::Message(message) => {
                let message = websockets::message_in(message);
                let call = actor.call_on_websocket_message(store, id, &message);
                timeout_at(deadline, meter.metered(call)).await
            }
            SocketEvent::Close(closing) => {
                let call = actor.call_on_websocket_close(store, id, closing.code, &closing.reason);
                timeout_at(deadline, meter.metered(call)).await
            }
        };
        self.ended(ended)
    }

    /// What the end of a handler without a response means.
    fn ended(
        &self,
        ended: Result<wasmtime::Result<Result<(), String>>, Elapsed>,
    ) -> Result<(), GuestFault> {
        match ended {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(text))) => Err(GuestFault::Refused(text)),
            Ok(Err(error)) => Err(self.fault(&error)),
            Err(_) => Err(GuestFault::WallExceeded),
        }
    }
}

impl GuestInstance<Front> {
    pub async fn of_front(pre: &FrontPre<HostState>, state: HostState) -> wasmtime::Result<Self> {
        let meter = state.meter.clone();
        let mut store = new_store(pre.engine(), state);
        let world = meter.metered(pre.instantiate_async(&mut store)).await?;
        Ok(Self { store, world, event: None })
    }
}

impl<W: World> GuestInstance<W> {
    /// Runs the HTTP handler, to its end or to `deadline`.
    pub async fn request(
        &mut self,
        request: Request,
        reply: &mut ReplyTo,
        deadline: Instant,
    ) -> Result<(), GuestFault> {
        let request = request_in(request).map_err(|error| GuestFault::Unfit(error.to_string()))?;
        let (head_out, mut head) = oneshot::channel();
        let mut streaming: Option<HandlerEnd> = None;
        let result = {
            let meter = self.begin(deadline);
            let mut call = std::pin::pin!(self.handle(meter, request, head_out));
            let mut head_came = false;
            loop {
                tokio::select! {
                    // The guest first: what it answers at once goes out as one piece.
                    biased;
                    result = &mut call => break result,
                    answer = &mut head, if !head_came => {
                        head_came = true;
                        if let Ok(Ok(response)) = answer {
                            let (answer, end) = streamed_reply(response);
                            reply.send(Ok(answer));
                            streaming = Some(end);
                        }
                    }
                    () = sleep_until(deadline) => {
                        tell(streaming, false);
                        return Err(GuestFault::WallExceeded);
                    }
                }
            }
        };
        // Told before the store can go: its bodies then end as if they were whole.
        tell(streaming, result.is_ok());
        result.map_err(|error| self.fault(&error))?;
        if reply.is_answered() {
            return Ok(());
        }
        match head.try_recv() {
            Ok(Ok(response)) => match finished_reply(response) {
                Some(answer) => {
                    reply.send(Ok(answer));
                    Ok(())
                }
                None => Err(GuestFault::Refused(UNFINISHED.into())),
            },
            Ok(Err(code)) => Err(GuestFault::Refused(described(&code))),
            Err(_) => Err(GuestFault::NoResponse),
        }
    }

    /// Calls the guest's HTTP handler, metered.
    async fn handle(
        &mut self,
        meter: Meter,
        request: GuestRequest,
        head: oneshot::Sender<Result<GuestResponse, ErrorCode>>,
    ) -> wasmtime::Result<()> {
        let mut http = self.store.data_mut().http();
        let request = http.new_incoming_request(Scheme::Http, request)?;
        let out = http.new_response_outparam(head)?;
        meter.metered(self.world.handle(&mut self.store, request, out)).await
    }

    /// Readies the store for a handler of the event with this deadline.
    fn begin(&mut self, deadline: Instant) -> Meter {
        self.store.set_epoch_deadline(FIRST_LOOK_TICKS);
        let meter = self.store.data().meter.clone();
        if self.event != Some(deadline) {
            meter.reset();
            self.event = Some(deadline);
        }
        meter
    }

    /// What a failed call means; the guest's stack goes to its log.
    fn fault(&self, error: &wasmtime::Error) -> GuestFault {
        let trap = error.downcast_ref::<Trap>();
        if trap == Some(&Trap::Interrupt) {
            return GuestFault::CpuExceeded;
        }
        // The chain, without this server's own frames, which a backtrace of the error would hold.
        let stack = error.chain().map(|cause| cause.to_string()).collect::<Vec<_>>().join("; ");
        self.store.data().scope.log(&stack, true);
        GuestFault::Trapped(trap.map_or_else(|| "a host call ended it".to_owned(), Trap::to_string))
    }
}

fn tell(streaming: Option<HandlerEnd>, whole: bool) {
    if let Some(end) = streaming {
        let _ = end.send(whole);
    }
}

fn described(code: &ErrorCode) -> String {
    format!("the handler answered with an error instead of a response: {code:?}")
}

impl Instance for GuestInstance<Actor> {
    fn run<'a>(&'a mut self, call: GuestCall<'a>, deadline: Instant) -> GuestFuture<'a, ()> {
        Box::pin(async move {
            let ended = match call {
                GuestCall::Init => self.init(deadline).await,
                GuestCall::Alarm => self.alarm(deadline).await,
                GuestCall::Socket { socket, event } => self.socket(socket, event, deadline).await,
                GuestCall::Request { request, reply } => {
                    self.request(request, reply, deadline).await
                }
            };
            self.store.data().end_outbound();
            ended
        })
    }

    fn is_worn(&mut self) -> bool {
        self.store.data_mut().kept_objects() > HOST_OBJECTS_KEPT_MAX
    }
}
