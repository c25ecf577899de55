//! Alarms on a disk that takes nothing for a while.

use serde_json::json;

use crate::support::{Disk, HOUR_MS, Node, eventually, now_ms};

/// What cannot be written: the index, the actors' databases, anything.
const FULL: [&str; 3] = ["index.db-wal", ".db-wal", ""];

#[test]
fn an_alarm_whose_outcome_cannot_be_written_is_not_lost() {
    for full in FULL {
        let disk = Disk::new();
        let mut node = disk.under(Node::probe()).errors_are_fine().start();
        let names = ["plain", "sets-again", "fails"];
        let steps = [
            json!([]),
            json!([{ "op": "set-alarm", "in": HOUR_MS }]),
            json!([{ "op": "fail", "attempts": 1 }]),
        ];
        let due = now_ms() + 1500;
        for (name, steps) in names.iter().zip(steps) {
            let actor = node.actor(&format!("probe/{name}"));
            actor.on_alarm(steps);
            actor.set_alarm_at(due);
        }
        disk.fail("write", full);
        let put_off = || node.metric("wasmkeep_alarms_put_off_total", &[]);
        eventually(&format!("all are put off, {full:?} being full"), || put_off() >= 3.0);
        disk.mend();
        for name in names {
            let actor = node.actor(&format!("probe/{name}"));
            eventually(&format!("{name} is over, {full:?} having been full"), || {
                let answer = actor.get("/alarm");
                let pending = (answer.status == 200).then(|| answer.json()["at"].as_u64());
                let over = match name {
                    "sets-again" => pending.is_some_and(|at| at > Some(due + HOUR_MS / 2)),
                    _ => pending == Some(None),
                };
                over && !actor.alarms().is_empty()
            });
        }
        let ran = names.map(|name| node.actor(&format!("probe/{name}")).alarms().len());
        // What the index says too much is looked at and goes; nothing runs once more for it.
        node.restart();
        node.actor("probe/after").set_alarm_in(0);
        node.actor("probe/after").ran(1);
        let now = names.map(|name| node.actor(&format!("probe/{name}")).alarms().len());
        assert_eq!(now, ran, "{full:?}");
        node.stop_cleanly();
        let indexed = node.indexed_alarms();
        assert_eq!(indexed.len(), 1, "{full:?}: {indexed:?}");
        assert_eq!(indexed[0].0, "probe/sets-again");
    }
}

#[test]
fn an_alarm_that_cannot_be_entered_is_an_error_and_not_half_set() {
    for full in FULL {
        let disk = Disk::new();
        let mut node = disk.under(Node::probe()).errors_are_fine().start();
        let actor = node.actor("probe/a");
        let before = now_ms() + HOUR_MS;
        actor.set_alarm_at(before);
        disk.fail("write", full);
        let set = actor.post("/alarm?in=1000", "");
        assert!(set.status != 200 || set.json()["error"].is_object(), "{full:?}: {set:?}");
        disk.mend();
        eventually("it is usable again", || actor.get("/alarm").status == 200);
        assert_eq!(actor.pending(), Some(before), "{full:?}");
        actor.set_alarm_in(0);
        actor.ran(1);
        node.stop_cleanly();
        assert_eq!(node.indexed_alarms(), []);
    }
}
