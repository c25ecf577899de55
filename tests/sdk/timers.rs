use serde_json::{Value as Json, json};

use super::{sdk, sdk_in_typescript};
use crate::support::{Actor, HOUR_MS, eventually, in_parallel, now_ms};

impl Actor {
    #[track_caller]
    fn set_timer(&self, key: &str, ms: u64) {
        assert_eq!(self.post(&format!("/timer?key={key}&in={ms}"), "").json(), json!({}));
    }

    /// `(key, due, attempts)`, the earliest first.
    #[track_caller]
    fn timers(&self) -> Vec<(String, u64, u32)> {
        serde_json::from_value(self.get("/timers").json()).expect("timers")
    }

    #[track_caller]
    fn keys(&self) -> Vec<String> {
        self.timers().into_iter().map(|(key, _, _)| key).collect()
    }

    #[track_caller]
    fn alarm_at(&self) -> Option<u64> {
        self.get("/alarm").json().as_u64()
    }

    /// `(key, attempt)` of each handler that succeeded.
    #[track_caller]
    fn succeeded(&self) -> Vec<(String, u32)> {
        serde_json::from_value(self.get("/ran").json()).expect("handlers that ran")
    }

    /// Whether a timer has succeeded in this attempt.
    fn has_run(&self, key: &str, attempt: u32) -> bool {
        self.succeeded().contains(&(key.to_owned(), attempt))
    }
}

#[test]
fn the_earliest_timer_sets_the_alarm_and_a_key_has_one_timer() {
    let node = sdk().start();
    let actor = node.actor("sdk/a");
    let alarm_is_the_earliest = || {
        let timers = actor.timers();
        assert_eq!(actor.alarm_at(), timers.first().map(|(_, due, _)| *due), "{timers:?}");
    };
    assert_eq!((actor.timers(), actor.alarm_at()), (Vec::new(), None));
    for (key, hours) in [("b", 2), ("a", 3), ("c", 1)] {
        actor.set_timer(key, hours * HOUR_MS);
        alarm_is_the_earliest();
    }
    assert_eq!(actor.keys(), ["c", "b", "a"]);
    actor.set_timer("c", 4 * HOUR_MS);
    assert_eq!(actor.keys(), ["b", "a", "c"], "replaced, not doubled");
    alarm_is_the_earliest();
    let cancel = |key| actor.send("DELETE", &format!("/timer?key={key}"), &[], &[]).json();
    assert_eq!(cancel("b"), json!({ "cancelled": true }));
    assert_eq!(cancel("b"), json!({ "cancelled": false }));
    alarm_is_the_earliest();
    cancel("a");
    cancel("c");
    alarm_is_the_earliest();
    assert_eq!(actor.succeeded(), [], "none was due");
}

#[test]
fn a_timer_is_set_or_not_with_its_transaction() {
    let mut node = sdk().start();
    let actor = node.actor("sdk/a");
    actor.set_timer("kept", 2 * HOUR_MS);
    let rolled_back = format!("/timer?key=kept&also=other&in={HOUR_MS}&then=fail");
    assert_eq!(actor.post(&rolled_back, "").status, 409);
    for _ in 0..2 {
        let actor = node.actor("sdk/a");
        let timers = actor.timers();
        assert_eq!(timers.len(), 1, "{timers:?}");
        assert_eq!(actor.alarm_at(), Some(timers[0].1));
        assert!(timers[0].1 > now_ms() + HOUR_MS, "{timers:?}");
        node.kill();
        node.start_again();
    }
}

#[test]
fn each_timer_runs_once_when_it_is_due_and_may_change_others() {
    let node = sdk().start();
    let actor = node.actor("sdk/a");
    // More than run in one event, all at once.
    let many: Vec<String> = (0..70).map(|i| format!("many-{i}")).collect();
    in_parallel(4, |worker| {
        for key in many.iter().skip(worker).step_by(4) {
            actor.set_timer(key, 300);
        }
    });
    actor.set_timer("victim", HOUR_MS);
    actor.set_timer("cancel-victim", 0);
    actor.set_timer("again", 0);
    actor.set_timer("later", HOUR_MS);
    eventually("all have run", || actor.succeeded().len() >= 74);
    assert_eq!(actor.keys(), ["later"]);
    let mut ran = actor.succeeded();
    ran.sort();
    let mut expected: Vec<(String, u32)> = many.into_iter().map(|key| (key, 1)).collect();
    expected.extend(["cancel-victim", "again", "again", "again"].map(|key| (key.to_owned(), 1)));
    expected.sort();
    assert_eq!(ran, expected);
}

#[test]
fn a_failing_timer_is_retried_and_holds_up_no_other() {
    let node = sdk().errors_are_fine().start();
    let actor = node.actor("sdk/a");
    actor.set_timer("fail", 0);
    actor.set_timer("twice", 0);
    actor.set_timer("trap", 0);
    eventually("what failed once has succeeded", || actor.has_run("twice", 2));
    let attempts = |key: &str| {
        let timers = actor.timers().into_iter();
        timers.filter(|(have, _, _)| have == key).map(|(_, _, attempts)| attempts).next()
    };
    let first_due = now_ms();
    for key in ["fail", "trap"] {
        eventually("it is tried again", || attempts(key).is_some_and(|attempts| attempts >= 3));
        // Also after a trap: others are not held up by one that stays due.
        eventually("it is put off", || {
            actor.timers().iter().any(|(have, due, _)| have == key && *due > first_due)
        });
    }
    // Between their attempts, and right beside them, others run at the first.
    for i in 0..6 {
        let key = format!("ok-{i}");
        actor.set_timer(&key, 0);
        eventually("the other runs", || actor.has_run(&key, 1));
    }
    let ran = actor.succeeded();
    assert!(!ran.iter().any(|(key, _)| ["fail", "trap"].contains(&&**key)), "{ran:?}");
    node.logged("timer \"fail\", attempt 2, again in 2s: told to fail");
    // Set anew, a timer begins anew.
    actor.set_timer("fail", HOUR_MS);
    assert_eq!(attempts("fail"), Some(0));
    let cancelled = actor.send("DELETE", "/timer?key=trap", &[], &[]).json();
    assert_eq!(cancelled, json!({ "cancelled": true }));
    assert_eq!(actor.keys(), ["fail"]);
}

#[test]
fn a_timer_whose_handler_was_killed_runs_again_and_what_it_wrote_is_there_once() {
    let mut node = sdk().start();
    let actor = node.actor("sdk/a");
    actor.set_timer("later", HOUR_MS);
    actor.set_timer("slow", 0);
    node.logged("timer slow begins, attempt 1");
    node.kill();
    node.start_again();
    let actor = node.actor("sdk/a");
    eventually("it has run again", || actor.has_run("slow", 2));
    assert_eq!(actor.succeeded().len(), 1);
    assert_eq!(actor.keys(), ["later"]);
    assert_eq!(actor.alarm_at(), Some(actor.timers()[0].1));
}

#[test]
fn timers_due_while_the_node_is_down_run_after_its_start() {
    for kills in [false, true] {
        let mut node = sdk().start();
        let actor = node.actor("sdk/a");
        for key in ["a", "b", "c"] {
            actor.set_timer(key, 500);
        }
        actor.set_timer("later", HOUR_MS);
        let due = now_ms() + 500;
        if kills {
            node.kill();
        } else {
            node.stop_cleanly();
        }
        eventually("they are due", || now_ms() > due);
        node.start_again();
        let actor = node.actor("sdk/a");
        eventually("they have run", || actor.keys() == ["later"]);
        let ran: Vec<Json> = actor.succeeded().into_iter().map(|(key, _)| json!(key)).collect();
        assert_eq!(ran, ["a", "b", "c"]);
    }
}

#[test]
fn timers_go_on_between_the_languages() {
    let mut node = sdk().start();
    let actor = node.actor("sdk/a");
    actor.set_timer("later", 2 * HOUR_MS);
    actor.set_timer("now", 0);
    eventually("it has run", || actor.has_run("now", 1));
    // A time that a number of JavaScript does not hold.
    actor.set_timer("never", u64::MAX);
    actor.set_timer("due", 500);
    node.kill();
    node.start_again_as(sdk_in_typescript());
    let actor = node.actor("sdk/a");
    eventually("it has run", || actor.has_run("due", 1));
    assert_eq!(actor.keys(), ["later", "never"]);
    actor.set_timer("sooner", HOUR_MS);
    actor.set_timer("later", 3 * HOUR_MS);
    node.stop_cleanly();
    node.start_again_as(sdk());
    let actor = node.actor("sdk/a");
    assert_eq!(actor.keys(), ["sooner", "later", "never"]);
    assert_eq!(actor.alarm_at(), Some(actor.timers()[0].1));
}
