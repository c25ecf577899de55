//! `wasmkeep build`.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::dev::{self, Project};
use super::exit::{Ended, Exit};
use crate::config;

/// Runs the [build] command of the nearest wasmkeep.toml upwards, in its folder
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Settings file [default: the nearest wasmkeep.toml upwards]
    #[arg(long, value_name = "FILE", env = "WASMKEEP_CONFIG")]
    config: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<()> {
    let project = Project::find(args.config)?;
    let settings = config::build_settings(&project.settings)?;
    let settings = settings.with_context(|| project.has_no_build())?;
    if dev::build(&settings.command, &project.folder) {
        return Ok(());
    }
    Err(Ended::new(Exit::Failed, "the project was not built").into())
}
