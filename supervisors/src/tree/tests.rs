//! A real tree on tokio, over ports in memory.

#![allow(clippy::unwrap_used)]

use std::future::Future;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::address::{ActorName, Address};
use crate::event::{Body, BodyError, Kind, Ran, Reason, Task};
use crate::limits::{
    ACTOR_FAILURES_MAX, ADMISSION_WAIT, IDLE_TIMEOUT, QUARANTINE_FIRST, QUARANTINE_WINDOW,
    QUEUE_EVENTS_MAX, RESTARTS_MAX, WALL_BUDGET,
};
use crate::testing::{Fault, MemoryDatabases, ScriptedGuest, TreeSetup, scripted_event};

const MS: Duration = Duration::from_millis(1);

/// A node that serves the classes `a` and `b`.
struct Node {
    tree: Arc<Tree>,
    a: ScriptedGuest,
    b: ScriptedGuest,
    databases: MemoryDatabases,
    metrics: Arc<Metrics>,
}

impl Node {
    async fn start() -> Self {
        Self::holding(100).await
    }

    async fn holding(instances_max: usize) -> Self {
        Self::with(instances_max, MemoryDatabases::new(), ScriptedGuest::new("v1")).await
    }

    async fn with(instances_max: usize, databases: MemoryDatabases, a: ScriptedGuest) -> Self {
        let b = ScriptedGuest::new("v1");
        let mut setup = TreeSetup::new().class("a", &a).class("b", &b);
        setup.databases = databases.clone();
        setup.config.instances_max = instances_max;
        let tree = Arc::new(setup.start().await);
        let metrics = Arc::clone(&setup.metrics);
        Self { tree, a, b, databases, metrics }
    }

    /// What the event was answered: the body, or the refusal.
    fn ask(
        &self,
        actor: &str,
        script: &str,
    ) -> impl Future<Output = Result<String, (Reason, Ran)>> + use<> {
        let tree = Arc::clone(&self.tree);
        let (event, reply) = event(actor, script);
        async move {
            match tree.deliver(event, reply).await {
                Ok(reply) => Ok(body(reply)),
                Err(refusal) => Err((refusal.reason, refusal.ran)),
            }
        }
    }

    /// As `ask`, on its way already.
    fn send(&self, actor: &str, script: &str) -> JoinHandle<Result<String, (Reason, Ran)>> {
        tokio::spawn(self.ask(actor, script))
    }

    /// Sends an event that waits, and returns once it does.
    async fn busy(&self, actor: &str) -> JoinHandle<Result<String, (Reason, Ran)>> {
        let before = self.a.waiting() + self.b.waiting();
        let sent = self.send(actor, "/wait");
        until(|| self.a.waiting() + self.b.waiting() > before).await;
        sent
    }

    fn kill_class(&self, class: &str) {
        self.tree.dispatcher.directory.get(&Class::parse(class).unwrap()).unwrap().kill();
    }

    fn hibernated(&self, cause: &str) -> u64 {
        self.metrics.hibernations.with_label_values(&[cause]).get()
    }

    fn queued(&self, actor: &str) -> u64 {
        self.tree.residents.find(&address(actor)).map_or(0, |m| m.shared.gate.waiting())
    }

    /// What holds whatever a test did.
    fn check(&self) {
        self.databases.assert_rules_kept();
        self.a.assert_one_at_a_time();
        self.b.assert_one_at_a_time();
    }
}

/// `a/x`: the actor `x` of class `a`.
fn address(actor: &str) -> Address {
    let (class, name) = actor.split_once('/').unwrap();
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse(class).unwrap(),
        name: ActorName::parse(name).unwrap(),
    }
}

fn event(actor: &str, script: &str) -> (Event, ReplyFrom) {
    scripted_event(address(actor), script)
}

fn body(reply: Reply) -> String {
    match reply.body {
        Body::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Lets other tasks run until `done`. The time it waits is tokio's, so a paused clock moves.
async fn until(done: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if done() {
            return;
        }
        sleep(MS / 10).await;
    }
    panic!("it never came about");
}

fn ok(text: &str) -> Result<String, (Reason, Ran)> {
    Ok(text.to_owned())
}

fn no(reason: Reason) -> Result<String, (Reason, Ran)> {
    Err((reason, Ran::NotRun))
}

fn failed(reason: Reason) -> Result<String, (Reason, Ran)> {
    Err((reason, Ran::Ran))
}

// Order and queue.

#[tokio::test(start_paused = true)]
async fn events_of_an_actor_run_one_at_a_time_and_in_order() {
    let node = Node::start().await;
    let first = node.busy("a/x").await;
    let mut sent = Vec::new();
    for number in 0..100 {
        sent.push(node.send("a/x", &format!("/exec {number}")));
        until(|| node.queued("a/x") == number + 1).await;
    }
    assert_eq!(node.databases.rows(&address("a/x")), Vec::<String>::new());
    node.a.release(1);
    assert_eq!(first.await.unwrap(), ok(""));
    for sent in sent {
        assert_eq!(sent.await.unwrap(), ok("1"));
    }
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(node.databases.rows(&address("a/x")), expected);
    node.check();
}

#[tokio::test(start_paused = true)]
async fn actors_do_not_wait_for_one_another() {
    let node = Node::start().await;
    let busy = node.busy("a/x").await;
    assert_eq!(node.ask("a/y", "/").await, ok(""));
    assert_eq!(node.ask("b/x", "/").await, ok(""));
    assert!(!busy.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn events_of_an_actor_never_overlap_on_several_threads() {
    let node = Node::start().await;
    let sent: Vec<_> =
        (0..400).map(|number| node.send(&format!("a/{}", number % 4), "/exec a;query")).collect();
    for sent in sent {
        assert!(sent.await.unwrap().is_ok());
    }
    for name in 0..4 {
        assert_eq!(node.databases.rows(&address(&format!("a/{name}"))).len(), 100);
    }
    node.check();
}

#[tokio::test(start_paused = true)]
async fn the_queue_takes_1024_and_loses_none() {
    assert_eq!(QUEUE_EVENTS_MAX, 1024);
    let node = Node::start().await;
    let first = node.busy("a/x").await;
    let sent: Vec<_> = (0..QUEUE_EVENTS_MAX).map(|_| node.send("a/x", "/exec a")).collect();
    until(|| node.queued("a/x") == u64::from(QUEUE_EVENTS_MAX)).await;
    assert_eq!(node.ask("a/x", "/exec late").await, no(Reason::QueueFull));
    // Another actor's queue is its own.
    assert_eq!(node.ask("a/y", "/exec a").await, ok("1"));

    node.a.release(1);
    assert_eq!(first.await.unwrap(), ok(""));
    for sent in sent {
        assert_eq!(sent.await.unwrap(), ok("1"));
    }
    assert_eq!(node.databases.rows(&address("a/x")).len(), QUEUE_EVENTS_MAX as usize);
    assert_eq!(node.ask("a/x", "/exec again").await, ok("1"));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_sender_left_is_not_run() {
    let node = Node::start().await;
    let first = node.busy("a/x").await;
    let leaves = node.send("a/x", "/exec left");
    until(|| node.queued("a/x") == 1).await;
    let stays = node.send("a/x", "/exec stayed");
    until(|| node.queued("a/x") == 2).await;
    leaves.abort();
    assert!(leaves.await.is_err());
    node.a.release(1);
    assert_eq!(first.await.unwrap(), ok(""));
    assert_eq!(stays.await.unwrap(), ok("1"));
    assert_eq!(node.databases.rows(&address("a/x")), ["stayed"]);
    assert_eq!(node.metrics.class(&Class::parse("a").unwrap()).of(Kind::Request).skipped.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_started_runs_to_its_end_when_its_sender_leaves() {
    let node = Node::start().await;
    let leaves = node.send("a/x", "/wait;exec done");
    until(|| node.a.waiting() == 1).await;
    leaves.abort();
    assert!(leaves.await.is_err());
    node.a.release(1);
    assert_eq!(node.ask("a/x", "/query").await, ok("done"));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_body_still_arrives_runs_though_its_sender_left() {
    struct Endless;
    impl futures_core::Stream for Endless {
        type Item = Result<Bytes, BodyError>;

        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Pending
        }
    }
    let node = Node::start().await;
    let first = node.busy("a/x").await;
    let (mut event, reply) = event("a/x", "/exec arriving");
    let Task::Request(request) = &mut event.task else { panic!("it is a request") };
    request.body = Body::Stream(Box::pin(Endless));
    let tree = Arc::clone(&node.tree);
    let leaves = tokio::spawn(async move { tree.deliver(event, reply).await });
    until(|| node.queued("a/x") == 1).await;
    leaves.abort();
    assert!(leaves.await.is_err());
    node.a.release(1);
    assert_eq!(first.await.unwrap(), ok(""));
    assert_eq!(node.ask("a/x", "/query").await, ok("arriving"));
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_not_served_is_not_found() {
    let node = Node::start().await;
    assert_eq!(node.ask("c/x", "/").await, no(Reason::NotFound));
    assert_eq!(node.metrics.residents.get(), 0);
}

// Hibernation.

#[tokio::test(start_paused = true)]
async fn an_actor_is_hibernated_after_the_idle_timeout_and_wakes_on_its_database() {
    let node = Node::start().await;
    assert_eq!(node.ask("a/x", "/exec kept").await, ok("1"));
    sleep(IDLE_TIMEOUT - MS).await;
    // An event in between starts the time anew.
    assert_eq!(node.ask("a/x", "/").await, ok(""));
    sleep(IDLE_TIMEOUT - MS).await;
    assert_eq!((node.a.alive(), node.metrics.residents.get()), (1, 1));

    sleep(2 * MS).await;
    assert_eq!(node.databases.open_now(), 0);
    assert_eq!((node.a.alive(), node.hibernated("idle")), (0, 1));
    assert_eq!(node.metrics.residents.get(), 0);
    assert!(node.tree.residents.is_empty());

    assert_eq!(node.ask("a/x", "/query").await, ok("kept"));
    assert_eq!(node.a.started().last().unwrap().instance, 2);
    node.check();
}

/// Between the start of a process and its first event, the sender may leave.
#[tokio::test(start_paused = true)]
async fn an_actor_whose_first_event_never_came_is_hibernated_too() {
    let node = Node::start().await;
    let (mailbox, place) = node
        .tree
        .dispatcher
        .wake(&address("a/x"), crate::actor::Mailbox::admit, ADMISSION_WAIT)
        .await
        .unwrap();
    // Who was promised a place finds the actor still there.
    sleep(IDLE_TIMEOUT + MS).await;
    assert!(mailbox.shared.gate.is_open());
    drop(place);
    sleep(IDLE_TIMEOUT + MS).await;
    assert!(node.tree.residents.is_empty());
    assert_eq!(node.metrics.residents.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_actor_is_not_evicted_before_the_event_it_was_started_for() {
    let node = Node::holding(1).await;
    let (mailbox, place) = node
        .tree
        .dispatcher
        .wake(&address("a/x"), crate::actor::Mailbox::admit, ADMISSION_WAIT)
        .await
        .unwrap();
    assert_eq!(node.ask("a/y", "/").await, no(Reason::NoCapacity));
    assert!(mailbox.shared.gate.is_open());
    drop(place);
    assert_eq!(node.ask("a/y", "/").await, ok(""));
}

#[tokio::test(start_paused = true)]
async fn a_database_rests_ten_seconds_after_the_last_event() {
    let node = Node::start().await;
    for _ in 0..5 {
        assert_eq!(node.ask("a/busy", "/exec a").await.map(|_| ()), Ok(()));
        sleep(9_000 * MS).await;
        assert_eq!(node.databases.rested(), 0);
    }
    until(|| node.databases.rested() == 1).await;
    assert_eq!(
        (node.databases.open_now(), node.databases.closed()),
        (0, 1),
        "until the next event"
    );
    sleep(15_000 * MS).await;
    assert_eq!(node.databases.rested(), 1, "once is enough");
    assert_eq!(node.a.alive(), 1, "the instance stays");
    assert_eq!(node.ask("a/busy", "/exec a").await, ok("1"));
    assert_eq!((node.databases.open_now(), node.databases.opened()), (1, 2));
    sleep(11_000 * MS).await;
    assert_eq!(node.databases.rested(), 2, "and again after the next event");
    assert_eq!(node.ask("b/no-database", "/answer").await.map(|_| ()), Ok(()));
    sleep(11_000 * MS).await;
    assert_eq!(node.databases.rested(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_actor_with_a_long_event_is_not_idle() {
    let node = Node::start().await;
    let busy = node.busy("a/x").await;
    sleep(WALL_BUDGET - MS).await;
    node.a.release(1);
    assert_eq!(busy.await.unwrap(), ok(""));
    sleep(IDLE_TIMEOUT - MS).await;
    assert_eq!(node.a.alive(), 1);
    sleep(2 * MS).await;
    assert_eq!(node.a.alive(), 0);
}

/// Databases that take their time to let go: nobody may open one while it still does.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_address_never_has_two_databases_open() {
    let node = Node::holding(2).await;
    node.databases.take_time_to_drop(2 * MS);
    // Six actors on two seats: each event evicts someone, most meet an actor that is leaving.
    let sent: Vec<_> =
        (0..120).map(|number| node.send(&format!("a/{}", number % 6), "/exec a")).collect();
    let mut ran = 0;
    for sent in sent {
        match sent.await.unwrap() {
            Ok(_) => ran += 1,
            Err(refusal) => assert_eq!(refusal, (Reason::NoCapacity, Ran::NotRun)),
        }
    }
    let rows: usize = (0..6).map(|n| node.databases.rows(&address(&format!("a/{n}"))).len()).sum();
    assert_eq!(rows, ran, "what was answered ran, what was refused did not");
    assert!(ran >= 6);
    node.check();
}

// Capacity.

#[tokio::test(start_paused = true)]
async fn a_full_node_evicts_an_idle_actor() {
    let node = Node::holding(2).await;
    assert_eq!(node.ask("a/x", "/exec a").await, ok("1"));
    let busy = node.busy("a/y").await;
    assert_eq!(node.ask("a/z", "/exec a").await, ok("1"));
    assert_eq!((node.hibernated("evicted"), node.databases.closed()), (1, 1));
    assert!(node.tree.residents.find(&address("a/x")).is_none());
    assert_eq!(node.metrics.residents.get(), 2);
    node.a.release(1);
    assert_eq!(busy.await.unwrap(), ok(""));
    assert_eq!(node.ask("a/x", "/query").await, ok("a"));
    node.check();
}

#[tokio::test(start_paused = true)]
async fn a_node_full_of_busy_actors_refuses_after_250_ms() {
    let node = Node::holding(2).await;
    let busy = [node.busy("a/x").await, node.busy("b/y").await];
    let since = Instant::now();
    assert_eq!(node.ask("a/z", "/exec a").await, no(Reason::NoCapacity));
    let waited = since.elapsed();
    assert!(ADMISSION_WAIT <= waited && waited < ADMISSION_WAIT + 5 * MS, "{waited:?}");
    assert_eq!(node.a.scripts(&address("a/z")), Vec::<String>::new());
    // An actor that is resident takes events all the same.
    let queued = node.send("a/x", "/");
    node.a.release(1);
    node.b.release(1);
    for sent in busy {
        assert_eq!(sent.await.unwrap(), ok(""));
    }
    assert_eq!(queued.await.unwrap(), ok(""));
    assert_eq!(node.ask("a/z", "/exec a").await, ok("1"));
    assert_eq!(node.hibernated("evicted"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_seat_of_an_actor_that_becomes_idle() {
    let node = Node::holding(1).await;
    let busy = node.busy("a/x").await;
    let waiter = node.send("a/y", "/exec a");
    sleep(ADMISSION_WAIT / 2).await;
    assert!(!waiter.is_finished());
    node.a.release(1);
    assert_eq!(busy.await.unwrap(), ok(""));
    assert_eq!(waiter.await.unwrap(), ok("1"));
    assert_eq!(node.hibernated("evicted"), 1);
}

#[tokio::test(start_paused = true)]
async fn each_waiter_evicts_at_most_one_actor() {
    let node = Node::holding(8).await;
    for name in 0..8 {
        assert_eq!(node.ask(&format!("a/{name}"), "/exec a").await, ok("1"));
    }
    // Both wait while others come and go; each takes one place and no more.
    let sent = [node.send("b/0", "/exec a"), node.send("b/1", "/exec a")];
    for sent in sent {
        assert_eq!(sent.await.unwrap(), ok("1"));
    }
    assert_eq!(node.hibernated("evicted"), 2);
    assert_eq!(node.metrics.residents.get(), 8);
}

/// The seat a waiter made free is its own, also when another has waited longer: were it to go to
/// the first in line, a waiter could be left with its one eviction spent and no seat.
#[tokio::test(start_paused = true)]
async fn a_waiter_inherits_the_seat_it_made_free_and_makes_no_second_one_free() {
    let node = Node::holding(3).await;
    let busy = [node.busy("a/x").await, node.busy("a/y").await, node.busy("a/z").await];
    // First in line, and takes no step of its own any more.
    let mut first = Box::pin(node.tree.residents.reserve(ADMISSION_WAIT));
    std::future::poll_fn(|context| {
        assert!(first.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    let waiter = node.send("b/1", "/");
    sleep(MS).await;
    // One wake-up for the first in line, and one for the waiter.
    node.a.release(1);
    until(|| node.queued("a/x") == 0 && node.a.waiting() == 2).await;
    node.tree.residents.is_idle();
    until(|| node.hibernated("evicted") == 1).await;

    node.a.release(2);
    for sent in busy {
        assert_eq!(sent.await.unwrap(), ok(""));
    }
    while !waiter.is_finished() {
        node.tree.residents.is_idle();
        sleep(MS).await;
    }
    assert_eq!(waiter.await.unwrap(), ok(""));
    assert_eq!(node.hibernated("evicted"), 1);
    assert!(first.await.is_ok());
    assert_eq!(node.hibernated("evicted"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_addresses_on_few_seats_are_served_or_refused_for_capacity() {
    let node = Node::holding(4).await;
    let sent: Vec<_> =
        (0..400).map(|number| node.send(&format!("a/{}", number % 50), "/exec a")).collect();
    let mut ran = 0;
    for sent in sent {
        match sent.await.unwrap() {
            Ok(_) => ran += 1,
            Err(refusal) => assert_eq!(refusal, (Reason::NoCapacity, Ran::NotRun)),
        }
    }
    let rows: usize = (0..50).map(|n| node.databases.rows(&address(&format!("a/{n}"))).len()).sum();
    assert_eq!(rows, ran);
    node.check();
}

// Failures of one actor's process.

#[tokio::test(start_paused = true)]
async fn a_panic_reaches_one_actor_only() {
    let node = Node::start().await;
    assert_eq!(node.ask("a/x", "/exec before").await, ok("1"));
    let other = node.busy("a/y").await;
    let panics = node.send("a/x", "/exec BEGIN;exec undone;wait;panic");
    until(|| node.a.waiting() == 2).await;
    let queued: Vec<_> = (0..3).map(|_| node.send("a/x", "/exec queued")).collect();
    until(|| node.queued("a/x") == 3).await;
    node.a.release(2);
    assert_eq!(panics.await.unwrap(), failed(Reason::HostFault));
    for queued in queued {
        assert_eq!(queued.await.unwrap(), no(Reason::Unavailable));
    }
    assert_eq!(other.await.unwrap(), ok(""));
    // The next event starts a process anew, on what was committed.
    assert_eq!(node.ask("a/x", "/query").await, ok("before"));
    assert_eq!(node.a.alive(), 2);
    assert_eq!(node.metrics.residents.get(), 2);
    node.check();
}

/// The address is free again only once the dead process holds nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_panicked_process_has_let_go_before_the_next_one_starts() {
    let node = Node::start().await;
    node.databases.take_time_to_drop(20 * MS);
    for _ in 0..ACTOR_FAILURES_MAX {
        assert_eq!(node.ask("a/x", "/exec a;panic").await, failed(Reason::HostFault));
        assert_eq!(node.ask("a/y", "/exec a").await, ok("1"));
    }
    assert_eq!(node.ask("a/x", "/query").await, ok("a,a,a,a,a"));
    node.check();
}

#[tokio::test(start_paused = true)]
async fn a_panicking_address_is_quarantined_and_never_its_class() {
    let node = Node::start().await;
    for _ in 0..=ACTOR_FAILURES_MAX {
        assert_eq!(node.ask("a/x", "/panic").await, failed(Reason::HostFault));
    }
    let mut time = QUARANTINE_FIRST;
    for _ in 0..3 {
        assert_eq!(node.ask("a/x", "/").await, no(Reason::Quarantined));
        assert_eq!(node.ask("a/y", "/").await, ok(""));
        sleep(time - 10 * MS).await;
        assert_eq!(node.ask("a/x", "/").await, no(Reason::Quarantined));
        sleep(20 * MS).await;
        assert_eq!(node.ask("a/x", "/panic").await, failed(Reason::HostFault));
        time *= 2;
    }
    assert_eq!(node.metrics.residents.get(), 1);
    sleep(time).await;
    assert_eq!(node.ask("a/x", "/").await, ok(""));
    assert!(!*node.tree.given_up().borrow());
}

#[tokio::test(start_paused = true)]
async fn rare_failures_are_never_too_many() {
    let node = Node::start().await;
    for _ in 0..4 * ACTOR_FAILURES_MAX {
        assert_eq!(node.ask("a/x", "/panic").await, failed(Reason::HostFault));
        sleep(QUARANTINE_WINDOW / ACTOR_FAILURES_MAX as u32).await;
    }
    assert_eq!(node.ask("a/x", "/").await, ok(""));
}

#[tokio::test(start_paused = true)]
async fn guest_faults_are_no_failures_of_the_process() {
    let node = Node::start().await;
    for _ in 0..1000 {
        assert_eq!(node.ask("a/x", "/exec BEGIN;exec a;trap").await, failed(Reason::Trapped));
    }
    assert_eq!(node.ask("a/x", "/query").await, ok(""));
    assert_eq!((node.a.alive(), node.databases.opened()), (1, 1));
    assert_eq!(node.metrics.wakes.get(), 1);
}

// Class supervisors.

#[tokio::test(start_paused = true)]
async fn a_class_supervisor_that_ends_is_started_again_and_others_notice_nothing() {
    let node = Node::start().await;
    assert_eq!(node.ask("a/x", "/exec kept").await, ok("1"));
    let other = node.busy("b/x").await;
    let running = node.busy("a/x").await;
    let queued = node.send("a/x", "/exec queued");
    until(|| node.queued("a/x") == 1).await;

    node.kill_class("a");
    assert_eq!(running.await.unwrap(), failed(Reason::HostFault));
    assert_eq!(queued.await.unwrap(), no(Reason::Unavailable));
    assert_eq!(node.ask("a/y", "/").await, no(Reason::Unavailable));
    until(|| node.databases.open_now() == 0 && node.a.alive() == 0).await;
    sleep(100 * MS).await;
    assert_eq!(node.ask("a/x", "/query").await, ok("kept"));
    node.b.release(1);
    assert_eq!(other.await.unwrap(), ok(""));
    assert!(!*node.tree.given_up().borrow());
    node.check();
}

/// The processes of a class that ended are cut off, but not at once: the new ones must wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_class_that_starts_again_waits_for_the_databases_of_the_last_one() {
    let node = Node::start().await;
    assert_eq!(node.ask("a/x", "/exec kept").await, ok("1"));
    node.databases.take_time_to_drop(150 * MS);
    node.kill_class("a");
    sleep(70 * MS).await;
    assert_eq!(node.databases.open_now(), 1, "this test is about the time it is still open");
    assert_eq!(node.ask("a/x", "/query").await, ok("kept"));
    node.check();
}

#[tokio::test(start_paused = true)]
async fn a_class_supervisor_that_keeps_ending_ends_the_node() {
    let node = Node::start().await;
    let mut given_up = node.tree.given_up();
    for _ in 0..RESTARTS_MAX {
        node.kill_class("a");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(node.ask("a/x", "/").await, ok(""));
        assert!(!*given_up.borrow());
    }
    node.kill_class("a");
    timeout(WALL_BUDGET, given_up.changed()).await.unwrap().unwrap();
    assert!(*given_up.borrow());
    // What still runs may end: the node stops in order.
    assert_eq!(node.ask("b/x", "/").await, ok(""));
    node.tree.stop(Duration::from_secs(1)).await;
    assert!(node.tree.residents.is_empty());
}

#[tokio::test(start_paused = true)]
async fn rare_ends_of_a_class_supervisor_are_never_too_many() {
    let node = Node::start().await;
    for _ in 0..3 * RESTARTS_MAX {
        node.kill_class("a");
        sleep(crate::limits::RESTART_WINDOW / 2).await;
    }
    assert_eq!(node.ask("a/x", "/").await, ok(""));
    assert!(!*node.tree.given_up().borrow());
}

// Stopping.

#[tokio::test(start_paused = true)]
async fn a_stop_lets_queued_events_run_and_closes_every_database() {
    let node = Node::start().await;
    assert_eq!(node.ask("a/idle", "/exec a").await, ok("1"));
    let running = node.busy("a/x").await;
    let queued: Vec<_> = (0..3).map(|_| node.send("a/x", "/exec a")).collect();
    until(|| node.queued("a/x") == 3).await;

    let tree = Arc::clone(&node.tree);
    let stop = tokio::spawn(async move { tree.stop(Duration::from_secs(5)).await });
    until(|| node.tree.residents.is_stopping()).await;
    assert_eq!(node.ask("a/x", "/").await, no(Reason::Stopping));
    assert_eq!(node.ask("a/new", "/").await, no(Reason::Stopping));
    until(|| node.databases.closed() == 1).await;
    assert!(!stop.is_finished());

    node.a.release(1);
    assert_eq!(running.await.unwrap(), ok(""));
    for queued in queued {
        assert_eq!(queued.await.unwrap(), ok("1"));
    }
    stop.await.unwrap();
    assert_eq!((node.databases.open_now(), node.databases.closed()), (0, 2));
    assert_eq!(node.a.alive(), 0);
    assert!(!*node.tree.given_up().borrow());
    assert_eq!(node.ask("a/x", "/").await, no(Reason::Stopping));
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_queued_events_are_refused_and_the_running_one_may_end() {
    let node = Node::start().await;
    let running = node.busy("a/x").await;
    let queued = node.send("a/x", "/exec a");
    until(|| node.queued("a/x") == 1).await;
    let grace = Duration::from_secs(5);
    let tree = Arc::clone(&node.tree);
    let since = Instant::now();
    let stop = tokio::spawn(async move { tree.stop(grace).await });
    sleep(grace + grace / 2).await;
    node.a.release(1);
    assert_eq!(running.await.unwrap(), ok(""));
    assert_eq!(queued.await.unwrap(), no(Reason::Stopping));
    stop.await.unwrap();
    assert!(since.elapsed() < 2 * grace);
    assert_eq!(node.databases.rows(&address("a/x")), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_stop_cuts_off_what_runs_past_two_graces() {
    let node = Node::start().await;
    let running = node.send("a/x", "/exec kept;exec BEGIN;exec undone;wait");
    until(|| node.a.waiting() == 1).await;
    let queued = node.send("a/x", "/exec a");
    until(|| node.queued("a/x") == 1).await;
    let grace = Duration::from_secs(5);
    let since = Instant::now();
    node.tree.stop(grace).await;
    let took = since.elapsed();
    assert!(2 * grace <= took && took < 3 * grace, "{took:?}");
    assert_eq!(running.await.unwrap(), failed(Reason::HostFault));
    assert_eq!(queued.await.unwrap(), no(Reason::Unavailable));
    until(|| node.databases.open_now() == 0 && node.a.alive() == 0).await;
    assert_eq!(node.databases.rows(&address("a/x")), ["kept"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_an_idle_node_takes_no_time() {
    let node = Node::start().await;
    assert_eq!(node.ask("a/x", "/exec a").await, ok("1"));
    let since = Instant::now();
    node.tree.stop(Duration::from_secs(10)).await;
    assert!(since.elapsed() < Duration::from_secs(1));
    assert_eq!((node.databases.open_now(), node.databases.closed()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_for_a_seat_does_not_hold_up_a_stop() {
    let node = Node::holding(1).await;
    let busy = node.busy("a/x").await;
    let waiter = node.send("a/y", "/exec a");
    sleep(10 * MS).await;
    let tree = Arc::clone(&node.tree);
    let stop = tokio::spawn(async move { tree.stop(Duration::from_secs(5)).await });
    until(|| node.tree.residents.is_stopping()).await;
    node.a.release(1);
    assert_eq!(busy.await.unwrap(), ok(""));
    assert_eq!(waiter.await.unwrap(), no(Reason::Stopping));
    stop.await.unwrap();
    assert_eq!(node.databases.open_now(), 0);
}

// What the process does with a database that fails when it leaves.

#[tokio::test(start_paused = true)]
async fn a_failed_close_frees_the_actor_all_the_same() {
    let node = Node::start().await;
    assert_eq!(node.ask("a/x", "/exec a").await, ok("1"));
    node.databases.fail(Fault::Close, 1);
    sleep(IDLE_TIMEOUT + MS).await;
    assert_eq!((node.databases.open_now(), node.databases.closed()), (0, 0));
    assert_eq!(node.metrics.residents.get(), 0);
    assert_eq!(node.ask("a/x", "/query").await, ok("a"));
    node.check();
}

#[tokio::test(start_paused = true)]
async fn on_init_runs_again_for_another_component_and_not_after_a_restart() {
    let databases = MemoryDatabases::new();
    for (component, inits) in [("v1", 1), ("v1", 0), ("v2", 1), ("v2", 0)] {
        let guest = ScriptedGuest::new(component);
        let node = Node::with(10, databases.clone(), guest.clone()).await;
        // One with a file, one without.
        for (actor, script) in [("a/stores", "/exec a"), ("a/stores-nothing", "/")] {
            for _ in 0..2 {
                assert!(node.ask(actor, script).await.is_ok());
                sleep(IDLE_TIMEOUT + MS).await;
            }
            let scripts = guest.scripts(&address(actor));
            let ran = scripts.iter().filter(|script| *script == "init").count();
            assert_eq!(ran, inits, "{actor} {component}");
        }
        node.tree.stop(Duration::from_secs(1)).await;
    }
}
