//! `wasmkeep dev`: builds a project, serves it, and does both again after each change.

mod build;
mod project;
mod watch;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

pub use self::build::build;
pub use self::project::Project;
use self::watch::Watch;
use crate::config::{self, ConsoleSettings, ServeArgs, ServeConfig, Token};
use crate::serve::{self, Reload, Source, Started};
use crate::telemetry;

/// Builds the project of this folder, serves it, and serves each change. Data and open WebSockets
/// stay; what does not build or load leaves the last good version in place.
///
/// The project is the nearest folder upwards with a wasmkeep.toml, whose [build] says how its
/// components are made. All flags of `serve` hold. Data is kept in .wasmkeep/data of the project,
/// unless --data-dir says otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    #[command(flatten)]
    serve: ServeArgs,
}

const EXAMPLE: &str = "\
Example wasmkeep.toml:
  [build]
  command = \"cargo build --release --target wasm32-wasip2\"
  [actors]
  notes = \"target/wasm32-wasip2/release/notes.wasm\"";

pub fn run(args: Args) -> Result<()> {
    let mut serve = args.serve;
    let project = Project::find(serve.config.take())?;
    // Never the data of a production that the settings name too.
    serve.common.data_dir.get_or_insert_with(|| project.data_dir());
    serve.config = Some(project.settings.clone());
    // Nor its cluster.
    serve.alone = true;
    let mut config = config::resolve(serve)?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).context("make a token for the console")?;
    let token = Token::of_bytes(&random);
    // One that was asked for at an address of its own stays there.
    let console = ConsoleSettings { listen: None, token };
    let console = config.console.get_or_insert(console).clone();
    let settings = config.build.clone().with_context(|| project.has_no_build())?;
    let mut watch = Watch::start(&settings.watch, &project, project::made(&config))?;
    while !build(&settings.command, &project.folder) {
        println!("waiting for a change");
        watch.wait()?;
    }
    telemetry::start(config.log_format);
    serve::run(&config, Source::Files, |started| {
        tell(&started, &config, &console, &project.folder);
        let Started { reload, .. } = started;
        let follows = move || follow(&mut watch, &settings.command, &project, &reload);
        std::thread::spawn(follows);
    })
}

/// Builds and serves after each change, for as long as the process lives.
fn follow(watch: &mut Watch, command: &str, project: &Project, reload: &Reload) {
    loop {
        let changed = match watch.wait() {
            Ok(changed) => changed,
            Err(error) => return println!("changes are not followed any more: {error:#}"),
        };
        if changed.contains(&project.settings) {
            println!("wasmkeep.toml has changed: what it says of serving holds after a new start");
        }
        let began = Instant::now();
        if !build(command, &project.folder) {
            println!("still serving the last version that was built");
            continue;
        }
        match reload.run() {
            Ok(names) if names.is_empty() => println!("no component has changed"),
            Ok(names) => {
                let seconds = began.elapsed().as_secs_f64();
                println!("serving the change of {} after {seconds:.1} s", names.join(", "));
            }
            Err(error) => {
                println!("still serving the last version: {error:#}");
            }
        }
    }
}

fn tell(started: &Started<'_>, config: &ServeConfig, console: &ConsoleSettings, folder: &Path) {
    let url = format!("http://{}", started.address);
    println!("listening on {url}");
    println!();
    if config.front.is_some() {
        println!("The front:   {url}/");
    }
    for actor in &config.actors {
        println!("Try it:      curl {url}/actor/{}/demo/", actor.class);
    }
    if console.listen.is_none() {
        println!("Look inside: {url}/_wasmkeep/console#token={}", console.token.as_str());
    }
    println!("The data lies in {}", started.data_dir.display());
    println!("Changes in {} are built and served. Ctrl-C stops.", folder.display());
}
