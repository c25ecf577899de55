//! `wasmkeep tail`.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::str::FromStr;

use anyhow::Result;
use wasmkeep_supervisors::address::{ActorName, Class};

use super::actor::{self, NodeArgs};
use super::{runtime::with_runtime, text};
use crate::admin::{Command, Line, RecordKind, TailRecord, TailRequest};

/// Follows what happens on a running node: events of its actors as they end, calls they make,
/// alarms, what they log, and when they come into and leave memory. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this class, or this actor; the name as it is
    #[arg(value_name = "CLASS[/NAME]")]
    of: Option<Of>,
    #[command(flatten)]
    node: NodeArgs,
    /// Only records of this kind; may be repeated
    #[arg(long = "kind", value_enum, value_name = "KIND")]
    kinds: Vec<RecordKind>,
    /// Show what stands behind the ? of a path, too
    #[arg(long)]
    query: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// `CLASS` or `CLASS/NAME`.
#[derive(Debug, Clone)]
struct Of {
    class: Class,
    name: Option<ActorName>,
}

impl FromStr for Of {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (class, name) = match text.split_once('/') {
            Some((class, name)) => (class, Some(name)),
            None => (text, None),
        };
        let class = Class::parse(class).map_err(|error| error.to_string())?;
        let name = name.map(ActorName::parse).transpose().map_err(|error| error.to_string())?;
        Ok(Self { class, name })
    }
}

pub fn run(args: Args) -> Result<()> {
    with_runtime(async {
        tokio::select! {
            ended = follow(args) => ended,
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        }
    })
}

async fn follow(args: Args) -> Result<()> {
    let request = TailRequest {
        which: args.node.which(),
        class: args.of.as_ref().map(|of| of.class.to_string()),
        name: args.of.and_then(|of| of.name).map(|name| name.to_string()),
        kinds: args.kinds,
        query: args.query,
    };
    let mut answer = args.node.ask(Command::Tail(request)).await?;
    loop {
        let line = match answer.line().await? {
            Line::Listening => {
                eprintln!("listening; Ctrl-C ends it");
                continue;
            }
            Line::Stopped => {
                eprintln!("the node stopped");
                return Ok(());
            }
            Line::Record(record) if args.json => text::printable_json(&record)?,
            Line::Record(record) => row(&record),
            Line::Gap { lost } if args.json => format!(r#"{{"kind":"gap","lost":{lost}}}"#),
            Line::Gap { lost } => format!("--- gap: {lost} records lost, this reader was too slow"),
            line => return Err(actor::unexpected(&line)),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()?;
    }
}

/// One record as one line: time of day (UTC), kind, actor, and what its kind has to say.
fn row(record: &TailRecord) -> String {
    let time = text::time(record.at_ms);
    let time = time.get(11..23).unwrap_or(&time);
    let actor = format!("{}/{}", record.class, text::printable(&record.name));
    let mut line = format!("{time}  {:<9}  {actor:<24}", record.kind.as_str());
    let fields = &record.fields;
    let mut add = |text: &str| {
        line.push_str("  ");
        line.push_str(text);
    };
    if let Some(target) = &fields.target {
        add(&format!("to {}", text::printable(target)));
    }
    if let Some(attempt) = fields.attempt {
        add(&format!("attempt {attempt}"));
    }
    if let (Some(method), Some(path)) = (&fields.method, &fields.path) {
        add(&format!("{} {}", text::printable(method), text::printable(path)));
    }
    if let Some(status) = fields.status {
        add(&status.to_string());
    }
    if let Some(outcome) = &fields.outcome {
        let mut shown = outcome.clone();
        if let Some(reason) = &fields.reason {
            let _ = write!(shown, " ({reason})");
        }
        add(&shown);
    }
    if let Some(took) = fields.took_ms {
        add(&format!("{took:.1} ms"));
    }
    if let Some(caller) = &fields.caller {
        add(&format!("from {}", text::printable(caller)));
    }
    if let Some(cause) = &fields.cause {
        add(cause);
    }
    if let (Some(stream), Some(text)) = (&fields.stream, &fields.text) {
        add(&format!("{stream}: {}", text::printable(text)));
    }
    if let Some(dropped) = fields.dropped {
        add(&format!("{dropped} lines dropped: more than 100 in a second"));
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_line() {
        let record = |json: &str| -> String {
            let json = format!(r#"{{"at_ms":3661001,"class":"cart","name":"a b",{json}}}"#);
            row(&serde_json::from_str(&json).expect("a record"))
        };
        let start = |kind: &str| format!("01:01:01.001  {kind:<9}  cart/a b                ");
        for (kind, json, rest) in [
            (
                "request",
                r#""method":"GET","path":"/x","status":200,"outcome":"answered","took_ms":1.26"#,
                "  GET /x  200  answered  1.3 ms",
            ),
            (
                "request",
                r#""status":500,"outcome":"failed","reason":"trapped","took_ms":0"#,
                "  500  failed (trapped)  0.0 ms",
            ),
            (
                "call",
                r#""method":"GET","path":"/","outcome":"skipped","caller":"default/a/b%20c""#,
                "  GET /  skipped  from default/a/b%20c",
            ),
            ("alarm", r#""attempt":2,"outcome":"answered""#, "  attempt 2  answered"),
            ("call-out", r#""target":"a/b","outcome":"timeout""#, "  to a/b  timeout"),
            ("log", r#""stream":"stderr","text":"a\u001b[2J""#, "  stderr: a\\u{1b}[2J"),
            ("log", r#""dropped":7"#, "  7 lines dropped: more than 100 in a second"),
            ("hibernate", r#""cause":"idle""#, "  idle"),
        ] {
            let line = record(&format!(r#""kind":"{kind}",{json}"#));
            assert_eq!(line, start(kind) + rest);
        }
        assert_eq!(record(r#""kind":"wake""#), start("wake").trim_end());
    }

    #[test]
    fn what_is_followed() {
        let of: Of = "cart".parse().expect("a class");
        assert!(of.name.is_none());
        assert!("cart/a/b".parse::<Of>().is_err(), "a name has no slash");
        let of: Of = "cart/room 1".parse().expect("an actor");
        assert_eq!(of.name.as_ref().map(ActorName::as_str), Some("room 1"));
        assert!("Cart".parse::<Of>().is_err() && "cart/".parse::<Of>().is_err());
    }
}
