use std::process::ExitCode;

use clap::Parser;
use wasmkeep::cli::{Cli, exit};

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::from(exit::Exit::Done as u8),
        Err(error) if exit::nobody_reads(&error) => ExitCode::from(exit::Exit::Done as u8),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(exit::of(&error) as u8)
        }
    }
}
