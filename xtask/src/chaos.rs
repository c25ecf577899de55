//! `cargo xtask chaos --minutes N`: three real nodes under troubles and a checked workload.

use anyhow::{Context, Result};

use crate::usage::UsageError;
use crate::{command, guests};

const MINUTES: u64 = 10;

pub fn run(arguments: &[String]) -> Result<()> {
    let minutes = minutes(arguments)?;
    guests::build()?;
    command::run(command::cargo().args(["build", "--package", "wasmkeep-testbucket"]))?;
    let mut chaos = command::cargo();
    chaos.args(["test", "--test", "black_box", "--", "--exact", "--nocapture", TEST]);
    chaos.env("WASMKEEP_CHAOS_SECS", (minutes * 60).to_string());
    chaos.env("WASMKEEP_COMPONENTS", guests::folder());
    command::run(&mut chaos).context("the chaos")
}

const TEST: &str = "cluster::chaos::nothing_acknowledged_is_lost_in_a_chaos";

fn minutes(arguments: &[String]) -> Result<u64, UsageError> {
    match arguments {
        [] => Ok(MINUTES),
        [flag, number] if flag == "--minutes" => number
            .parse()
            .ok()
            .filter(|minutes| (1..=24 * 60).contains(minutes))
            .ok_or_else(|| UsageError::new(format!("`{number}` is no number of minutes"))),
        [first, ..] => Err(UsageError::new(format!("unexpected argument `{first}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_given_or_ten() {
        let minutes = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            minutes(&given).ok()
        };
        assert_eq!(minutes(&[]), Some(10));
        assert_eq!(minutes(&["--minutes", "3"]), Some(3));
        for wrong in [&["--minutes"][..], &["--minutes", "0"], &["3"], &["--minutes", "x"]] {
            assert_eq!(minutes(wrong), None, "{wrong:?}");
        }
    }
}
