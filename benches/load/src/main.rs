//! Loads a node, and peers beside it, with the same work in one run.
//!
//! `cargo xtask bench` builds what it needs and calls it; `benches/README.md` says how to read what
//! it prints.

mod client;
mod grow;
mod memory;
mod process;
mod raw;
mod report;
mod run;
mod scenario;
mod target;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "wasmkeep-load", about, version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every scenario on a node and its peers in turns, round after round
    Run(run::Arguments),
    /// One figure after another for growing numbers: curves that should be flat
    Grow(grow::Arguments),
    /// What actors and sockets cost in memory, resident and asleep
    Memory(memory::Arguments),
    /// A bare server, whose figures are what this machine can do: the children of `run`
    #[command(hide = true)]
    Raw(raw::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(arguments),
        Command::Grow(arguments) => grow::run(arguments),
        Command::Memory(arguments) => memory::run(arguments),
        Command::Raw(arguments) => raw::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
