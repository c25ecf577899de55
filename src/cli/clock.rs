//! `wasmkeep clock`: the clock of a node that was started with `--clock manual`.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use super::actor::{NodeArgs, unexpected};
use super::runtime::with_runtime;
use super::text;
use crate::admin::{Command as Ask, Line};

/// Moves the clock of a node that was started with --clock manual, to try sleep and alarms in
/// seconds. Alarms and the actors' own code go by it; SQLite's date functions do not.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Move it on: alarms that are due then run, and actors that would have been idle for long
    /// enough leave memory
    Advance {
        /// By how much: 500ms, 90s, 5m, 2h or 1d
        #[arg(value_name = "TIME", value_parser = parse)]
        by: Duration,
        #[command(flatten)]
        node: NodeArgs,
    },
}

pub fn run(args: Args) -> Result<()> {
    let Command::Advance { by, node } = args.command;
    let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    with_runtime(async {
        match node.ask(Ask::Advance { ms }).await?.line().await? {
            Line::Clock { now_ms } => {
                println!("{}", text::time(now_ms));
                Ok(())
            }
            line => Err(unexpected(&line)),
        }
    })
}

fn parse(text: &str) -> Result<Duration, String> {
    let form = || format!("{text:?} is no time: a number and ms, s, m, h or d");
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(form)?;
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().map_err(|_| form())?;
    let ms_each = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(form()),
    };
    number.checked_mul(ms_each).map(Duration::from_millis).ok_or_else(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        let ms = |text| parse(text).ok().map(|time| time.as_millis());
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("90s"), Some(90_000));
        assert_eq!(ms("2h"), Some(7_200_000));
        assert_eq!(ms("1d"), Some(86_400_000));
        for wrong in ["", "5", "s", "-1s", "1.5h", "1w", "99999999999999999999d", "1 s"] {
            assert_eq!(ms(wrong), None, "{wrong:?}");
        }
    }
}
