//! `wasmkeep bucket`: what an operator asks of a bucket, before nodes rest on it.

mod check;

use anyhow::Result;
use clap::Subcommand;

use super::actor::with_runtime;

/// Looks at a bucket that nodes are to share.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try out whether a bucket keeps what a cluster rests on
    Check(check::Args),
}

pub fn run(args: Args) -> Result<()> {
    let Command::Check(args) = args.command;
    with_runtime(check::run(args))
}
