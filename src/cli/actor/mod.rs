//! `wasmkeep actor`: what an operator asks about the actors of one node, running or not.

mod export;
mod hibernate;
mod list;
mod node;
mod show;
mod sql;
mod table;

use anyhow::Result;
use clap::Subcommand;

pub use node::{Answer, NodeArgs, unexpected};

use super::runtime::with_runtime;

/// Looks at the actors of one node: a running one is asked on a socket in its data directory, the
/// files of a stopped one are read. Runs no actor's code and changes no data.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List actors, with the sizes of their databases
    List(list::Args),
    /// Show one actor, and what its next event would meet
    Show(show::Args),
    /// Run one read-only statement on an actor's database
    Sql(sql::Args),
    /// Have an idle actor leave memory now; its next event wakes it
    Hibernate(hibernate::Args),
    /// Write an actor's database to a plain SQLite file
    Export(export::Args),
}

pub fn run(args: Args) -> Result<()> {
    with_runtime(async {
        match args.command {
            Command::List(args) => list::run(args).await,
            Command::Show(args) => show::run(args).await,
            Command::Sql(args) => sql::run(args).await,
            Command::Hibernate(args) => hibernate::run(args).await,
            Command::Export(args) => export::run(args).await,
        }
    })
}
