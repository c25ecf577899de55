//! `wasmkeep actor show`.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use super::NodeArgs;
use super::node::{ActorArg, unexpected};
use crate::admin::{Command, Facts, Line};
use crate::cli::exit::Ended;
use crate::cli::text;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The actor, its name as it is
    #[arg(value_name = "CLASS/NAME")]
    actor: ActorArg,
    #[command(flatten)]
    node: NodeArgs,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub async fn run(args: Args) -> Result<()> {
    let request = args.node.actor(&args.actor);
    let mut answer = args.node.ask(Command::Show(request)).await?;
    let facts = match answer.line().await? {
        Line::Facts(facts) => facts,
        line => return Err(unexpected(&line)),
    };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", text::printable_json(&facts)?)?;
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        for (name, value) in rows(&facts, u64::try_from(now).unwrap_or(u64::MAX)) {
            writeln!(out, "{name:<16}  {value}")?;
        }
    }
    if facts.exists {
        return Ok(());
    }
    let actor = format!("{}/{}", facts.class, text::printable(&facts.name));
    Err(Ended::refused(format!("the actor {actor} does not exist")).into())
}

fn rows(facts: &Facts, now_ms: u64) -> Vec<(&'static str, String)> {
    let name = text::printable(&facts.name);
    let mut rows = vec![
        ("actor", format!("{}/{name}", facts.class)),
        ("tenant/app", format!("{}/{}", facts.tenant, facts.app)),
        ("exists", if facts.exists { "yes" } else { "no" }.to_owned()),
    ];
    match &facts.file {
        Some(file) => {
            rows.push(("file", text::printable(file)));
            let (database, log) = (text::bytes(facts.database_bytes), text::bytes(facts.wal_bytes));
            rows.push(("size", format!("{database}, and {log} of log")));
        }
        None if facts.exists => rows.push(("file", "none: it never stored anything".into())),
        None => {}
    }
    if let Some(tables) = facts.tables {
        rows.push(("tables", tables.to_string()));
    }
    if facts.exists {
        rows.push(("initialised by", initialised(facts)));
        rows.push(("alarm", alarm(facts, now_ms)));
    }
    if let Some(why) = &facts.unread {
        rows.push(("not read", text::printable(&why.message)));
    }
    rows.push(("node", node(facts)));
    for (at, met) in facts.next_event.iter().enumerate() {
        rows.push((if at == 0 { "next event" } else { "" }, text::printable(met)));
    }
    rows
}

fn initialised(facts: &Facts) -> String {
    match (&facts.initialised_by, &facts.node.component) {
        (None, _) if facts.unread.is_some() => "not known".into(),
        (None, _) => "nothing yet: on-init has not succeeded".into(),
        (Some(by), None) => by.clone(),
        (Some(by), Some(component)) if by == component => format!("{by} (the class's present one)"),
        (Some(by), Some(component)) => format!("{by} (the class has {component} now)"),
    }
}

fn alarm(facts: &Facts, now_ms: u64) -> String {
    let Some(due) = facts.alarm_ms else { return "none".into() };
    let (at, apart) = (text::time(due), text::from_now(due, now_ms));
    match facts.failed_attempts {
        Some(failed @ 1..) => {
            format!("{at} ({apart}, {due} ms): attempt {}, {failed} failed", failed + 1)
        }
        _ => format!("{at} ({apart}, {due} ms)"),
    }
}

fn node(facts: &Facts) -> String {
    let node = &facts.node;
    if !node.is_running {
        return "not running".into();
    }
    let place = if node.resident { "in memory" } else { "not in memory" };
    let busy = if node.is_busy { ", an event runs" } else { "" };
    let queued = if node.queued > 0 { format!(", {} queued", node.queued) } else { String::new() };
    let access = node.access.as_ref().map_or(String::new(), |access| format!(", access {access}"));
    let sockets = match node.sockets {
        0 => String::new(),
        1 => ", 1 WebSocket".to_owned(),
        sockets => format!(", {sockets} WebSockets"),
    };
    format!("running; the actor is {place}{busy}{queued}{sockets}{access}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_told_with_its_attempts() {
        let mut facts = Facts { exists: true, ..Facts::default() };
        assert_eq!(alarm(&facts, 0), "none");
        facts.alarm_ms = Some(61_000);
        assert_eq!(alarm(&facts, 1_000), "1970-01-01T00:01:01.000Z (in 60 s, 61000 ms)");
        facts.failed_attempts = Some(2);
        assert!(alarm(&facts, 62_000).ends_with("(1 s ago, 61000 ms): attempt 3, 2 failed"));
    }

    #[test]
    fn a_component_that_is_not_the_present_one_is_told() {
        let mut facts = Facts { initialised_by: Some("aa".into()), ..Facts::default() };
        assert_eq!(initialised(&facts), "aa");
        facts.node.component = Some("aa".into());
        assert_eq!(initialised(&facts), "aa (the class's present one)");
        facts.node.component = Some("bb".into());
        assert_eq!(initialised(&facts), "aa (the class has bb now)");
    }
}
