//! One actor's life: what guest faults, failing databases, `on-init` and deletes do to it.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::actor::{InspectError, Inspected};
use crate::address::{ActorName, Address, Class, Tenant};
use crate::event::{Body, Ran, Reason, Refusal};
use crate::limits::{IDLE_TIMEOUT, WALL_BUDGET};
use crate::ports::{Database, Databases as _};
use crate::testing::{Fault, MemoryDatabases, ScriptedGuest, TreeSetup, scripted_event};
use crate::tree::Tree;

/// One actor, `a/x`, and what it stands on.
struct Actor {
    tree: Tree,
    guest: ScriptedGuest,
    databases: MemoryDatabases,
    address: Address,
}

impl Actor {
    async fn start() -> Self {
        let guest = ScriptedGuest::new("v1");
        let databases = MemoryDatabases::new();
        let mut setup = TreeSetup::new().class("a", &guest);
        setup.databases = databases.clone();
        let tree = setup.start().await;
        let class = Class::parse("a").unwrap();
        let name = ActorName::parse("x").unwrap();
        let address = Address { tenant: Tenant::default_tenant(), class, name };
        Self { tree, guest, databases, address }
    }

    async fn deliver(&self, script: &str) -> Result<String, Refusal> {
        let (event, from) = scripted_event(self.address.clone(), script);
        match self.tree.deliver(event, from).await?.body {
            Body::Whole(bytes) => Ok(String::from_utf8(bytes.to_vec()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    async fn ok(&self, script: &str) -> String {
        self.deliver(script).await.unwrap()
    }

    async fn refused(&self, script: &str) -> (Reason, Ran) {
        let refusal = self.deliver(script).await.unwrap_err();
        (refusal.reason, refusal.ran)
    }

    fn inits(&self) -> usize {
        self.guest.scripts(&self.address).iter().filter(|script| *script == "init").count()
    }

    /// Which instance ran last.
    fn instance(&self) -> u64 {
        self.guest.started().last().unwrap().instance
    }

    fn rows(&self) -> Vec<String> {
        self.databases.rows(&self.address)
    }

    async fn hibernate(&self) {
        sleep(IDLE_TIMEOUT + Duration::from_millis(1)).await;
        assert_eq!((self.guest.alive(), self.databases.open_now()), (0, 0));
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.databases.assert_rules_kept();
            self.guest.assert_one_at_a_time();
        }
    }
}

// Guest faults.

#[tokio::test(start_paused = true)]
async fn each_fault_has_its_reason_and_most_cost_the_instance() {
    let actor = Actor::start().await;
    for (script, reason, keeps) in [
        ("/exec BEGIN;exec a;silent", Reason::NoResponse, true),
        ("/exec BEGIN;exec a;refuse", Reason::HandlerFailed, true),
        ("/exec BEGIN;exec a;trap", Reason::Trapped, false),
        ("/exec BEGIN;exec a;spend", Reason::CpuExceeded, false),
        ("/exec BEGIN;exec a;wait", Reason::WallExceeded, false),
    ] {
        actor.ok("/").await;
        let before = actor.instance();
        assert_eq!(actor.refused(script).await, (reason, Ran::Ran), "{script}");
        assert_eq!(actor.ok("/query").await, "", "{script}: rolled back");
        assert_eq!(actor.instance() == before, keeps, "{script}");
    }
    assert_eq!((actor.databases.opened(), actor.inits(), actor.guest.alive()), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_transaction_ends_with_its_event() {
    let actor = Actor::start().await;
    actor.ok("/exec BEGIN;exec a").await;
    assert_eq!(actor.ok("/query").await, "");
    actor.ok("/exec BEGIN;exec b;exec COMMIT").await;
    assert_eq!(actor.ok("/query").await, "b");
}

#[tokio::test(start_paused = true)]
async fn a_fault_after_the_answer_leaves_the_answer() {
    let actor = Actor::start().await;
    assert_eq!(actor.ok("/exec a;answer;trap").await, "1");
    assert_eq!(actor.ok("/query").await, "a");
    assert_eq!(actor.instance(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_wall_counts_from_the_events_own_start() {
    let actor = Actor::start().await;
    let since = tokio::time::Instant::now();
    let (first, second) = tokio::join!(actor.refused("/wait"), actor.refused("/wait"));
    assert_eq!(first, (Reason::WallExceeded, Ran::Ran));
    assert_eq!(second, (Reason::WallExceeded, Ran::Ran));
    assert!(since.elapsed() >= 2 * WALL_BUDGET);
}

#[tokio::test(start_paused = true)]
async fn a_worn_instance_is_replaced_after_its_event() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    actor.guest.wear(1);
    actor.ok("/").await;
    assert_eq!((actor.instance(), actor.guest.alive()), (1, 0));
    assert_eq!(actor.ok("/query").await, "a");
    assert_eq!((actor.instance(), actor.inits()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_made_fails_the_event_before_it_ran() {
    let actor = Actor::start().await;
    actor.guest.fail_instantiations(1);
    assert_eq!(actor.refused("/exec a").await, (Reason::NotInstantiated, Ran::NotRun));
    assert_eq!(actor.guest.started(), []);
    actor.ok("/exec b").await;
    assert_eq!(actor.rows(), ["b"]);
}

// on-init.

#[tokio::test(start_paused = true)]
async fn on_init_runs_once_and_before_the_first_event() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    actor.ok("/exec b").await;
    actor.refused("/trap").await;
    actor.ok("/exec c").await;
    actor.hibernate().await;
    actor.ok("/exec d").await;
    let scripts = actor.guest.scripts(&actor.address);
    assert_eq!(scripts, ["init", "/exec a", "/exec b", "/trap", "/exec c", "/exec d"]);
    assert_eq!(actor.databases.init_component(&actor.address).as_deref(), Some("v1"));
}

#[tokio::test(start_paused = true)]
async fn another_version_takes_over_between_two_events() {
    let actor = Actor::start().await;
    let second = ScriptedGuest::new("v2");
    let replace = |guest: &ScriptedGuest| {
        assert!(actor.tree.replace(&actor.address.class, Arc::new(guest.clone())));
    };
    actor.ok("/exec a").await;
    let (event, from) = scripted_event(actor.address.clone(), "/wait;exec b");
    let (running, ()) = tokio::join!(actor.tree.deliver(event, from), async {
        while actor.guest.waiting() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        replace(&second);
        actor.guest.release(1);
    });
    running.unwrap();
    assert_eq!(actor.rows(), ["a", "b"], "what ran has ended in its own version");
    second.fail_inits(1);
    assert_eq!(actor.refused("/exec c").await, (Reason::InitFailed, Ran::Ran));
    assert_eq!(actor.ok("/exec d;query").await, "a,b,d");
    assert_eq!(second.scripts(&actor.address), ["init", "init", "/exec d;query"]);
    assert_eq!((actor.guest.alive(), second.alive()), (0, 1));

    // The same component again: another instance, and no `on-init`.
    replace(&second);
    actor.ok("/").await;
    assert_eq!(second.started().last().unwrap().instance, 2);
    assert_eq!(second.scripts(&actor.address)[3..], ["/"]);
    let unknown = Class::parse("unknown").unwrap();
    assert!(!actor.tree.replace(&unknown, Arc::new(second)));
}

#[tokio::test(start_paused = true)]
async fn a_failed_on_init_fails_the_event_and_is_tried_with_the_next() {
    let actor = Actor::start().await;
    actor.guest.fail_inits(2);
    for _ in 0..2 {
        assert_eq!(actor.refused("/exec a").await, (Reason::InitFailed, Ran::Ran));
    }
    assert_eq!(actor.rows(), Vec::<String>::new());
    actor.ok("/exec b").await;
    assert_eq!((actor.inits(), actor.rows()), (3, vec!["b".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn an_actor_without_storage_is_initialised_once_too() {
    let actor = Actor::start().await;
    actor.ok("/").await;
    actor.hibernate().await;
    actor.ok("/").await;
    assert_eq!((actor.inits(), actor.databases.opened()), (1, 0));
    // Its first file must not forget it.
    actor.ok("/exec a").await;
    actor.hibernate().await;
    actor.ok("/query").await;
    assert_eq!(actor.inits(), 1);
}

#[tokio::test(start_paused = true)]
async fn on_init_that_is_not_remembered_has_not_happened() {
    let actor = Actor::start().await;
    actor.databases.fail(Fault::WriteMeta, 1);
    assert_eq!(actor.refused("/exec a").await, (Reason::DatabaseUnusable, Ran::Ran));
    assert_eq!(actor.rows(), Vec::<String>::new());
    actor.ok("/exec b").await;
    assert_eq!((actor.inits(), actor.rows()), (2, vec!["b".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn what_on_init_leaves_open_is_rolled_back() {
    let actor = Actor::start().await;
    actor.guest.set_init("exec made;exec BEGIN;exec undone");
    assert_eq!(actor.ok("/exec a;query").await, "made,a");
}

#[tokio::test(start_paused = true)]
async fn a_delete_in_on_init_leaves_nothing_to_remember() {
    for (init, sees) in [("exec a;delete", "a"), ("exec a;delete-durable", "not allowed")] {
        let actor = Actor::start().await;
        actor.guest.set_init(init);
        for inits in 1..4 {
            assert!(actor.ok("/query").await.starts_with(sees));
            assert!(!actor.databases.has_file(&actor.address));
            assert_eq!(actor.inits(), inits, "{init}: each event meets a new actor");
        }
    }
}

// Databases that fail.

#[tokio::test(start_paused = true)]
async fn a_database_that_does_not_open_is_no_end_of_the_actor() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    actor.hibernate().await;
    actor.databases.fail(Fault::Open, 1);
    // A retry can help, and the event has not run.
    assert_eq!(actor.refused("/query").await, (Reason::Unavailable, Ran::NotRun));
    assert_eq!(actor.ok("/query").await, "a");
    actor.hibernate().await;
    actor.databases.fail(Fault::Damaged, 1);
    assert_eq!(actor.refused("/query").await, (Reason::DatabaseUnusable, Ran::NotRun));
    assert_eq!(actor.ok("/query").await, "a");
    actor.hibernate().await;
    actor.databases.fail(Fault::ReadMeta, 1);
    assert_eq!(actor.refused("/query").await, (Reason::DatabaseUnusable, Ran::NotRun));
    assert_eq!(actor.ok("/query").await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_database_that_failed_is_given_up_with_its_instance() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    for (fault, script) in [
        (Fault::Statement, "/exec lost;exec refused;query"),
        (Fault::Sync, "/durable b;query"),
        (Fault::EndEvent, "/"),
    ] {
        let (instance, opened) = (actor.instance(), actor.databases.opened());
        actor.databases.fail(fault, 1);
        let answer = actor.ok(script).await;
        let failed = fault != Fault::EndEvent;
        assert_eq!(answer.starts_with("internal"), failed, "{fault:?} {answer:?}");
        // The next event has both anew.
        assert!(actor.ok("/query").await.starts_with('a'));
        assert_eq!(actor.instance(), instance + 1, "{fault:?}");
        assert_eq!(actor.databases.opened(), opened + 1, "{fault:?}");
    }
    assert!(!actor.rows().iter().any(|row| row == "lost" || row == "refused"));
    assert_eq!(actor.inits(), 1);
}

#[tokio::test(start_paused = true)]
async fn durable_statements_sync_and_end_a_transaction_only() {
    let actor = Actor::start().await;
    assert_eq!(actor.ok("/durable a").await, "1");
    assert!(actor.ok("/exec BEGIN;durable b").await.starts_with("not allowed"));
    assert_eq!(actor.ok("/exec BEGIN;exec c;durable COMMIT").await, "1");
    assert_eq!(actor.ok("/query").await, "a,c");
}

// Deletes.

#[tokio::test(start_paused = true)]
async fn delete_self_takes_effect_at_the_end_of_the_event() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    assert_eq!(actor.ok("/delete;exec b;query").await, "a,b");
    assert!(!actor.databases.has_file(&actor.address));
    assert_eq!((actor.databases.open_now(), actor.guest.alive()), (0, 0));
    // The next event meets a new actor.
    assert_eq!(actor.ok("/query").await, "");
    assert_eq!((actor.inits(), actor.databases.removed()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_carried_out_though_its_event_failed() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    assert_eq!(actor.refused("/exec BEGIN;delete;trap").await, (Reason::Trapped, Ran::Ran));
    assert_eq!(actor.ok("/query").await, "");
    assert_eq!(actor.inits(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_actor_without_a_file_can_be_deleted() {
    let actor = Actor::start().await;
    actor.ok("/").await;
    actor.ok("/delete").await;
    assert_eq!(actor.databases.fileless_init(&actor.address).unwrap(), None);
    actor.ok("/").await;
    assert_eq!(actor.inits(), 2);
}

#[tokio::test(start_paused = true)]
async fn after_a_durable_delete_the_event_has_no_storage() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    assert_eq!(actor.ok("/delete-durable").await, "deleted");
    actor.ok("/exec b").await;
    assert!(actor.ok("/delete-durable;exec c").await.starts_with("not allowed"));
    assert!(actor.ok("/delete-durable;query").await.starts_with("not allowed"));
    assert!(!actor.databases.has_file(&actor.address));
    assert_eq!(actor.ok("/query").await, "");
}

#[tokio::test(start_paused = true)]
async fn a_durable_delete_inside_a_transaction_changes_nothing() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    let answer = actor.ok("/exec BEGIN;exec b;delete-durable").await;
    assert!(answer.starts_with("not allowed"), "{answer}");
    assert_eq!(actor.ok("/exec BEGIN;exec c;delete-durable;exec COMMIT;query").await, "a,c");
    assert_eq!(actor.databases.removed(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_durable_delete_leaves_only_its_retry() {
    let actor = Actor::start().await;
    actor.ok("/exec a").await;
    actor.databases.fail(Fault::Remove, 1);
    assert!(actor.ok("/delete-durable;exec b").await.starts_with("not allowed"));
    assert_eq!(actor.databases.removed(), 1, "tried again when the event ended");

    actor.ok("/exec a").await;
    actor.databases.fail(Fault::Remove, 1);
    assert_eq!(actor.ok("/delete-durable;delete-durable").await, "deleted");
    assert_eq!(actor.databases.removed(), 2);

    actor.ok("/exec a").await;
    actor.databases.fail(Fault::Remove, 2);
    assert!(actor.ok("/delete-durable;delete-durable").await.starts_with("internal"));
    assert_eq!(actor.databases.removed(), 3);
    assert_eq!(actor.ok("/query").await, "");
}

/// Reads the rows of the actor's database, as an operator does.
async fn inspect(actor: &Actor) -> Inspected<Vec<String>> {
    let read = |database: &mut dyn Database| {
        let rows = database.query_read_only("", Vec::new(), 100).unwrap().set.rows;
        rows.into_iter().map(|row| format!("{row:?}")).collect()
    };
    actor.tree.inspect(&actor.address, read).await
}

#[tokio::test(start_paused = true)]
async fn an_inspection_makes_no_database_and_runs_no_code() {
    let actor = Actor::start().await;
    assert_eq!(inspect(&actor).await.unwrap(), None);
    assert!(!actor.databases.has_file(&actor.address));
    actor.ok("exec row").await;
    assert_eq!(inspect(&actor).await.unwrap().unwrap().len(), 1);
    // Asleep, only its database is opened.
    sleep(IDLE_TIMEOUT * 2).await;
    assert!(!actor.tree.is_resident(&actor.address));
    let ran = actor.guest.started().len();
    assert_eq!(inspect(&actor).await.unwrap().unwrap().len(), 1);
    assert!(actor.tree.is_resident(&actor.address));
    assert_eq!(actor.guest.started().len(), ran);
    // It leaves memory again, and its database is closed in order.
    sleep(IDLE_TIMEOUT * 2).await;
    assert_eq!(actor.databases.open_now(), 0);
    actor.databases.assert_rules_kept();
}

#[tokio::test(start_paused = true)]
async fn an_inspection_of_a_database_that_does_not_open_says_why_and_the_next_one_may_open_it() {
    let actor = Actor::start().await;
    actor.ok("exec row").await;
    sleep(IDLE_TIMEOUT * 2).await;
    actor.databases.fail(Fault::Damaged, 1);
    assert!(matches!(inspect(&actor).await, Err(InspectError::NotOpened(_))));
    assert_eq!(inspect(&actor).await.unwrap().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_inspection_waits_for_the_event_that_runs() {
    let actor = Actor::start().await;
    actor.ok("exec first").await;
    let (event, rows, ()) = tokio::join!(
        actor.deliver("wait;exec second"),
        async {
            // The event runs by now.
            sleep(Duration::from_millis(1)).await;
            inspect(&actor).await
        },
        async {
            sleep(Duration::from_millis(500)).await;
            actor.guest.release(1);
        }
    );
    event.unwrap();
    assert_eq!(rows.unwrap().unwrap().len(), 2, "it did not wait for the event");
}
