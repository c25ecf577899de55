//! `wasmkeep completions` and `wasmkeep man`: what shells and `man` know of the command.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;

#[derive(Debug, clap::Args)]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct Man {
    /// The folder to write the pages into; it is made if need be
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Completions {
    pub fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "wasmkeep", &mut script);
        io::stdout().write_all(&script)?;
        Ok(())
    }
}

impl Man {
    pub fn run(&self) -> Result<()> {
        let folder = self.folder.display();
        std::fs::create_dir_all(&self.folder).with_context(|| format!("make {folder}"))?;
        clap_mangen::generate_to(Cli::command(), &self.folder)
            .with_context(|| format!("write the pages into {folder}"))?;
        println!("wrote the pages into {folder}: see `man -l {folder}/wasmkeep.1`");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
