//! `wasmkeep actor list`.

use std::io::{self, BufWriter, Write};

use anyhow::Result;

use super::NodeArgs;
use super::node::unexpected;
use crate::admin::{Command, Line, ListRequest, ListedActor};
use crate::cli::text;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Only actors of this class
    #[arg(long)]
    class: Option<wasmkeep_supervisors::address::Class>,
    /// Only actors whose names start so
    #[arg(long, value_name = "NAME")]
    prefix: Option<String>,
    /// Only actors whose database and log have at least so many bytes: 4096, 64k, 10m, 1g
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "0")]
    min_size: u64,
    /// Only actors with a pending alarm
    #[arg(long)]
    with_alarm: bool,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub async fn run(args: Args) -> Result<()> {
    let request = ListRequest {
        which: args.node.which(),
        class: args.class.map(|class| class.to_string()),
        prefix: args.prefix,
        min_bytes: args.min_size,
        with_alarm: args.with_alarm,
        limit: args.limit,
    };
    let mut answer = args.node.ask(Command::List(request)).await?;
    let mut out = BufWriter::new(io::stdout().lock());
    if !args.json {
        writeln!(out, "{:>10}  {:>10}  {:<24}  {:<6}  ACTOR", "DATABASE", "LOG", "ALARM", "IN")?;
    }
    loop {
        match answer.line().await? {
            Line::Actor(actor) if args.json => {
                writeln!(out, "{}", text::printable_json(&actor)?)?;
            }
            Line::Actor(actor) => writeln!(out, "{}", row(&actor))?,
            Line::End { cut } => {
                out.flush()?;
                if cut {
                    eprintln!("there are more: raise --limit");
                }
                return Ok(());
            }
            line => return Err(unexpected(&line)),
        }
    }
}

fn row(actor: &ListedActor) -> String {
    let size = |bytes| if actor.has_file { text::bytes(bytes) } else { "-".to_owned() };
    let (database, log) = (size(actor.database_bytes), size(actor.wal_bytes));
    let alarm = actor.alarm_ms.map_or("-".to_owned(), text::time);
    let place = match actor.resident {
        Some(true) => "memory",
        _ if actor.has_file => "file",
        _ => "index",
    };
    let name = match (&actor.name, &actor.stem) {
        (Some(name), _) => text::printable(name),
        (None, stem) => format!("(name unreadable) {}", stem.as_deref().unwrap_or_default()),
    };
    format!("{database:>10}  {log:>10}  {alarm:<24}  {place:<6}  {}/{name}", actor.class)
}

/// A number of bytes, with `k`, `m` or `g` behind it.
fn size(text: &str) -> Result<u64, String> {
    let form = || format!("{text:?} is no size: 4096, 64k, 10m or 1g");
    let lower = text.to_ascii_lowercase();
    let (number, unit) = match lower.as_bytes().last() {
        Some(b'k') => (&lower[..lower.len() - 1], 1 << 10),
        Some(b'm') => (&lower[..lower.len() - 1], 1 << 20),
        Some(b'g') => (&lower[..lower.len() - 1], 1 << 30),
        _ => (&lower[..], 1),
    };
    let number: u64 = number.parse().map_err(|_| form())?;
    number.checked_mul(unit).ok_or_else(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [("0", 0), ("4096", 4096), ("64k", 65_536), ("10M", 10 << 20)] {
            assert_eq!(size(text), Ok(bytes));
        }
        for wrong in ["", "k", "-1", "1.5m", "1t", "99999999999g", "1 k"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_row_is_aligned_and_takes_over_no_terminal() {
        let actor = ListedActor {
            class: "cart".into(),
            name: Some("a\u{202e}b".into()),
            stem: None,
            has_file: true,
            database_bytes: 12_288,
            wal_bytes: 0,
            alarm_ms: Some(0),
            resident: Some(false),
            sockets: Some(0),
        };
        let expected = "  12.0 KiB         0 B  1970-01-01T00:00:00.000Z  file    cart/a\\u{202e}b";
        assert_eq!(row(&actor), expected);
        let bare = ListedActor { has_file: false, alarm_ms: None, name: None, ..actor };
        let bare = ListedActor { stem: Some("61-62".into()), resident: None, ..bare };
        let expected = "         -           -  -                         index   \
                        cart/(name unreadable) 61-62";
        assert_eq!(row(&bare), expected);
    }
}
