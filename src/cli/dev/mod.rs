//! `wasmkeep dev`: builds a project, serves it, and does both again after each change.

mod build;
mod nodes;
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
///
/// With --nodes the app runs as in a cluster: on several nodes, each with a port of its own, that share
/// a bucket, a folder beside the data. The data of a project that was on one node goes there, and stays
/// there: one node serves it from there too.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Run so many nodes of one cluster on this machine, 1 to 9
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: u8,
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
    nodes::check_flags(args.nodes, &serve.cluster)?;
    let mut config = config::resolve_for_dev(serve)?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).context("make a token for the console")?;
    let token = Token::of_bytes(&random);
    // One that was asked for at an address of its own stays there.
    let console = ConsoleSettings { listen: None, token };
    let console = config.console.get_or_insert(console).clone();
    let settings = config.build.clone().with_context(|| project.has_no_build())?;
    let mut all = nodes::configs(config, args.nodes)?;
    let mut watch = Watch::start(&settings.watch, &project, project::made(&all))?;
    while !build(&settings.command, &project.folder) {
        println!("waiting for a change");
        watch.wait()?;
    }
    telemetry::start(all[0].log_format);
    let first = all[0].clone();
    let tell = |started: Vec<Started>| {
        tell(&started, &first, &console, &project.folder);
        let reloads: Vec<Reload> = started.into_iter().map(|node| node.reload).collect();
        let follows = move || follow(&mut watch, &settings.command, &project, &reloads);
        std::thread::spawn(follows);
    };
    if all.len() == 1 {
        return serve::run(&all.remove(0), Source::Files, |started| tell(vec![started]));
    }
    serve::run_together(all, tell)
}

/// Builds and serves after each change, for as long as the process lives.
fn follow(watch: &mut Watch, command: &str, project: &Project, nodes: &[Reload]) {
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
        match reload(nodes) {
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

/// Serves what has changed on all nodes, and names it.
fn reload(nodes: &[Reload]) -> Result<Vec<String>> {
    let names: Result<Vec<_>> = nodes.iter().map(Reload::run).collect();
    Ok(names?.into_iter().next().unwrap_or_default())
}

fn tell(nodes: &[Started], config: &ServeConfig, console: &ConsoleSettings, folder: &Path) {
    let urls: Vec<String> = nodes.iter().map(|node| format!("http://{}", node.address)).collect();
    for (number, url) in (1..).zip(&urls) {
        match nodes.len() {
            1 => println!("listening on {url}"),
            _ => println!("n{number}: listening on {url}"),
        }
    }
    println!();
    if config.front.is_some() {
        println!("The front:   {}/", urls.join("/, "));
    }
    for actor in &config.actors {
        for (number, url) in urls.iter().enumerate() {
            let label = if number == 0 { "Try it:" } else { "" };
            println!("{label:<12} curl {url}/actor/{}/demo/", actor.class);
        }
    }
    if nodes.len() > 1 {
        println!("An actor is on one node at a time; the others pass on what is for it.");
    }
    if console.listen.is_none() {
        println!("Look inside: {}/_wasmkeep/console#token={}", urls[0], console.token.as_str());
    }
    let data: Vec<String> = nodes.iter().map(|node| node.data_dir.display().to_string()).collect();
    println!("The data lies in {}", data.join(", "));
    if let Some(bucket) = nodes::bucket(config) {
        println!("What the nodes share lies in {}", bucket.display());
    }
    println!("Changes in {} are built and served. Ctrl-C stops.", folder.display());
}
