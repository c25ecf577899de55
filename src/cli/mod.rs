//! The command line: one file a subcommand, each with its arguments and a `run`.

mod actor;
mod bucket;
mod build;
mod clock;
mod completions;
mod demo;
mod dev;
pub mod exit;
mod new;
mod runtime;
mod serve;
mod tail;
mod text;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// A server for actors: WebAssembly components, one instance per name, each with its own SQLite
/// database
#[derive(Debug, Parser)]
#[command(name = "wasmkeep", version, propagate_version = true, after_help = exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve components as actors
    Serve(Box<serve::Args>),
    /// Write a new project
    New(new::Args),
    /// Build the project of this folder
    Build(build::Args),
    /// Build the project of this folder, serve it, and serve each change
    Dev(Box<dev::Args>),
    /// Serve examples that are built in: a chat and a counter, to try things with
    Demo(demo::Args),
    /// List, show, query and export the actors of one node
    Actor(actor::Args),
    /// Try out whether a bucket is fit for nodes to share
    Bucket(bucket::Args),
    /// Move the clock of a node that was started with --clock manual
    Clock(clock::Args),
    /// Follow what happens on a running node
    Tail(tail::Args),
    /// Print a script that completes this command in a shell
    Completions(completions::Completions),
    /// Write manual pages
    Man(completions::Man),
}

impl Cli {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Serve(args) => serve::run(*args),
            Command::New(args) => new::run(args),
            Command::Build(args) => build::run(args),
            Command::Dev(args) => dev::run(*args),
            Command::Demo(args) => demo::run(args),
            Command::Actor(args) => actor::run(args),
            Command::Bucket(args) => bucket::run(args),
            Command::Clock(args) => clock::run(args),
            Command::Tail(args) => tail::run(args),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    const PAGE: &str = include_str!("../../docs/cli.md");

    /// Every command, with those below it, and its flags: `actor list --prefix`.
    fn flags(command: &clap::Command, path: &str, all: &mut Vec<(String, String)>) {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            if let Some(long) = argument.get_long() {
                all.push((path.to_owned(), format!("--{long}")));
            }
        }
        for below in command.get_subcommands() {
            flags(below, &format!("{path} {}", below.get_name()), all);
        }
    }

    #[test]
    fn the_page_of_the_command_line_has_every_command_and_flag() {
        let mut all = Vec::new();
        flags(&Cli::command(), "wasmkeep", &mut all);
        assert!(all.len() > 50, "{all:?}");
        for (path, flag) in all {
            assert!(PAGE.contains(&path), "docs/cli.md says nothing of `{path}`");
            assert!(PAGE.contains(&flag), "docs/cli.md says nothing of `{path} {flag}`");
        }
    }
}
