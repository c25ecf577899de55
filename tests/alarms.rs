//! Alarms: when they fire, how often, and what becomes of one whose handler fails.

use serde_json::{Value as Json, json};

use crate::support::{Actor, DONE, HOUR_MS, Node, eventually, in_parallel, now_ms};

/// Waits until an alarm that is due later than all set before has fired.
#[track_caller]
fn an_alarm_fires(node: &Node) {
    let other = node.actor("probe/set-after-all-others");
    other.on_alarm(json!([]));
    other.set_alarm_in(0);
    other.ran(1);
}

#[test]
fn an_alarm_fires_once_when_it_is_due_and_is_gone_then() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let due = now_ms() + 400;
    actor.set_alarm_at(due);
    assert_eq!(actor.pending(), Some(due));
    assert_eq!(actor.get("/alarm").json()["attempt"], 0, "no alarm runs");
    let ran = actor.ran(1);
    assert!(ran[0].at >= due, "it ran {} ms early", due - ran[0].at);
    assert_eq!(ran[0].attempt, 1);
    assert_eq!(actor.pending(), None);
    an_alarm_fires(&node);
    assert_eq!(actor.alarms().len(), 1);
}

#[test]
fn an_alarm_set_for_now_by_its_own_handler_fires_again() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    actor.on_alarm(json!([{ "op": "set-alarm", "in": 0, "runs": 10 }]));
    actor.set_alarm_in(0);
    let ran = actor.ran(11);
    assert!(ran.iter().all(|ran| ran.attempt == 1), "{ran:?}");
    assert_eq!(actor.pending(), None);
}

#[test]
fn a_new_alarm_replaces_the_pending_one_and_a_cleared_one_is_gone() {
    let node = Node::probe().start();
    let rows: [(&str, &[Json], bool); 5] = [
        ("later", &[json!({ "op": "set-alarm", "in": HOUR_MS })], false),
        ("cleared", &[json!({ "op": "clear-alarm" })], false),
        ("sooner", &[json!({ "op": "set-alarm", "in": 0 })], true),
        (
            "cleared-and-set",
            &[json!({ "op": "clear-alarm" }), json!({ "op": "set-alarm", "in": 0 })],
            true,
        ),
        (
            "set-and-cleared",
            &[json!({ "op": "set-alarm", "in": 0 }), json!({ "op": "clear-alarm" })],
            false,
        ),
    ];
    let due = now_ms() + 1500;
    for (name, _, _) in rows {
        node.actor(&format!("probe/{name}")).set_alarm_at(due);
    }
    for (name, steps, _) in rows {
        node.actor(&format!("probe/{name}")).steps(json!(steps));
    }
    assert!(now_ms() < due, "the machine is too slow for this test");
    eventually("the first alarms would be due", || now_ms() > due);
    an_alarm_fires(&node);
    for (name, _, fires) in rows {
        let actor = node.actor(&format!("probe/{name}"));
        if fires {
            actor.ran(1);
        } else {
            assert_eq!(actor.alarms(), [], "{name}");
        }
    }
    assert!(node.actor("probe/later").pending().is_some_and(|at| at > due + HOUR_MS / 2));
    assert_eq!(node.actor("probe/cleared").pending(), None);
}

/// What an event does, how it ends, and whether an alarm is pending or has fired afterwards.
#[test]
fn an_alarm_is_kept_as_the_rest_of_what_its_event_wrote() {
    let node = Node::probe().start();
    let set = json!({ "op": "set-alarm", "in": 0 });
    let exec = |sql: &str| json!({ "op": "exec", "sql": sql });
    let rows: [(&str, Vec<Json>, u16, bool); 9] = [
        ("set", vec![set.clone()], 200, true),
        ("set-then-trap", vec![set.clone(), json!({ "op": "trap" })], 500, true),
        ("set-then-error", vec![set.clone(), json!({ "op": "fail" })], 500, true),
        (
            "in-transaction-then-trap",
            vec![exec("BEGIN"), set.clone(), json!({ "op": "trap" })],
            500,
            false,
        ),
        (
            "in-transaction-then-error",
            vec![exec("BEGIN"), set.clone(), json!({ "op": "fail" })],
            500,
            false,
        ),
        ("left-open", vec![exec("BEGIN"), set.clone()], 200, false),
        ("rolled-back", vec![exec("BEGIN"), set.clone(), exec("ROLLBACK")], 200, false),
        ("committed", vec![exec("BEGIN"), set.clone(), exec("COMMIT")], 200, true),
        (
            "committed-then-trap",
            vec![exec("BEGIN"), set, exec("COMMIT"), json!({ "op": "trap" })],
            500,
            true,
        ),
    ];
    for (name, steps, status, _) in &rows {
        let script = json!({ "steps": steps }).to_string();
        let answer = node.actor(&format!("probe/{name}")).post("/sql", script);
        assert_eq!(answer.status, *status, "{name}: {answer:?}");
    }
    an_alarm_fires(&node);
    for (name, _, _, fires) in rows {
        let actor = node.actor(&format!("probe/{name}"));
        if fires {
            actor.ran(1);
        } else {
            assert_eq!(actor.alarms(), [], "{name}");
        }
        assert_eq!(actor.pending(), None, "{name}");
    }
}

#[test]
fn a_change_that_is_rolled_back_leaves_the_alarm_as_it_was() {
    let node = Node::probe().start();
    let changes = [
        ("cleared", json!({ "op": "clear-alarm" })),
        ("put-off", json!({ "op": "set-alarm", "in": HOUR_MS })),
        ("brought-forward", json!({ "op": "set-alarm", "in": 0 })),
    ];
    for (name, change) in changes {
        let due = now_ms() + 800;
        let actor = node.actor(&format!("probe/{name}"));
        actor.set_alarm_at(due);
        actor.steps(json!([
            { "op": "exec", "sql": "BEGIN" },
            change,
            { "op": "exec", "sql": "ROLLBACK" },
        ]));
        assert_eq!(actor.pending(), Some(due), "{name}");
        let ran = actor.ran(1);
        assert!(ran[0].at >= due, "{name} ran {} ms early", due - ran[0].at);
    }
}

/// The pending alarm of an actor whose handler has failed so often, once that is known.
#[track_caller]
fn next_attempt(actor: &Actor, failures: usize) -> u64 {
    let ran = actor.ran(failures);
    let at = actor.pending().expect("the next attempt is pending");
    let wait = at - ran[failures - 1].at;
    let least = 1000 << (failures - 1);
    assert!((least..least + 900).contains(&wait), "attempt {failures} is repeated after {wait} ms");
    at
}

#[test]
fn a_failed_alarm_is_tried_again_after_1_2_and_4_seconds() {
    let node = Node::probe().start();
    let hour = json!({ "op": "set-alarm", "in": HOUR_MS, "attempts": 3 });
    let now = json!({ "op": "set-alarm", "in": 0, "attempts": 3 });
    let clear = json!({ "op": "clear-alarm", "attempts": 3 });
    let begin = json!({ "op": "exec", "sql": "BEGIN", "attempts": 3 });
    let fail = json!({ "op": "fail", "attempts": 3 });
    let trap = json!({ "op": "trap", "attempts": 3 });
    // What a failing handler says about its alarm is replaced by the retry.
    let rows = [
        ("fails", vec![fail.clone()]),
        ("traps", vec![trap.clone()]),
        ("sets-and-fails", vec![hour.clone(), fail.clone()]),
        ("sets-now-and-traps", vec![now.clone(), trap.clone()]),
        ("clears-and-fails", vec![clear, fail.clone()]),
        ("sets-in-transaction", vec![begin, hour, trap]),
    ];
    in_parallel(rows.len(), |at| {
        let (name, steps) = &rows[at];
        let actor = node.actor(&format!("probe/{name}"));
        actor.on_alarm(json!(steps));
        actor.set_alarm_in(0);
        let mut due = Vec::new();
        for failures in 1..=3 {
            due.push(next_attempt(&actor, failures));
        }
        let ran = actor.ran(4);
        let attempts: Vec<u32> = ran.iter().map(|ran| ran.attempt).collect();
        assert_eq!(attempts, [1, 2, 3, 4], "{name}");
        for (due, ran) in due.iter().zip(&ran[1..]) {
            assert!(ran.at >= *due, "{name} was tried again {} ms early", due - ran.at);
        }
        assert_eq!(actor.pending(), None, "{name}");
    });
}

#[test]
fn what_others_say_about_an_alarm_that_is_being_retried_counts() {
    let node = Node::probe().start();
    let [again, cleared] = ["again", "cleared"].map(|name| node.actor(&format!("probe/{name}")));
    for actor in [&again, &cleared] {
        actor.on_alarm(json!([{ "op": "fail" }]));
        actor.set_alarm_in(0);
        actor.ran(1);
    }
    let gone = cleared.send("DELETE", "/alarm", &[], &[]).json();
    assert_eq!(gone["at"], Json::Null);
    again.ran(2);
    again.set_alarm_in(0);
    eventually("it runs anew", || again.attempts().starts_with(&[1, 2, 1]));
    again.ran(4);
    assert_eq!(again.attempts(), [1, 2, 1, 2]);
    assert_eq!(cleared.attempts(), [1], "a cleared alarm was tried again");
}

#[test]
fn attempts_are_counted_over_a_restart() {
    let mut node = Node::probe().start();
    node.actor("probe/a").on_alarm(json!([{ "op": "fail", "attempts": 3 }]));
    node.actor("probe/a").set_alarm_in(0);
    node.actor("probe/a").ran(2);
    node.restart();
    node.actor("probe/a").ran(3);
    node.kill();
    node.start_again();
    node.actor("probe/a").ran(4);
    assert_eq!(node.actor("probe/a").attempts(), [1, 2, 3, 4]);
}

#[test]
fn a_handler_sees_the_alarm_after_its_own() {
    let node = Node::probe().start();
    let actor = node.actor("probe/a");
    let next = now_ms() + HOUR_MS;
    actor.on_alarm(json!([
        { "op": "get-alarm" },
        { "op": "clear-alarm" },
        { "op": "set-alarm", "at": next },
        { "op": "get-alarm" },
    ]));
    actor.set_alarm_in(0);
    actor.ran(1);
    eventually("it succeeded", || actor.pending() == Some(next));
    let none = json!({ "at": null, "attempt": 1 });
    let set = json!({ "at": next, "attempt": 1 });
    assert_eq!(actor.alarms_said(), [json!([none, none, set, set])]);
}

#[test]
fn an_alarm_waits_for_the_event_before_it_and_holds_up_no_other() {
    // One alarm at once: the one that waits is none of them.
    let node = Node::probe().flag("--max-instances", "4").start();
    let actor = node.actor("probe/a");
    actor.set_alarm_in(500);
    let mut busy = node.busy("probe/a", 4000);
    let due = now_ms() + 500;
    eventually("it is due", || now_ms() > due);
    an_alarm_fires(&node);
    assert!(!busy.has_bytes_within(std::time::Duration::from_millis(1)), "the event is over");
    assert_eq!(busy.chunks().expect("a regular end"), DONE);
    actor.ran(1);
}

#[test]
fn an_alarm_waits_for_capacity() {
    let node = Node::probe().flag("--max-instances", "1").start();
    node.actor("probe/a").set_alarm_in(200);
    let mut busy = node.busy("probe/busy", 2500);
    eventually("it is put off", || node.metric("wasmkeep_alarms_put_off_total", &[]) >= 1.0);
    assert_eq!(busy.chunks().expect("a regular end"), DONE);
    node.actor("probe/a").ran(1);
}

/// Prints how late they were: in a test run, beside others.
#[test]
fn two_hundred_alarms_due_at_once_all_fire() {
    const ALARMS: usize = 200;
    let node = Node::probe().start();
    let due = now_ms() + 2500;
    let actor = |i: usize| node.actor(&format!("probe/a{i}"));
    in_parallel(8, |worker| {
        (worker..ALARMS).step_by(8).for_each(|i| actor(i).set_alarm_at(due));
    });
    let mut late: Vec<u64> = (0..ALARMS).map(|i| actor(i).ran(1)[0].at - due).collect();
    late.sort_unstable();
    let [median, most] = [late[ALARMS / 2], late[ALARMS * 99 / 100]];
    println!("{ALARMS} alarms due at once: {median} ms late at the median, {most} ms at p99");
}
