//! `wasmkeep bucket`: what an operator asks of a bucket, before nodes rest on it.

mod check;

use anyhow::Result;
use clap::Subcommand;

use super::runtime::with_runtime;

/// Looks at a bucket that nodes are to share.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try out whether a bucket keeps what a cluster rests on
    ///
    /// Of writes under one condition exactly one must land, and what was written must be read and
    /// listed at once. Writes a few small objects below probe/ and deletes them again.
    ///
    /// Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or else
    /// from the profile AWS_PROFILE of ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE).
    ///
    /// Exit codes: 0 the bucket is fit, 1 it could not be tried out, 3 it is not fit.
    Check(check::Args),
}

pub fn run(args: Args) -> Result<()> {
    let Command::Check(args) = args.command;
    with_runtime(check::run(args))
}
