//! `cargo xtask bench`: builds what the load program needs, and calls it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{command, guests, repo};

/// Peers that are measured beside the node when they are here, and where to say where they are.
const PEERS: [(&str, &str); 2] = [("workerd", "WORKERD"), ("wasmtime", "WASMTIME")];

/// The arguments are the load program's; without any, `run`.
pub fn run(arguments: &[String]) -> Result<()> {
    guests::build()?;
    guests::typescript::build()?;
    command::run(command::cargo().args(["build", "--release"]))?;
    command::run(command::cargo().args(["build", "--release", "--package", "wasmkeep-load"]))?;
    let mut load = Command::new(repo::root().join("target/release/wasmkeep-load"));
    load.current_dir(repo::root());
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("run", arguments),
    };
    load.arg(command);
    if command == "run" {
        for (name, variable) in PEERS {
            match peer(name, variable) {
                Some(path) => drop(load.arg(format!("--{name}")).arg(path)),
                None => println!("{name} is not measured: {variable}= says where it is"),
            }
        }
    }
    command::run(load.args(rest)).context("the load program")
}

/// A peer's executable: where the variable says, or on the path.
fn peer(name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| Path::is_file(file))
}
