//! The front over a real tree, with a guest whose path is its script.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep};

use super::handoff::Offer;
use super::{Front, FrontConfig, FrontSpec};
use crate::access::Access;
use crate::address::Tenant;
use crate::event::{
    Body, BodyError, BodyStream, Caller, Header, Ran, Reason, Refusal, Reply, ReplyTo, Request,
    RequestHead,
};
use crate::headers;
use crate::limits::FRONT_WALL_BUDGET;
use crate::ports::{
    CallError, CallRequest, CallResponse, FrontGuest, GuestFault, GuestFuture, GuestScope,
};
use crate::testing::{ScriptedGuest, TreeSetup};
use crate::tree::Tree;
use crate::values::Values;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A front whose steps, separated by `;`, are `call C/N /SCRIPT`, `many C/N,… /SCRIPT`, `env NAME`,
/// `wait` until the test releases one, `stream`: the head goes out, and one piece, `end`: that body
/// ends, `hand C/N /PATH`: it hands a WebSocket over, and `marks`: what the host said in a header. It
/// answers with its last result.
struct Guest {
    released: Semaphore,
    started: AtomicUsize,
    alive: AtomicUsize,
}

struct Alive<'a>(&'a AtomicUsize);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Guest {
    fn new() -> Self {
        let count = || AtomicUsize::new(0);
        Self { released: Semaphore::new(0), started: count(), alive: count() }
    }

    async fn handle(
        &self,
        request: Request,
        reply: &mut ReplyTo,
        scope: &dyn GuestScope,
    ) -> Result<(), GuestFault> {
        self.started.fetch_add(1, Ordering::SeqCst);
        self.alive.fetch_add(1, Ordering::SeqCst);
        let _alive = Alive(&self.alive);
        let (mut last, mut pieces) = (String::new(), None);
        for step in request.head.path[1..].split(';') {
            let mut words = step.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("call"), Some(target), Some(path)) => {
                    last = said(scope.call(target, asking(path)).await);
                }
                (Some("many"), Some(targets), Some(path)) => {
                    let calls = targets.split(',').map(|target| (target.into(), asking(path)));
                    let answers = scope.call_many(calls.collect()).await;
                    last = answers.into_iter().map(said).collect::<Vec<_>>().join("|");
                }
                (Some("env"), Some(name), None) => last = format!("{:?}", scope.env(name)),
                (Some("who"), None, None) => last = scope.address().to_string(),
                (Some("wait"), None, None) => {
                    self.released.acquire().await.unwrap().forget();
                }
                (Some("stream"), None, None) => {
                    let (sender, receiver) = mpsc::channel(1);
                    sender.send(Ok(Bytes::from_static(b"piece"))).await.unwrap();
                    reply.send(Ok(answer(Body::Stream(Box::pin(Pieces(receiver))))));
                    pieces = Some(sender);
                }
                (Some("hand"), Some(target), Some(path)) => {
                    let (class, name) = target.split_once('/').unwrap();
                    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
                    let headers = vec![
                        (bytes(headers::HANDOFF_CLASS), bytes(class)),
                        (bytes(headers::HANDOFF_NAME), bytes(name)),
                        (bytes(headers::HANDOFF_PATH), bytes(path)),
                    ];
                    reply.send(Ok(Reply { headers, ..answer(Body::Empty) }));
                }
                (Some("marks"), None, None) => {
                    let of_host =
                        |(name, value): &Header| headers::is_hosts(name).then(|| value.clone());
                    last = format!("{:?}", request.head.headers.iter().find_map(of_host));
                }
                (Some("end"), None, None) => pieces = None,
                (Some("panic"), None, None) => panic!("told to panic"),
                (Some("trap"), None, None) => return Err(GuestFault::Trapped("told to".into())),
                _ => panic!("no step: {step}"),
            }
        }
        drop(pieces);
        reply.send(Ok(answer(Body::Whole(last.into()))));
        Ok(())
    }
}

impl FrontGuest for Guest {
    fn run<'a>(
        &'a self,
        request: Request,
        reply: &'a mut ReplyTo,
        scope: Arc<dyn GuestScope>,
        _deadline: Instant,
    ) -> GuestFuture<'a, ()> {
        Box::pin(async move { self.handle(request, reply, &*scope).await })
    }
}

struct Pieces(mpsc::Receiver<Result<Bytes, BodyError>>);

impl futures_core::Stream for Pieces {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

fn text(reply: Reply) -> String {
    match reply.body {
        Body::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?} is not whole"),
    }
}

fn answer(body: Body) -> Reply {
    Reply { status: 200, headers: Vec::new(), body }
}

fn asking(path: &str) -> CallRequest {
    let path = path.to_owned();
    CallRequest { method: "GET".into(), path, headers: Vec::new(), body: Bytes::new() }
}

fn said(answer: Result<CallResponse, CallError>) -> String {
    match answer {
        Ok(response) => response.status.to_string(),
        Err(error) => error.to_string(),
    }
}

/// A front before the open class `a` and the internal class `inner`.
struct Node {
    tree: Arc<Tree>,
    actors: ScriptedGuest,
    front: Arc<Front>,
    guest: Arc<Guest>,
    setup: TreeSetup,
}

impl Node {
    async fn with_slots(slots: usize) -> Self {
        Self::start(slots, 25 * SECOND).await
    }

    async fn start(slots: usize, call_limit: Duration) -> Self {
        let actors = ScriptedGuest::new("v1");
        let setup =
            TreeSetup::new().class("a", &actors).class_with("inner", &actors, Access::Internal);
        let tree = Arc::new(setup.start().await);
        let guest = Arc::new(Guest::new());
        let values = Values::from_iter([("TOKEN".to_owned(), "of the front".to_owned())]);
        let spec = FrontSpec { guest: Arc::clone(&guest) as _, values };
        let config = FrontConfig {
            tenant: Tenant::default_tenant(),
            slots,
            wall_budget: FRONT_WALL_BUDGET,
            call_limit,
        };
        let front = Arc::new(tree.front(spec, config));
        Self { tree, actors, front, guest, setup }
    }

    async fn serve(&self, script: &str) -> Result<Reply, Refusal> {
        self.front.serve(request("GET", script)).await
    }

    async fn ask(&self, script: &str) -> String {
        text(self.serve(script).await.unwrap())
    }

    async fn offer(&self, script: &str) -> Result<Offer, Refusal> {
        self.front.offer(request("GET", script)).await
    }

    /// Sends a request that runs until it is released or aborted, and returns once it runs.
    async fn begin(self: &Arc<Self>, script: &'static str) -> tokio::task::JoinHandle<String> {
        let (node, before) = (Arc::clone(self), self.guest.started.load(Ordering::SeqCst));
        let running = tokio::spawn(async move { node.ask(script).await });
        eventually(|| self.guest.started.load(Ordering::SeqCst) > before).await;
        running
    }

    fn alive(&self) -> usize {
        self.guest.alive.load(Ordering::SeqCst)
    }

    fn release(&self, count: usize) {
        self.guest.released.add_permits(count);
    }

    fn requests(&self, outcome: &str) -> u64 {
        let families = self.setup.metrics.registry.gather();
        let family = families.iter().find(|f| f.name() == "wasmkeep_front_requests_total");
        let counted = family.into_iter().flat_map(|family| family.get_metric());
        let of_outcome = counted.filter(|m| m.get_label().iter().any(|l| l.value() == outcome));
        of_outcome.map(|metric| metric.get_counter().get_value() as u64).sum()
    }
}

fn request(method: &str, script: &str) -> Request {
    let head = RequestHead {
        method: method.into(),
        path: format!("/{script}"),
        authority: "localhost".into(),
        headers: Vec::new(),
    };
    Request { head, body: Body::Empty, caller: Caller::Outside }
}

async fn eventually(mut condition: impl FnMut() -> bool) {
    while !condition() {
        sleep(MS).await;
    }
}

async fn next(pieces: &mut BodyStream) -> Option<Result<Bytes, BodyError>> {
    poll_fn(|context| pieces.as_mut().poll_next(context)).await
}

#[tokio::test(start_paused = true)]
async fn the_front_calls_from_inside_and_cannot_be_called() {
    let node = Node::with_slots(8).await;
    assert_eq!(node.ask("who").await, "default/_front/main");
    assert_eq!(node.ask("env TOKEN").await, "Some(\"of the front\")");
    assert_eq!(node.ask("env CLASS").await, "None");
    assert_eq!(node.ask("call a/x /exec a").await, "200");
    assert_eq!(node.ask("call inner/x /exec a").await, "200");
    assert_eq!(node.ask("call _front/main /").await, "invalid address");
    assert_eq!(node.ask("call b/x /").await, "invalid address");
    assert_eq!(node.ask("many a/x,_front/main,inner/y /exec a").await, "200|invalid address|200");
    let chain = node.ask("call a/x /call a/y /exec,b").await;
    assert_eq!(chain, "200", "what the front calls starts a chain of its own");
    assert_eq!(node.requests("answered"), 9);
}

#[tokio::test(start_paused = true)]
async fn one_request_more_than_the_slots_is_refused_before_it_runs() {
    let node = Arc::new(Node::with_slots(2).await);
    let waiting = [node.begin("wait").await, node.begin("wait").await];
    let refusal = node.serve("who").await.unwrap_err();
    assert_eq!((refusal.reason, refusal.ran), (Reason::FrontBusy, Ran::NotRun));
    assert_eq!(node.guest.started.load(Ordering::SeqCst), 2);
    assert_eq!(node.requests("refused"), 1);
    node.release(1);
    eventually(|| node.alive() == 1).await;
    assert_eq!(node.ask("who").await, "default/_front/main");
    node.release(1);
    for running in waiting {
        running.await.unwrap();
    }
    assert_eq!(node.setup.metrics.front_open.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_the_head_stops_its_instance_and_frees_its_slot() {
    let node = Arc::new(Node::with_slots(1).await);
    let running = node.begin("wait").await;
    running.abort();
    eventually(|| node.alive() == 0).await;
    eventually(|| node.requests("left") == 1).await;
    assert_eq!(node.ask("who").await, "default/_front/main");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_within_the_answer_stops_its_instance() {
    let node = Arc::new(Node::with_slots(1).await);
    let reply = node.serve("stream;wait").await.unwrap();
    let Body::Stream(mut pieces) = reply.body else { panic!("it streams") };
    assert_eq!(next(&mut pieces).await, Some(Ok(Bytes::from_static(b"piece"))));
    assert_eq!(node.serve("who").await.unwrap_err().reason, Reason::FrontBusy);
    drop(pieces);
    eventually(|| node.alive() == 0).await;
    eventually(|| node.requests("left") == 1).await;
    assert_eq!(node.ask("who").await, "default/_front/main");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_read_to_its_end_leaves_the_instance_to_end_by_itself() {
    let node = Arc::new(Node::with_slots(1).await);
    let reply = node.serve("stream;end;wait").await.unwrap();
    let Body::Stream(mut pieces) = reply.body else { panic!("it streams") };
    while next(&mut pieces).await.is_some() {}
    drop(pieces);
    node.release(1);
    eventually(|| node.requests("answered") == 1).await;

    // The answer to HEAD ends with its head: its body is dropped by right.
    let reply = node.front.serve(request("HEAD", "stream;wait")).await.unwrap();
    drop(reply);
    node.release(1);
    eventually(|| node.requests("answered") == 2).await;
    assert_eq!(node.requests("left"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_gives_up_while_the_front_can_still_answer() {
    let node = Node::with_slots(4).await;
    let began = Instant::now();
    assert_eq!(node.ask("call a/x /wait").await, "timeout");
    assert_eq!(began.elapsed().as_secs(), 25);
}

#[tokio::test(start_paused = true)]
async fn a_call_gives_up_at_the_actors_limit_if_that_is_sooner() {
    let node = Node::start(4, 4 * SECOND).await;
    let began = Instant::now();
    assert_eq!(node.ask("call a/x /wait;many a/x,a/y /wait").await, "timeout|timeout");
    assert_eq!(began.elapsed().as_secs(), 8, "each call has the actors' limit of its own");
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_bounded_on_an_actor_and_on_the_node() {
    let node = Arc::new(Node::with_slots(8).await);
    let busy = "front busy: 2 calls of the front wait for this actor already; nothing ran";
    let scripts = ["call a/x /wait", "call a/x /wait"];
    for script in scripts {
        node.begin(script).await;
    }
    eventually(|| node.actors.waiting() == 1).await;
    assert_eq!(node.ask("call a/x /exec a").await, format!("failed: {busy}"));
    let answers = node.ask("many a/x,a/y,a/x /exec a").await;
    assert_eq!(answers, format!("failed: {busy}|200|failed: {busy}"));

    node.begin("many a/1,a/2,a/3,a/4,a/5,a/6 /wait").await;
    eventually(|| node.actors.waiting() == 7).await;
    let refused = "failed: front busy: too many front calls waiting on this node";
    assert_eq!(node.ask("call a/z /exec a").await, refused);
    assert_eq!(node.ask("call inner/z /exec a").await, refused);
    node.actors.release(8);
    eventually(|| node.alive() == 0).await;
    assert_eq!(node.ask("call a/z /exec a").await, "200");
    assert_eq!(node.ask("call a/x /exec a").await, "200");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_client_left_waits_no_more() {
    let node = Arc::new(Node::with_slots(4).await);
    let running = node.begin("call a/x /wait").await;
    eventually(|| node.actors.waiting() == 1).await;
    assert!(node.ask("call a/x /exec a").await.contains("front busy"));
    running.abort();
    eventually(|| node.alive() == 0).await;
    node.actors.release(1);
    assert_eq!(node.ask("call a/x /exec a").await, "200");
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_ends_its_instance_before_the_socket_is_opened() {
    let node = Node::with_slots(1).await;
    let offer = node.offer("hand inner/x /ws?user=7;wait").await.unwrap();
    assert_eq!(node.alive(), 0, "it would have waited for ever");
    let Offer::HandOff(handoff) = offer else { panic!("{offer:?}") };
    let (address, asked) = handoff.of_client(node.front.address(), Vec::new());
    assert_eq!((address.to_string(), &*asked.path), ("default/inner/x".into(), "/ws?user=7"));
    assert_eq!(node.ask("who").await, "default/_front/main", "its slot is free");
    assert_eq!(node.requests("answered"), 2);
}

#[tokio::test(start_paused = true)]
async fn only_a_request_for_a_websocket_is_marked_and_can_be_handed_over() {
    let node = Node::with_slots(1).await;
    assert_eq!(node.ask("marks").await, "None");
    assert_eq!(node.serve("hand a/x /").await.unwrap().headers.len(), 3, "for the edge to drop");
    let Ok(Offer::Answer(reply)) = node.offer("marks").await else { panic!("no answer") };
    assert_eq!(text(reply), "Some(b\"websocket\")");
}

#[tokio::test(start_paused = true)]
async fn an_offer_ends_as_a_request_does() {
    let node = Arc::new(Node::with_slots(1).await);
    let refusal = node.offer("hand A/x /;wait").await.unwrap_err();
    assert_eq!((refusal.reason, node.alive()), (Reason::NotFound, 0));
    let refusal = node.offer("trap").await.unwrap_err();
    assert_eq!((refusal.reason, refusal.ran), (Reason::Trapped, Ran::Ran));
    // An answer instead of a socket streams, and its client may leave.
    let Ok(Offer::Answer(reply)) = node.offer("stream;wait").await else { panic!("no answer") };
    assert_eq!(node.offer("who").await.unwrap_err().reason, Reason::FrontBusy);
    drop(reply);
    eventually(|| node.alive() == 0).await;
    eventually(|| node.requests("left") == 1).await;
    // So may one that waits for the answer.
    let (asks, before) = (Arc::clone(&node), node.guest.started.load(Ordering::SeqCst));
    let asking = tokio::spawn(async move { asks.offer("wait").await.is_ok() });
    eventually(|| node.guest.started.load(Ordering::SeqCst) > before).await;
    asking.abort();
    eventually(|| node.requests("left") == 2).await;
    assert_eq!((node.alive(), node.requests("refused")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn another_version_answers_what_starts_after_it() {
    let node = Arc::new(Node::with_slots(2).await);
    let running = node.begin("wait;who").await;
    let second = Arc::new(Guest::new());
    node.front.replace(Arc::clone(&second) as _);
    assert_eq!(node.ask("who").await, "default/_front/main");
    node.release(1);
    assert_eq!(running.await.unwrap(), "default/_front/main", "it ends in its own version");
    let started = |guest: &Guest| guest.started.load(Ordering::SeqCst);
    assert_eq!((started(&node.guest), started(&second)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_the_front_s_and_a_panic_the_host_s() {
    let node = Node::with_slots(1).await;
    let refusal = node.serve("trap").await.unwrap_err();
    assert_eq!((refusal.reason, refusal.ran), (Reason::Trapped, Ran::Ran));
    assert_eq!(refusal.sentence(), "the front's code trapped: told to");
    let refusal = node.serve("panic").await.unwrap_err();
    assert_eq!((refusal.reason, refusal.ran), (Reason::HostFault, Ran::Ran));
    assert_eq!(node.requests("failed"), 2);
    assert_eq!(node.ask("who").await, "default/_front/main");
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_what_runs_and_cuts_off_what_does_not_end() {
    let node = Arc::new(Node::with_slots(3).await);
    let calls = node.begin("wait;call a/x /exec a").await;
    let endless = node.begin("wait;wait").await;
    let stops = {
        let front = Arc::clone(&node.front);
        tokio::spawn(async move { front.stop(SECOND).await })
    };
    eventually(|| node.front.slots.is_closed()).await;
    assert_eq!(node.serve("who").await.unwrap_err().reason, Reason::Stopping);
    node.release(2);
    assert_eq!(calls.await.unwrap(), "200", "the actors are still there for it");
    assert!(endless.await.is_err(), "it is told that it was cut off");
    stops.await.unwrap();
    assert_eq!(node.alive(), 0);
    node.tree.stop(SECOND).await;
}
