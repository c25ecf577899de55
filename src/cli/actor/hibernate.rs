//! `wasmkeep actor hibernate`.

use anyhow::Result;

use super::NodeArgs;
use super::node::{ActorArg, unexpected};
use crate::admin::{Command, Line};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The actor, its name as it is
    #[arg(value_name = "CLASS/NAME")]
    actor: ActorArg,
    #[command(flatten)]
    node: NodeArgs,
}

pub async fn run(args: Args) -> Result<()> {
    let request = args.node.actor(&args.actor);
    match args.node.ask(Command::Hibernate(request)).await?.line().await? {
        Line::End { .. } => Ok(()),
        line => Err(unexpected(&line)),
    }
}
