//! Durable writes that are not durable when the next event begins.

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::limits::ANSWERS_HELD_MAX;
use crate::testing::Fault;

type Asked = JoinHandle<Result<String, (Reason, Ran)>>;

/// An actor whose syncs last as long as the test wants.
struct Busy {
    node: Arc<Node>,
    syncs: Arc<Semaphore>,
}

impl Busy {
    async fn start() -> Self {
        let node = Arc::new(Node::start().await);
        let syncs = node.databases.hold_syncs();
        Self { node, syncs }
    }

    fn ask(&self, script: &'static str) -> Asked {
        let node = Arc::clone(&self.node);
        tokio::spawn(async move { node.ask("a/x", script).await })
    }

    /// Has the actor run these scripts one after the other, the first one while the others wait.
    async fn run(&self, scripts: &[&'static str]) -> Vec<Asked> {
        let before = self.node.guest.waiting();
        let mut asked = vec![self.ask("/wait")];
        while self.node.guest.waiting() == before {
            sleep(MS).await;
        }
        for script in scripts {
            asked.push(self.ask(script));
            sleep(MS).await;
        }
        self.node.guest.release(1);
        sleep(10 * MS).await;
        asked.remove(0).await.expect("it ends").expect("it waited for nothing durable");
        asked
    }

    fn ran(&self, actor: &str, script: &str) -> bool {
        self.node.guest.scripts(&address(actor)).iter().any(|ran| ran == script)
    }

    async fn sync(&self) {
        self.syncs.add_permits(1);
        sleep(MS).await;
    }
}

async fn answer(asked: Asked) -> Result<String, (Reason, Ran)> {
    asked.await.expect("it ends")
}

fn none_ended(asked: &[Asked]) -> bool {
    asked.iter().all(|asked| !asked.is_finished())
}

const LOST: Result<String, (Reason, Ran)> = Err((Reason::NotDurable, Ran::Ran));

#[tokio::test(start_paused = true)]
async fn the_next_event_runs_before_a_write_is_durable_and_no_answer_leaves_before_it_is() {
    let busy = Busy::start().await;
    let mut asked = busy.run(&["/durable a", "/query", "/"]).await;
    assert!(busy.ran("a/x", "/query"), "it did not wait for the sync");
    assert!(none_ended(&asked));
    busy.sync().await;
    assert_eq!(answer(asked.remove(0)).await, Ok("1".into()));
    assert_eq!(answer(asked.remove(0)).await, Ok("a".into()));
    assert!(answer(asked.remove(0)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn writes_of_many_events_share_a_sync() {
    let busy = Busy::start().await;
    let asked = busy.run(&["/durable a", "/durable b", "/durable c", "/durable d", "/"]).await;
    assert!(none_ended(&asked));
    assert_eq!(busy.node.databases.synced_beside(), 1);
    busy.sync().await;
    for asked in asked {
        assert!(answer(asked).await.is_ok());
    }
    assert_eq!(busy.node.databases.synced_beside(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_for_whose_end_nobody_waits_is_durable_when_the_call_returns() {
    let busy = Busy::start().await;
    assert_eq!(busy.node.ok("a/x", "/durable a").await, "1");
    assert_eq!(busy.node.databases.synced_beside(), 0);
    busy.node.databases.fail(Fault::Sync, 1);
    let told = busy.node.ok("a/x", "/durable b").await;
    assert!(told.starts_with("internal: "), "the guest learns of it: {told}");
}

#[tokio::test(start_paused = true)]
async fn when_a_sync_fails_every_answer_since_is_refused_and_the_actor_starts_anew() {
    let busy = Busy::start().await;
    busy.node.databases.fail(Fault::Sync, 1);
    let asked = busy.run(&["/durable a", "/exec b", "/wait;exec c"]).await;
    let opened = busy.node.databases.opened();
    busy.sync().await;
    let mut asked = asked.into_iter();
    assert_eq!(answer(asked.next().expect("an event")).await, LOST);
    assert_eq!(answer(asked.next().expect("an event")).await, LOST);
    busy.node.guest.release(1);
    assert_eq!(answer(asked.next().expect("an event")).await, LOST, "it ran on what was lost");
    assert_eq!(busy.node.databases.rows(&address("a/x")), ["a", "b"], "and stored nothing more");
    busy.node.ok("a/x", "/query").await;
    assert_eq!(busy.node.databases.opened(), opened + 1);
    // What comes after is as durable as ever.
    let asked = busy.run(&["/durable d", "/"]).await;
    assert!(none_ended(&asked));
    busy.sync().await;
    for asked in asked {
        assert!(answer(asked).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_not_made_before_what_it_may_tell_of_is_durable() {
    for scripts in [["/durable a;call a/y /exec b", "/"], ["/durable a", "/call a/y /exec b"]] {
        let busy = Busy::start().await;
        let asked = busy.run(&scripts).await;
        assert!(none_ended(&asked));
        assert!(!busy.ran("a/y", "/exec b"), "{scripts:?}");
        busy.sync().await;
        for asked in asked {
            assert!(answer(asked).await.is_ok());
        }
        assert!(busy.ran("a/y", "/exec b"), "{scripts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_an_event_whose_write_was_lost_is_not_made() {
    let busy = Busy::start().await;
    busy.node.databases.fail(Fault::Sync, 1);
    let mut asked = busy.run(&["/durable a;call a/y /exec b", "/"]).await;
    busy.sync().await;
    assert_eq!(answer(asked.remove(0)).await, LOST);
    assert!(!busy.ran("a/y", "/exec b"));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_write_was_lost_while_it_ran_is_not_answered_by_its_handler() {
    for script in ["/durable a;wait", "/durable a;wait;call a/y /exec b"] {
        let busy = Busy::start().await;
        busy.node.databases.fail(Fault::Sync, 1);
        let mut asked = busy.run(&[script, "/"]).await;
        busy.sync().await;
        busy.node.guest.release(1);
        assert_eq!(answer(asked.remove(0)).await, LOST, "{script}");
        assert!(!busy.ran("a/y", "/exec b"));
        assert!(answer(asked.remove(0)).await.is_ok(), "the next one starts anew");
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_so_many_held_answers_the_next_event_waits() {
    let busy = Busy::start().await;
    let mut asked = busy.run(&["/durable a", "/", "/"]).await;
    for _ in 0..ANSWERS_HELD_MAX {
        asked.push(busy.ask("/"));
    }
    sleep(MS).await;
    asked.push(busy.ask("/last"));
    sleep(10 * MS).await;
    assert!(none_ended(&asked));
    assert!(!busy.ran("a/x", "/last"));
    busy.sync().await;
    for asked in asked {
        assert!(answer(asked).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn after_its_answer_an_event_waits_for_its_durable_writes() {
    let busy = Busy::start().await;
    let mut asked = busy.run(&["/durable a;answer;durable b", "/query"]).await;
    assert!(none_ended(&asked));
    assert!(!busy.ran("a/x", "/query"), "the first event waits inside");
    busy.sync().await;
    assert_eq!(answer(asked.remove(0)).await, Ok("1".into()));
    assert_eq!(answer(asked.remove(0)).await, Ok("a,b".into()));
}

#[tokio::test(start_paused = true)]
async fn a_delete_waits_for_the_answers_that_tell_of_what_it_deletes() {
    for delete in ["/delete", "/delete-durable"] {
        let busy = Busy::start().await;
        let asked = busy.run(&["/durable a", delete, "/"]).await;
        assert_eq!(busy.node.databases.removed(), 0, "{delete}");
        busy.sync().await;
        for asked in asked {
            assert!(answer(asked).await.is_ok(), "{delete}");
        }
        assert_eq!(busy.node.databases.removed(), 1, "{delete}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_held_answers_leave() {
    let busy = Busy::start().await;
    let asked = busy.run(&["/durable a", "/query"]).await;
    let stopping = Arc::clone(&busy.node);
    let stopped = tokio::spawn(async move { stopping.tree.stop(Duration::from_secs(30)).await });
    sleep(10 * MS).await;
    assert_eq!(busy.node.databases.closed(), 0);
    busy.sync().await;
    for asked in asked {
        assert!(answer(asked).await.is_ok());
    }
    stopped.await.expect("it stops");
    assert_eq!(busy.node.databases.open_now(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_host_loses_what_was_not_durable_and_closes_the_database() {
    let busy = Busy::start().await;
    let mut asked = busy.run(&["/durable a", "/panic"]).await;
    assert_eq!(answer(asked.remove(0)).await, LOST);
    busy.sync().await;
    busy.node.ok("a/x", "/query").await;
    busy.node.databases.assert_rules_kept();
}
