//! What the next event of an actor meets. Pure.

use wasmkeep_supervisors::limits::QUEUE_EVENTS_MAX;

use super::protocol::{Facts, Failure, FailureKind};

/// One sentence for each thing the next event meets, the first obstacle first.
pub fn outlook(facts: &Facts) -> Vec<String> {
    let node = &facts.node;
    if !node.is_running {
        return vec!["no node runs on this data directory".into()];
    }
    if node.is_stopping {
        return vec!["refused (stopping): the node is told to stop".into()];
    }
    let Some(component) = &node.component else {
        let class = &facts.class;
        return vec![format!("refused (not-found): the node serves no class {class}")];
    };
    let mut met = Vec::new();
    if let Some(ms) = node.quarantined_ms {
        let seconds = ms.div_ceil(1000);
        met.push(format!(
            "refused (quarantined) for another {seconds} s: its process kept failing"
        ));
    }
    match node.access.as_deref() {
        Some("internal") => {
            met.push("a request from outside is refused (forbidden): the class is internal".into());
        }
        Some(access) if !facts.exists && access.starts_with("existing") => met.push(format!(
            "a request from outside is refused (no-such-actor) unless {access} names the actor"
        )),
        _ => {}
    }
    if node.queued >= u64::from(QUEUE_EVENTS_MAX) {
        met.push(format!("refused (queue-full): {} events wait", node.queued));
    } else if node.is_busy || node.queued > 0 {
        let running = if node.is_busy { "the event that runs and " } else { "" };
        met.push(format!("waits behind {running}{} queued", node.queued));
    }
    if let Some(Failure { kind, message }) = &facts.unread {
        met.push(match kind {
            FailureKind::Failed => format!("refused: the database does not open: {message}"),
            _ => format!("not known: the database was not read: {message}"),
        });
        return met;
    }
    match &facts.initialised_by {
        None if !facts.exists => met.push("creates the actor: on-init runs first".into()),
        None => met.push("on-init runs first: it has not succeeded yet".into()),
        Some(by) if by != component => {
            met.push("on-init runs first: the class has another component since".into());
        }
        Some(_) if !node.resident => met.push("wakes the actor, and its handler runs".into()),
        Some(_) => met.push("its handler runs".into()),
    }
    met
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::protocol::NodeFacts;

    fn facts() -> Facts {
        Facts {
            class: "cart".into(),
            exists: true,
            initialised_by: Some("aa".into()),
            node: NodeFacts {
                is_running: true,
                component: Some("aa".into()),
                access: Some("open".into()),
                resident: true,
                ..NodeFacts::default()
            },
            ..Facts::default()
        }
    }

    #[test]
    fn what_the_next_event_meets() {
        type Change = fn(&mut Facts);
        let rows: [(Change, &[&str]); 14] = [
            (|_| {}, &["its handler runs"]),
            (|f| f.node.resident = false, &["wakes the actor"]),
            (|f| f.node.is_running = false, &["no node runs"]),
            (|f| f.node.is_stopping = true, &["refused (stopping)"]),
            (|f| f.node.component = None, &["refused (not-found)"]),
            (|f| f.node.quarantined_ms = Some(1500), &["(quarantined) for another 2 s", "handler"]),
            (|f| f.node.access = Some("internal".into()), &["(forbidden)", "handler runs"]),
            (
                |f| {
                    (f.exists, f.initialised_by) = (false, None);
                    f.node.access = Some("existing:main".into());
                },
                &["(no-such-actor) unless existing:main", "creates the actor"],
            ),
            (|f| f.node.queued = 1024, &["(queue-full): 1024", "handler runs"]),
            (
                |f| (f.node.is_busy, f.node.queued) = (true, 3),
                &["behind the event that runs and 3 queued", "handler runs"],
            ),
            (|f| f.initialised_by = None, &["on-init runs first: it has not"]),
            (|f| f.initialised_by = Some("bb".into()), &["on-init runs first: the class has"]),
            (
                |f| f.unread = Some(Failure::failed("damaged")),
                &["refused: the database does not open: damaged"],
            ),
            (
                |f| f.unread = Some(Failure::new(FailureKind::Refused, "busy")),
                &["not known: the database was not read: busy"],
            ),
        ];
        for (change, expected) in rows {
            let mut facts = facts();
            change(&mut facts);
            let met = outlook(&facts);
            assert_eq!(met.len(), expected.len(), "{met:?}");
            for (met, expected) in met.iter().zip(expected) {
                assert!(met.contains(expected), "{met:?} has no {expected:?}");
            }
        }
    }
}
