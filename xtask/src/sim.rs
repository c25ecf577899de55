//! `cargo xtask sim`: builds the simulator and calls it, and the step of `cargo xtask test` that runs
//! its tests.

use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

pub const PACKAGE: &str = "wasmkeep-sim";

/// The arguments are the simulator's; without any, as many seeds as its test runs.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut sim = seeded();
    sim.args(["run", "--quiet", "--profile", "sim", "--package", PACKAGE, "--"]).args(arguments);
    command::run(&mut sim)
        .context("a promise was broken, or the arguments are none of the simulator's")
}

/// With it, tokio takes a seed for what it draws itself. Only the simulator is built so, under a
/// profile of its own, so that nothing else is built twice.
pub fn seeded() -> Command {
    let mut cargo = command::cargo();
    cargo.env("RUSTFLAGS", "--cfg tokio_unstable");
    cargo
}
