//! `cargo xtask bench`: builds what the load program needs, and calls it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{apt, command, guests, repo};

/// Peers that are measured beside the node when they are here, and where to say where they are.
const PEERS: [(&str, &str); 2] = [("workerd", "WORKERD"), ("wasmtime", "WASMTIME")];

/// The arguments are the load program's; without any, `run`.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.first().is_some_and(|first| first == "count") {
        return count();
    }
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

/// Instructions of single steps, which repeat where times do not.
fn count() -> Result<()> {
    if !command::succeeds(Command::new("valgrind").arg("--version")) {
        apt::install(&["valgrind"]).context("install valgrind, which counts instructions")?;
    }
    let micro = ["--package", "wasmkeep-micro", "--bin", "count"];
    command::run(command::cargo().args(["build", "--release"]).args(micro))?;
    println!("| step | instructions each |\n| --- | --- |");
    for step in ["event", "read", "write", "durable"] {
        // What a start takes is in both.
        let each = (instructions(step, 2 * COUNTED)? - instructions(step, COUNTED)?) / COUNTED;
        println!("| {step} | {each} |");
    }
    Ok(())
}

const COUNTED: u64 = 2_000;

fn instructions(step: &str, times: u64) -> Result<u64> {
    let program = repo::root().join("target/release/count");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let output = valgrind.arg(program).arg(step).arg(times.to_string()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    // One that ended before its work did would have counted nothing of it.
    ensure!(output.status.success(), "the step `{step}` did not run to its end: {text}");
    let counted = text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = counted.with_context(|| format!("valgrind counted nothing: {text}"))?;
    Ok(number.trim().parse()?)
}

/// A peer's executable: where the variable says, or on the path.
fn peer(name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| Path::is_file(file))
}
