//! Calls and access over a real tree.

#![allow(clippy::unwrap_used)]

mod durable;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::access::Access;
use crate::address::{ActorName, Address, Class, Tenant};
use crate::event::{Body, Ran, Reason};
use crate::limits::{IDLE_TIMEOUT, QUEUE_EVENTS_MAX, WALL_BUDGET};
use crate::ports::Databases as _;
use crate::testing::{MemoryDatabases, ScriptedGuest, TreeSetup, scripted_event};
use crate::tree::Tree;

const MS: Duration = Duration::from_millis(1);

/// A node that serves `a`, open, `inner`, internal, and `known`, where requests create only `main`.
struct Node {
    tree: Arc<Tree>,
    guest: ScriptedGuest,
    databases: MemoryDatabases,
}

impl Node {
    async fn start() -> Self {
        Self::holding(100).await
    }

    async fn holding(instances_max: usize) -> Self {
        let guest = ScriptedGuest::new("v1");
        let known: Access = "existing:main".parse().unwrap();
        let mut setup = TreeSetup::new()
            .class("a", &guest)
            .class_with("inner", &guest, Access::Internal)
            .class_with("known", &guest, known);
        setup.config.instances_max = instances_max;
        let tree = Arc::new(setup.start().await);
        Self { tree, guest, databases: setup.databases }
    }

    async fn ask(&self, actor: &str, script: &str) -> Result<String, (Reason, Ran)> {
        let (event, from) = scripted_event(address(actor), script);
        let answer = self.tree.deliver(event, from).await;
        let reply = answer.map_err(|refusal| (refusal.reason, refusal.ran))?;
        let Body::Whole(bytes) = reply.body else { panic!("it is whole") };
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn ok(&self, actor: &str, script: &str) -> String {
        self.ask(actor, script).await.unwrap()
    }

    /// Sends an event that waits, and returns once it does.
    async fn busy(self: &Arc<Self>, actor: &'static str, script: &'static str) {
        let (node, waiting) = (Arc::clone(self), self.guest.waiting());
        tokio::spawn(async move { node.ask(actor, script).await });
        while self.guest.waiting() == waiting {
            sleep(MS).await;
        }
    }
}

fn address(actor: &str) -> Address {
    let (class, name) = actor.split_once('/').unwrap();
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse(class).unwrap(),
        name: ActorName::parse(name).unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_reaches_any_class_and_brings_the_answer_back() {
    let node = Node::start().await;
    for callee in ["a/y", "inner/y", "known/new"] {
        let answer = node.ok("a/x", &format!("/call {callee} /exec row,query")).await;
        assert_eq!(answer, "200 row", "{callee}");
    }
    assert_eq!(node.ok("a/x", "/env CLASS").await, "a");
    assert_eq!(node.ok("a/x", "/call inner/y /env CLASS").await, "200 inner");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_called_is_told_and_does_not_run() {
    let node = Node::start().await;
    for target in ["a", "a/", "/x", "A/x", "nothing/x", "_front/main", "a/x/y", "a/.."] {
        assert_eq!(node.ok("a/x", &format!("/call {target}")).await, "invalid address", "{target}");
    }
    assert_eq!(node.ok("a/x", "/call a/x /exec row").await, "reentrant");
    // Further down the chain too: y calls x, which waits for y.
    assert_eq!(node.ok("a/x", "/call a/y /call a/x").await, "200 reentrant");
    assert!(node.databases.rows(&address("a/x")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_host_says_of_the_callee_comes_as_it_would_to_a_client() {
    let node = Node::start().await;
    let trapped = node.ok("a/x", "/call a/y /trap").await;
    assert!(trapped.starts_with("500 {\"reason\":\"trapped\",\"event\":\"ran\""), "{trapped}");
    let node = Node::holding(1).await;
    let full = node.ok("a/x", "/call a/y /exec row").await;
    assert!(full.starts_with("503 {\"reason\":\"no-capacity\",\"event\":\"not-run\""), "{full}");
}

#[tokio::test(start_paused = true)]
async fn a_call_gives_up_while_its_caller_can_still_answer() {
    let node = Arc::new(Node::start().await);
    let since = Instant::now();
    assert_eq!(node.ok("a/x", "/call a/y /wait").await, "timeout");
    assert_eq!(since.elapsed().as_secs(), WALL_BUDGET.as_secs() - 5);
    // The callee had started: it runs to its own end.
    node.guest.release(1);
    assert_eq!(node.ok("a/y", "/").await, "");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_has_gone_is_not_run_unless_it_has_started() {
    let node = Arc::new(Node::start().await);
    node.busy("a/y", "/wait").await;
    assert_eq!(node.ok("a/x", "/call a/y /exec late").await, "timeout");
    node.guest.release(1);
    sleep(MS * 100).await;
    assert!(node.databases.rows(&address("a/y")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_internal_or_existing_refuses_outside_and_creates_nothing() {
    let node = Node::start().await;
    for _ in 0..QUEUE_EVENTS_MAX {
        let internal = node.ask("inner/new", "/exec row").await;
        assert_eq!(internal, Err((Reason::Forbidden, Ran::NotRun)));
        let unknown = node.ask("known/new", "/exec row").await;
        assert_eq!(unknown, Err((Reason::NoSuchActor, Ran::NotRun)));
    }
    for actor in ["inner/new", "known/new"] {
        assert!(!node.databases.has_file(&address(actor)), "{actor}");
        assert_eq!(node.databases.fileless_init(&address(actor)), Ok(None), "{actor}");
        assert!(node.guest.scripts(&address(actor)).is_empty(), "{actor}");
    }
    assert_eq!(node.ok("known/main", "/exec row").await, "1");
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_never_used_storage_exists_too_and_a_deleted_one_does_not() {
    let node = Node::start().await;
    node.ok("a/x", "/call known/new /hello").await;
    assert_eq!(node.ok("known/new", "/hello").await, "");
    sleep(IDLE_TIMEOUT * 2).await;
    assert_eq!(node.ok("known/new", "/hello").await, "");
    node.ok("known/new", "/delete").await;
    // Resident still, with nothing left of it.
    let gone = node.ask("known/new", "/exec row").await;
    assert_eq!(gone, Err((Reason::NoSuchActor, Ran::NotRun)));
    assert!(!node.databases.has_file(&address("known/new")));
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_behind_a_delete_create_nothing() {
    let node = Arc::new(Node::start().await);
    node.ok("a/x", "/call known/new /exec row").await;
    node.busy("known/new", "/wait;delete").await;
    let behind = {
        let node = Arc::clone(&node);
        tokio::spawn(async move { node.ask("known/new", "/exec again").await })
    };
    sleep(MS).await;
    node.guest.release(1);
    assert_eq!(behind.await.unwrap(), Err((Reason::NoSuchActor, Ran::NotRun)));
    assert!(!node.databases.has_file(&address("known/new")));
}
