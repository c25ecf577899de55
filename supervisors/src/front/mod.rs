//! The front: a component that answers every public path outside `/actor/` and `/_wasmkeep/`, with
//! an instance of its own for each request.
//!
//! Promises: no more than its slots run at once, and one more is refused before it runs; a slot is
//! free only once its instance is gone; a client that leaves before the end of its answer stops its
//! instance; calls of the front come from inside and are in no chain; a WebSocket it hands over is
//! opened once its instance is gone. It keeps no state, so no process stands for it and nothing is
//! queued.

pub mod handoff;
pub mod rules;
mod scope;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use self::handoff::Offer;
use self::scope::{FrontCalls, FrontScope};
use crate::address::{Address, Tenant};
use crate::call::CallPorts;
use crate::event::{
    Answer, Body, BodyError, BodyStream, Kind, Reason, Refusal, Reply, ReplyTo, Request, Task,
};
use crate::guest_log::LogRate;
use crate::limits::FRONT_LOG_LINES_PER_SECOND;
use crate::metrics::Metrics;
use crate::ports::{FrontGuest, GuestFault, GuestScope};
use crate::tap::{EventEnded, EventHead, Happening, Outcome};
use crate::values::Values;

/// How often a stop looks whether the last request has ended.
const STOP_POLL: Duration = Duration::from_millis(5);

/// What is served as the front.
pub struct FrontSpec {
    pub guest: Arc<dyn FrontGuest>,
    pub values: Values,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontConfig {
    pub tenant: Tenant,
    /// Requests at once.
    pub slots: usize,
    /// Of one request, its answer included.
    pub wall_budget: Duration,
    /// The longest an actor's call may take: no call of the front takes longer.
    pub call_limit: Duration,
}

/// A node's front.
pub struct Front {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    runtime: Handle,
}

/// What all requests use.
struct Shared {
    address: Address,
    /// The present version, for each request that starts.
    guest: watch::Sender<Arc<dyn FrontGuest>>,
    values: Values,
    config: FrontConfig,
    calls: Arc<CallPorts>,
    waiting: Arc<FrontCalls>,
    log_rate: Mutex<LogRate>,
    /// True once what still runs is to be cut off.
    cut_off: watch::Sender<bool>,
}

impl Shared {
    fn metrics(&self) -> &Metrics {
        &self.calls.metrics
    }

    fn tell(&self, what: impl FnOnce() -> Happening) {
        self.calls.tap.tell(&self.address, what);
    }
}

impl Front {
    /// A front whose requests run on the current runtime.
    pub fn new(spec: FrontSpec, calls: Arc<CallPorts>, config: FrontConfig) -> Self {
        let slots = Arc::new(Semaphore::new(config.slots));
        let shared = Shared {
            address: Address::of_the_front(config.tenant.clone()),
            guest: watch::Sender::new(spec.guest),
            values: spec.values,
            waiting: Arc::new(FrontCalls::new(config.slots, Arc::clone(&calls.metrics))),
            log_rate: Mutex::new(LogRate::new(FRONT_LOG_LINES_PER_SECOND, Instant::now())),
            config,
            calls,
            cut_off: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared), slots, runtime: Handle::current() }
    }

    /// Has the front answer a request, and returns the head of its answer. Who stops polling, or
    /// drops the answer's body before its end, stops the instance.
    pub async fn serve(&self, request: Request) -> Result<Reply, Refusal> {
        let method = request.head.method.clone();
        let (reply, instance) = self.answer(request, None).await?;
        Ok(watched(reply, instance, &method))
    }

    /// Asks the front about a client that wants a WebSocket. When it hands it over, its instance is
    /// gone and its slot free.
    pub async fn offer(&self, mut request: Request) -> Result<Offer, Refusal> {
        request.head.headers.push(handoff::mark());
        let method = request.head.method.clone();
        let (hand_over, handed_over) = oneshot::channel();
        let (reply, instance) = self.answer(request, Some(handed_over)).await?;
        match handoff::read(reply) {
            Ok(Offer::Answer(reply)) => Ok(Offer::Answer(watched(reply, instance, &method))),
            handed => {
                let _ = hand_over.send(());
                instance.gone().await;
                handed.inspect_err(|refusal| self.shared.metrics().refused(refusal.reason))
            }
        }
    }

    /// Who this front is to the actors it calls.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    async fn answer(
        &self,
        request: Request,
        handed_over: Option<oneshot::Receiver<()>>,
    ) -> Result<(Reply, Instance), Refusal> {
        let answer = match self.slot() {
            Ok(slot) => {
                let (to, from) = ReplyTo::channel();
                let shared = Arc::clone(&self.shared);
                let task = self.runtime.spawn(serve(shared, slot, request, to, handed_over));
                let mut instance = Instance(Some(task));
                let answer = match from.await {
                    Ok(Answer::Ended(answer)) => answer,
                    // It is no actor's: no other node has it.
                    Ok(Answer::Elsewhere(..)) | Err(_) => Err(Refusal::ran(Reason::HostFault)),
                };
                match answer {
                    Ok(reply) => Ok((reply, instance)),
                    Err(refusal) => {
                        instance.let_go();
                        Err(refusal)
                    }
                }
            }
            Err(reason) => {
                self.shared.metrics().front_request("refused");
                self.shared.tell(|| {
                    let head = EventHead::of(&Task::Request(request));
                    Happening::did_not_run(head, Outcome::Refused(reason))
                });
                Err(Refusal::not_run(reason))
            }
        };
        answer.inspect_err(|refusal| self.shared.metrics().refused(refusal.reason))
    }

    fn slot(&self) -> Result<OwnedSemaphorePermit, Reason> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|error| match error {
            TryAcquireError::NoPermits => Reason::FrontBusy,
            TryAcquireError::Closed => Reason::Stopping,
        })
    }

    /// Answers with another version from now on; requests that run end in theirs.
    pub fn replace(&self, guest: Arc<dyn FrontGuest>) {
        self.shared.guest.send_replace(guest);
    }

    /// Takes no further requests, lets those that run end within `grace`, and cuts off the rest.
    pub async fn stop(&self, grace: Duration) {
        self.slots.close();
        if !self.empty_within(grace).await {
            tracing::warn!("requests of the front are cut off by the stop");
            self.shared.cut_off.send_replace(true);
            self.empty_within(grace).await;
        }
    }

    async fn empty_within(&self, grace: Duration) -> bool {
        let emptied = timeout(grace, async {
            while self.slots.available_permits() < self.shared.config.slots {
                sleep(STOP_POLL).await;
            }
        });
        emptied.await.is_ok()
    }
}

/// Runs one request to its end. The slot is given back last, when nothing of the instance is left.
async fn serve(
    shared: Arc<Shared>,
    slot: OwnedSemaphorePermit,
    request: Request,
    mut reply: ReplyTo,
    handed_over: Option<oneshot::Receiver<()>>,
) {
    let _slot = slot;
    let started = Instant::now();
    let deadline = started + shared.config.wall_budget;
    let head = if shared.calls.tap.is_open() {
        EventHead::of_request(&request)
    } else {
        EventHead::unnoted(Kind::Request)
    };
    let mut ended = Ended { shared: &shared, head, started, outcome: None, status: None };
    shared.metrics().front_open.inc();
    let scope = Arc::new(FrontScope::new(Arc::clone(&shared), deadline));
    let mut cut_off = shared.cut_off.subscribe();
    let handed_over = async {
        match handed_over {
            Some(handed_over) => handed_over.await,
            None => pending().await,
        }
    };
    let guest = Arc::clone(&scope) as Arc<dyn GuestScope>;
    let version = Arc::clone(&shared.guest.borrow());
    let run = version.run(request, &mut reply, guest, deadline);
    let result = tokio::select! {
        result = run => result.map_err(|fault| refusal(&fault)),
        _ = cut_off.wait_for(|cut_off| *cut_off) => Err(Refusal::ran(Reason::Stopping)),
        Ok(()) = handed_over => Ok(()),
    };
    scope.end();
    match result {
        Ok(()) => ended.outcome = Some(Outcome::Answered),
        Err(refusal) => {
            tracing::warn!(front = %shared.address, %refusal, "request failed");
            ended.outcome = Some(Outcome::Failed(refusal.reason));
            // Refused when the head has gone out already: then the body's end tells the client.
            reply.send(Err(refusal));
        }
    }
    ended.status = reply.status();
}

/// Counts a request when it is over, also one that was stopped because its client left.
struct Ended<'a> {
    shared: &'a Shared,
    head: EventHead,
    started: Instant,
    /// None: it was stopped before its end.
    outcome: Option<Outcome>,
    status: Option<u16>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        let metrics = self.shared.metrics();
        metrics.front_open.dec();
        metrics.front_seconds.observe(took.as_secs_f64());
        metrics.front_request(match self.outcome {
            Some(Outcome::Answered) => "answered",
            None if !std::thread::panicking() => "left",
            _ => "failed",
        });
        self.shared.tell(|| {
            let head = std::mem::replace(&mut self.head, EventHead::unnoted(Kind::Request));
            let outcome = self.outcome.unwrap_or(Outcome::Skipped);
            Happening::Event(EventEnded { head, outcome, status: self.status, took, attempt: None })
        });
    }
}

/// A request's task, which is stopped when this is dropped.
struct Instance(Option<JoinHandle<()>>);

impl Instance {
    /// It may end what it does.
    fn let_go(&mut self) {
        self.0 = None;
    }

    /// Returns once it has ended.
    async fn gone(mut self) {
        if let Some(task) = &mut self.0 {
            let _ = task.await;
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Ties an instance to the body of its answer.
fn watched(reply: Reply, mut instance: Instance, method: &str) -> Reply {
    let Reply { status, headers, body } = reply;
    let body = match body {
        Body::Stream(pieces) if rules::has_body(method, status) => {
            Body::Stream(Box::pin(Watched { pieces, instance }))
        }
        // All of it is here; what the guest does beside it, it may end.
        body => {
            instance.let_go();
            body
        }
    };
    Reply { status, headers, body }
}

/// An answer's body, which stops the instance when it is dropped before its end.
struct Watched {
    pieces: BodyStream,
    instance: Instance,
}

impl Stream for Watched {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        let piece = ready!(self.pieces.as_mut().poll_next(context));
        if piece.is_none() {
            self.instance.let_go();
        }
        Poll::Ready(piece)
    }
}

fn refusal(fault: &GuestFault) -> Refusal {
    match fault {
        GuestFault::Unfit(why) => Refusal::not_run(Reason::BadRequest).with_detail(why.clone()),
        GuestFault::Refused(text) => {
            Refusal::ran(Reason::HandlerFailed).with_detail(format!("the front failed: {text}"))
        }
        GuestFault::NoResponse => Refusal::ran(Reason::NoResponse)
            .with_detail("the front's handler returned without a response"),
        GuestFault::Trapped(cause) => {
            Refusal::ran(Reason::Trapped).with_detail(format!("the front's code trapped: {cause}"))
        }
        GuestFault::CpuExceeded => Refusal::ran(Reason::CpuExceeded)
            .with_detail("the front used more CPU than --front-cpu-budget-ms allows"),
        GuestFault::WallExceeded => Refusal::ran(Reason::WallExceeded)
            .with_detail("the front took longer than the 30 s of a request"),
        GuestFault::NotInstantiated(_) => Refusal::not_run(Reason::NotInstantiated),
    }
}
