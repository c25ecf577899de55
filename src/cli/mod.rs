//! The command line: one file a subcommand, each with its arguments and a `run`.

mod demo;
mod serve;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// A server for actors: WebAssembly components, one instance per name, each with its own SQLite
/// database
#[derive(Debug, Parser)]
#[command(name = "wasmkeep", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
The log goes to standard error; WASMKEEP_LOG chooses what is in it (info, warn, debug, …).
Exit codes: 0 done, 1 failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve components as actors
    Serve(Box<serve::Args>),
    /// Serve an example that is built in: a counter, to try things with
    Demo(demo::Args),
}

impl Cli {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Serve(args) => serve::run(*args),
            Command::Demo(args) => demo::run(args),
        }
    }
}
