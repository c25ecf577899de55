//! `cargo xtask timings`: how long one waits after an edit, beside what is acceptable.
//!
//! A file is touched, not changed, so that a run stopped half-way leaves the tree as it was. What
//! a real edit adds is the compilation of the one part it changes.

use std::fs::File;
use std::process::Command;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};

use crate::{command, repo, usage};

const ROUTE: &str = "src/edge/status.rs";
const RULE: &str = "supervisors/src/tree/restart.rs";

struct Wait {
    what: &'static str,
    touched: &'static str,
    cargo: &'static [&'static str],
    /// Seconds on two cores. More is an alarm, not a failure.
    budget: f64,
}

const WAITS: &[Wait] = &[
    Wait { what: "check", touched: ROUTE, cargo: &["check"], budget: 5.0 },
    Wait { what: "check", touched: RULE, cargo: &["check"], budget: 5.0 },
    Wait {
        what: "the rules' tests",
        touched: RULE,
        cargo: &["test", "--package", "wasmkeep-supervisors", "--lib"],
        budget: 15.0,
    },
    Wait {
        what: "node binary",
        touched: ROUTE,
        cargo: &["build", "--bin", "wasmkeep"],
        budget: 25.0,
    },
    Wait {
        what: "node binary",
        touched: RULE,
        cargo: &["build", "--bin", "wasmkeep"],
        budget: 40.0,
    },
];

pub fn run(arguments: &[String]) -> Result<()> {
    usage::expect_no_arguments(arguments)?;
    for touched in [ROUTE, RULE] {
        if !repo::root().join(touched).is_file() {
            bail!("{touched} is missing: name another file of its kind in xtask/src/timings.rs");
        }
    }
    println!("building what is not measured");
    for wait in WAITS {
        command::capture(&mut wait.command())?;
    }
    println!("{:<18} {:<34} {:>8} {:>8}", "", "after touching", "took", "budget");
    for wait in WAITS {
        let seconds = wait.measure()?;
        let over = if seconds > wait.budget { "  over" } else { "" };
        println!(
            "{:<18} {:<34} {seconds:>6.1} s {:>6.0} s{over}",
            wait.what, wait.touched, wait.budget
        );
    }
    Ok(())
}

impl Wait {
    fn command(&self) -> Command {
        let mut cargo = command::cargo();
        cargo.args(self.cargo);
        cargo
    }

    fn measure(&self) -> Result<f64> {
        File::options()
            .append(true)
            .open(repo::root().join(self.touched))
            .and_then(|file| file.set_modified(SystemTime::now()))
            .with_context(|| format!("touch {}", self.touched))?;
        let started = Instant::now();
        command::capture(&mut self.command())?;
        Ok(started.elapsed().as_secs_f64())
    }
}
