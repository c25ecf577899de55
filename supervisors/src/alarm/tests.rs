//! Alarms over a real tree, with the disk in memory and both clocks in the test's hand.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::record::Alarm;
use crate::address::{ActorName, Address, Class, Tenant};
use crate::event::{Body, Refusal};
use crate::limits::{ALARMS_AT_ONCE, IDLE_TIMEOUT};
use crate::ports::{Clock, Databases, Meta};
use crate::testing::{
    Fault, ManualClock, MemoryDatabases, ScriptedGuest, TreeSetup, scripted_event,
};
use crate::time::Timestamp;
use crate::tree::Tree;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A node that serves class `a`; it may be stopped and started on the same disk.
struct Node {
    setup: TreeSetup,
    tree: Option<Tree>,
    guest: ScriptedGuest,
}

impl Node {
    async fn start() -> Self {
        Self::with(TreeSetup::new()).await
    }

    async fn with(setup: TreeSetup) -> Self {
        let guest = ScriptedGuest::new("v1");
        let setup = setup.class("a", &guest);
        let mut node = Self { setup, tree: None, guest };
        node.restart().await;
        node
    }

    async fn restart(&mut self) {
        self.stop().await;
        let tree = self.setup.start().await;
        tree.begin_alarms();
        self.tree = Some(tree);
    }

    async fn stop(&mut self) {
        if let Some(tree) = self.tree.take() {
            tree.stop(Duration::ZERO).await;
        }
    }

    async fn try_ask(&self, name: &str, script: &str) -> Result<String, Refusal> {
        let (event, from) = scripted_event(address(name), script);
        match self.tree.as_ref().unwrap().deliver(event, from).await?.body {
            Body::Whole(bytes) => Ok(String::from_utf8(bytes.to_vec()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    async fn ask(&self, name: &str, script: &str) -> String {
        self.try_ask(name, script).await.unwrap()
    }

    /// Sets an alarm for so many milliseconds from now.
    async fn set(&self, name: &str, ms: u64) -> u64 {
        let at = self.clock().now().0 + ms;
        assert_eq!(self.ask(name, &format!("/set {at}")).await, "done");
        at
    }

    fn fired(&self, name: &str) -> usize {
        self.guest.scripts(&address(name)).iter().filter(|script| *script == "alarm").count()
    }

    fn clock(&self) -> &ManualClock {
        &self.setup.clock
    }

    fn disk(&self) -> &MemoryDatabases {
        &self.setup.databases
    }

    fn pending(&self, name: &str) -> Option<Alarm> {
        let text = self.disk().meta(&address(name), Meta::Alarm)?;
        Some(Alarm::from_text(&text).unwrap())
    }
}

fn address(name: &str) -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("a").unwrap(),
        name: ActorName::parse(name).unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_alarm_fires_once_when_it_is_due_and_not_before() {
    let node = Node::start().await;
    let at = node.set("x", 10_000).await;
    assert_eq!(node.ask("x", "/get").await, at.to_string());
    sleep(SECOND * 9).await;
    assert_eq!(node.fired("x"), 0);
    sleep(SECOND * 2).await;
    assert_eq!(node.fired("x"), 1);
    sleep(SECOND * 1000).await;
    assert_eq!(node.fired("x"), 1);
    assert_eq!(node.pending("x"), None);
    assert_eq!(node.disk().index(&address("x")), None);
}

/// What becomes of an alarm by what its handler does: script, and how often it has run after 1 s
/// and after 20 s.
#[tokio::test(start_paused = true)]
async fn what_a_handler_does_decides_what_is_pending() {
    let now = 1_000_000;
    let rows = [
        // 1 s, 2 s, 4 s, 8 s after one another.
        ("refuse", 1, 5),
        ("trap", 1, 5),
        ("spend", 1, 5),
        (&format!("set {};refuse", now + 3_000)[..], 1, 5),
        ("set 0;clear;trap", 1, 5),
        ("clear;refuse", 1, 5),
        ("exec row", 1, 1),
        (&format!("set {}", now + 3_000_000), 1, 1),
        (&format!("set {};clear", now + 2_000), 1, 1),
        (&format!("exec BEGIN;set {};exec ROLLBACK", now + 2_000), 1, 1),
        (&format!("exec BEGIN;set {}", now + 2_000), 1, 1),
        ("delete;refuse", 1, 1),
        ("delete-durable", 1, 1),
        ("delete", 1, 1),
    ];
    for (script, soon, later) in rows {
        let node = Node::start().await;
        node.guest.set_alarm(script);
        node.set("x", 0).await;
        sleep(SECOND * 9 / 10).await;
        assert_eq!(node.fired("x"), soon, "{script}");
        sleep(SECOND * 20).await;
        assert_eq!(node.fired("x"), later, "{script}");
        check_index(node.disk(), &["x"]).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_and_their_next_time_is_told() {
    let node = Node::start().await;
    node.guest.set_alarm("refuse");
    let at = node.set("x", 0).await;
    sleep(MS * 100).await;
    let next = node.pending("x").unwrap();
    assert_eq!(next.failures, 1);
    assert!((at + 1000..at + 1100).contains(&next.due.0), "{next:?}");
    assert_eq!(node.ask("x", "/get").await, next.due.0.to_string());
    node.guest.set_alarm("attempt;durable attempted");
    sleep(SECOND * 2).await;
    assert_eq!(node.fired("x"), 2);
    assert_eq!(node.ask("x", "/attempt").await, "0");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_sets_its_alarm_for_now_fires_again_until_it_does_not() {
    let node = Node::start().await;
    node.guest.set_alarm("set 1");
    node.set("x", 0).await;
    for _ in 0..10_000 {
        if node.fired("x") >= 10 {
            break;
        }
        sleep(MS).await;
    }
    node.guest.set_alarm("");
    sleep(SECOND).await;
    let fired = node.fired("x");
    assert!(fired >= 10, "{fired}");
    sleep(SECOND * 10).await;
    assert_eq!(node.fired("x"), fired);
}

#[tokio::test(start_paused = true)]
async fn a_new_alarm_during_retries_takes_the_place_of_the_retry() {
    let node = Node::start().await;
    node.guest.set_alarm("refuse");
    node.set("x", 0).await;
    sleep(SECOND * 4).await;
    let at = node.set("x", 60_000).await;
    assert_eq!(node.pending("x"), Some(Alarm { due: Timestamp(at), failures: 0 }));
    let fired = node.fired("x");
    sleep(SECOND * 50).await;
    assert_eq!(node.fired("x"), fired);
    node.ask("x", "/clear").await;
    sleep(SECOND * 50).await;
    assert_eq!(node.fired("x"), fired);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_is_rolled_back_does_not_fire_and_leaves_no_entry() {
    let node = Node::start().await;
    for script in ["/exec BEGIN;set 5;exec ROLLBACK", "/exec BEGIN;set 5", "/exec BEGIN;set 5;trap"]
    {
        let _ = node.try_ask("x", script).await;
        sleep(SECOND * 2).await;
        assert_eq!(node.fired("x"), 0, "{script}");
        assert_eq!(node.disk().index(&address("x")), None, "{script}");
    }
    // What was set before the transaction stays.
    node.set("x", 5_000).await;
    let _ = node.try_ask("x", "/exec BEGIN;clear;trap").await;
    let _ = node.try_ask("x", "/exec BEGIN;set 99999999999;trap").await;
    sleep(SECOND * 6).await;
    assert_eq!(node.fired("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn on_init_that_fails_puts_a_due_alarm_off_and_does_not_lose_it() {
    let mut node = Node::start().await;
    node.set("x", 3_000).await;
    node.stop().await;
    node.guest = ScriptedGuest::new("v2");
    node.setup.classes.clear();
    node.setup = std::mem::take(&mut node.setup).class("a", &node.guest);
    node.guest.fail_inits(2);
    node.restart().await;
    sleep(SECOND * 4).await;
    assert_eq!(node.fired("x"), 0);
    sleep(SECOND * 4).await;
    assert_eq!(node.fired("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_on_init_sets_before_an_alarm_is_kept() {
    let mut node = Node::start().await;
    node.set("x", 1_000).await;
    node.stop().await;
    let at = node.clock().now().0 + 20_000;
    node.guest = ScriptedGuest::new("v2");
    node.guest.set_init(&format!("set {at}"));
    node.guest.set_alarm("trap");
    node.setup.classes.clear();
    node.setup = std::mem::take(&mut node.setup).class("a", &node.guest);
    node.restart().await;
    sleep(SECOND * 5).await;
    // It took the place of the alarm that was due.
    assert_eq!((node.fired("x"), node.pending("x")), (0, Some(Alarm::new(Timestamp(at)))));
    node.guest.set_alarm("");
    sleep(SECOND * 20).await;
    assert_eq!((node.fired("x"), node.pending("x")), (1, None));
}

#[tokio::test(start_paused = true)]
async fn one_busy_actor_holds_up_no_alarm_of_another_on_the_smallest_node() {
    let mut setup = TreeSetup::new();
    setup.config.instances_max = 2;
    let node = Arc::new(Node::with(setup).await);
    let busy = Arc::clone(&node);
    let running = tokio::spawn(async move { busy.ask("busy", "/set 1;wait").await });
    sleep(SECOND).await;
    node.set("x", 0).await;
    sleep(SECOND).await;
    assert_eq!((node.fired("busy"), node.fired("x")), (0, 1));
    node.guest.release(1);
    running.await.unwrap();
    sleep(SECOND).await;
    assert_eq!(node.fired("busy"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_day_of_missed_alarms_is_one_event_after_the_start() {
    let mut node = Node::start().await;
    for name in ["x", "y z", "%", "\u{e9}", &"n".repeat(256)] {
        node.set(name, 1_000).await;
    }
    node.stop().await;
    sleep(SECOND * 86_400).await;
    node.restart().await;
    sleep(SECOND).await;
    for name in ["x", "y z", "%", "\u{e9}", &"n".repeat(256)] {
        assert_eq!(node.fired(name), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_of_the_index_alone_runs_and_creates_nothing() {
    let node = Node::start().await;
    node.ask("x", "/exec row").await;
    let cleared = node.set("y", 50_000).await;
    for name in ["never", "x", "y"] {
        node.disk().set_index(&address(name), Some(Timestamp(0)));
    }
    node.set("rings", 0).await;
    sleep(SECOND * 2).await;
    for name in ["never", "x", "y"] {
        assert_eq!(node.fired(name), 0, "{name}");
    }
    assert!(!node.disk().has_file(&address("never")));
    assert!(node.guest.scripts(&address("never")).is_empty());
    assert_eq!(node.disk().index(&address("never")), None);
    assert_eq!(node.disk().index(&address("x")), None);
    assert_eq!(node.disk().index(&address("y")), Some(Timestamp(cleared)));
}

#[tokio::test(start_paused = true)]
async fn an_overdue_multitude_runs_a_bounded_number_at_once() {
    let mut node = Node::start().await;
    node.setup.config.instances_max = 1000;
    node.restart().await;
    let count = 3000;
    for number in 0..count {
        node.set(&format!("n{number}"), 1_000).await;
    }
    node.stop().await;
    sleep(SECOND * 60).await;
    node.guest.set_alarm("wait");
    node.restart().await;
    let mut served = 0;
    for _ in 0..10_000 {
        sleep(MS).await;
        let waiting = node.guest.waiting();
        assert!(waiting <= ALARMS_AT_ONCE, "{waiting}");
        assert_eq!(node.ask("client", "/exec row").await, "1");
        served += 1;
        node.guest.release(waiting);
        if node.disk().index_len() == 0 {
            break;
        }
    }
    assert!(served > count / ALARMS_AT_ONCE);
    for number in 0..count {
        assert_eq!(node.fired(&format!("n{number}")), 1, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_handlers_do_not_hold_up_other_alarms() {
    let mut setup = TreeSetup::new();
    setup.config.instances_max = 1000;
    let node = Node::with(setup).await;
    node.guest.set_alarm("wait");
    for number in 0..ALARMS_AT_ONCE {
        node.set(&format!("slow{number}"), 1_000).await;
    }
    sleep(SECOND * 3).await;
    assert_eq!(node.guest.waiting(), ALARMS_AT_ONCE);
    node.guest.set_alarm("");
    node.set("quick", 0).await;
    sleep(SECOND).await;
    assert_eq!(node.fired("quick"), 1);
    node.guest.release(ALARMS_AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_is_not_entered_ends_the_storage_of_its_event() {
    let node = Node::start().await;
    node.disk().fail(Fault::WriteIndex, 1);
    let answer = node.ask("x", "/set 5;exec row").await;
    assert!(answer.starts_with("internal"), "{answer}");
    assert!(node.disk().rows(&address("x")).is_empty());
    assert_eq!(node.ask("x", "/exec row").await, "1");
}

#[tokio::test(start_paused = true)]
async fn an_alarm_waits_for_capacity() {
    let mut setup = TreeSetup::new();
    setup.config.instances_max = 1;
    let node = Arc::new(Node::with(setup).await);
    node.set("x", 2_000).await;
    let busy = Arc::clone(&node);
    let running = tokio::spawn(async move { busy.ask("busy", "/wait").await });
    sleep(SECOND * 10).await;
    assert_eq!(node.fired("x"), 0);
    node.guest.release(1);
    running.await.unwrap();
    sleep(SECOND * 10).await;
    assert_eq!(node.fired("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_whose_database_does_not_open_is_tried_again() {
    let mut node = Node::start().await;
    node.set("x", 1_000).await;
    node.stop().await;
    sleep(SECOND * 2).await;
    node.disk().fail(Fault::Open, 3);
    node.restart().await;
    sleep(SECOND * 20).await;
    assert_eq!(node.fired("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_behind_a_long_event_holds_up_no_other() {
    let mut setup = TreeSetup::new();
    // One alarm at once.
    setup.config.instances_max = 4;
    let node = Arc::new(Node::with(setup).await);
    node.set("x", 1000).await;
    node.set("y", 2000).await;
    let busy = Arc::clone(&node);
    let long = tokio::spawn(async move { busy.ask("x", "/wait").await });
    sleep(SECOND * 5).await;
    assert_eq!(node.guest.waiting(), 1);
    assert_eq!((node.fired("x"), node.fired("y")), (0, 1));
    node.guest.release(1);
    long.await.unwrap();
    sleep(SECOND).await;
    assert_eq!((node.fired("x"), node.fired("y")), (1, 1));
}

/// Those that were handed over together have found no capacity once, not as often as they are.
#[tokio::test(start_paused = true)]
async fn a_moment_without_capacity_costs_a_moment() {
    let mut setup = TreeSetup::new();
    setup.config.instances_max = 40;
    let node = Arc::new(Node::with(setup).await);
    for i in 0..10 {
        node.set(&format!("x{i}"), 1000).await;
    }
    let busy: Vec<_> = (0..40)
        .map(|i| {
            let node = Arc::clone(&node);
            tokio::spawn(async move { node.ask(&format!("busy{i}"), "/wait").await })
        })
        .collect();
    let fired = || (0..10).filter(|i| node.fired(&format!("x{i}")) == 1).count();
    sleep(MS * 1300).await;
    assert_eq!((node.guest.waiting(), fired()), (40, 0));
    node.guest.release(40);
    sleep(MS * 700).await;
    assert_eq!(fired(), 10, "they are left alone for longer than there was no capacity");
    for busy in busy {
        busy.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_goes_while_it_is_put_off_is_forgotten() {
    let node = Node::start().await;
    node.set("x", 1000).await;
    sleep(IDLE_TIMEOUT * 2).await;
    assert_eq!(node.fired("x"), 1);
    let at = node.set("x", 60_000).await;
    // Asleep, it is woken by the alarm, and not read.
    node.disk().fail(Fault::Open, 1);
    sleep(SECOND * 61).await;
    assert!(node.clock().now().0 > at);
    assert_eq!(node.fired("x"), 1);
    node.ask("x", "/clear").await;
    sleep(SECOND * 10).await;
    let before = node.disk().index_reads();
    sleep(SECOND * 100).await;
    let reads = node.disk().index_reads() - before;
    assert_eq!(reads, 0, "the timer looks for what is not there");
    assert_eq!(node.fired("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forward_makes_alarms_due() {
    let node = Node::start().await;
    let at = node.set("x", 3_600_000).await;
    sleep(SECOND * 10).await;
    node.clock().set(5);
    sleep(SECOND * 10).await;
    assert_eq!(node.fired("x"), 0);
    node.clock().set(at);
    sleep(SECOND * 2).await;
    assert_eq!(node.fired("x"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_between_alarms_loses_none() {
    let node = Node::start().await;
    node.guest.set_alarm("panic");
    node.set("x", 0).await;
    sleep(SECOND).await;
    node.guest.set_alarm("");
    sleep(SECOND * 10).await;
    assert!(node.fired("x") >= 2);
    assert_eq!(node.pending("x"), None);
}

#[tokio::test(start_paused = true)]
async fn a_durable_write_makes_the_entry_of_a_pending_alarm_durable() {
    let node = Node::start().await;
    node.ask("x", "/durable row").await;
    assert_eq!(node.disk().index_synced(), 0);
    node.set("x", 60_000).await;
    node.ask("x", "/durable row").await;
    assert_eq!(node.disk().index_synced(), 1);
}

/// The rule of the index: for every alarm that a database holds there is an entry, and it is not
/// late.
fn check_index(disk: &MemoryDatabases, names: &[&str]) -> Result<(), String> {
    for name in names {
        let address = address(name);
        let Some(text) = disk.meta(&address, Meta::Alarm) else { continue };
        let due = Alarm::from_text(&text).unwrap().due;
        match disk.index(&address) {
            Some(indexed) if indexed <= due => {}
            indexed => return Err(format!("{name} is due at {due:?} and indexed at {indexed:?}")),
        }
    }
    Ok(())
}

/// Runs a history, crashes after `writes` writes, and returns what the checker says of the disk.
async fn crash(writes: usize, late_index: bool) -> (usize, Result<(), String>) {
    let mut node = Node::start().await;
    node.disk().write_index_late(late_index);
    node.disk().crash_after(Some(writes));
    let now = node.clock().now().0;
    let history = [
        format!("/set {}", now + 900_000),
        format!("/set {}", now + 500_000),
        format!("/exec BEGIN;set {};exec row;exec COMMIT", now + 300_000),
        format!("/exec BEGIN;set {};exec ROLLBACK", now + 100_000),
        format!("/set {};trap", now + 200_000),
        "/clear".to_owned(),
        format!("/exec BEGIN;set {};trap", now + 100_000),
        format!("/set {};delete", now + 1_000),
        format!("/set {}", now + 2_000),
    ];
    for script in history {
        let _ = node.try_ask("x", &script).await;
    }
    // Once failing, then setting itself anew, then ending.
    for script in ["set 3;refuse", &format!("set {}", now + 40_000), ""] {
        node.guest.set_alarm(script);
        sleep(SECOND * 15).await;
    }
    let written = node.disk().writes();
    node.stop().await;
    node.disk().crash_after(None);
    (written, check_index(node.disk(), &["x"]))
}

#[tokio::test(start_paused = true)]
async fn no_crash_leaves_an_alarm_out_of_the_index() {
    let (writes, whole) = crash(usize::MAX, false).await;
    whole.unwrap();
    assert!(writes > 20, "{writes}");
    for at in 0..writes {
        let (_, checked) = crash(at, false).await;
        checked.unwrap_or_else(|broken| panic!("crashed after {at} writes: {broken}"));
    }
}

/// The broken twin: an index that is written after the database.
#[tokio::test(start_paused = true)]
async fn a_late_index_is_caught() {
    let (writes, _) = crash(usize::MAX, true).await;
    let mut caught = 0;
    for at in 0..writes {
        caught += usize::from(crash(at, true).await.1.is_err());
    }
    assert!(caught > 0);
}

#[tokio::test(start_paused = true)]
async fn whatever_a_crash_left_what_is_pending_fires() {
    for writes in 0..12 {
        let mut node = Node::start().await;
        node.disk().crash_after(Some(writes));
        let at = node.clock().now().0 + 5_000;
        let _ = node.try_ask("x", &format!("/exec BEGIN;exec row;set {at};exec COMMIT")).await;
        node.stop().await;
        node.disk().crash_after(None);
        let committed = node.disk().rows(&address("x")) == ["row"];
        assert_eq!(node.pending("x").is_some(), committed, "{writes}");
        node.restart().await;
        sleep(SECOND * 10).await;
        assert_eq!(node.fired("x"), usize::from(committed), "{writes}");
    }
}
