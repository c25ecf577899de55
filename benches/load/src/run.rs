//! `wasmkeep-load run`: all scenarios, each on every server that can do it, round after round.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::report::{Report, Row};
use crate::scenario::{self, Scenario, Stage};
use crate::target::{Kind, Places, Running};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    places: PlacesGiven,
    /// Scenarios to run [default: all]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Rounds: the middle one is reported, the others are its spread
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=20))]
    rounds: u64,
    /// Measure a server that runs already beside the node: it answers the paths of tests/guests/bench
    #[arg(long, value_name = "ADDR:PORT")]
    peer_at: Option<SocketAddr>,
    /// The process of that server, if it is on this machine
    #[arg(long, value_name = "PID", requires = "peer_at")]
    peer_pid: Option<u32>,
    /// A workerd executable, to measure beside the node (`npm install workerd`)
    #[arg(long, value_name = "FILE")]
    workerd: Option<PathBuf>,
    /// A wasmtime executable, to measure its `serve` beside the front
    #[arg(long, value_name = "FILE")]
    wasmtime: Option<PathBuf>,
    /// Folder for the results: all figures as CSV, a summary, and plots
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Where a node and its components are.
#[derive(Args)]
pub struct PlacesGiven {
    /// The server
    #[arg(long, value_name = "FILE", default_value = "target/release/wasmkeep")]
    server: PathBuf,
    /// Where `cargo xtask guests` put the components
    #[arg(long, value_name = "DIR", default_value = "target/components")]
    components: PathBuf,
    /// Where data directories are made: this disk is measured [default: the system's]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl PlacesGiven {
    pub fn places(self) -> Result<Places> {
        let whole = |path: PathBuf, made_by: &str| {
            let shown = path.display().to_string();
            path.canonicalize().with_context(|| format!("{shown}: {made_by}"))
        };
        Ok(Places {
            server: whole(self.server, "`cargo build --release` makes it")?,
            components: whole(self.components, "`cargo xtask guests` makes it")?,
            workerd: None,
            wasmtime: None,
            given: None,
            peers: PathBuf::from("benches/peers"),
            data: self.data.unwrap_or_else(std::env::temp_dir),
        })
    }
}

pub fn run(arguments: Arguments) -> Result<()> {
    let chosen = chosen(&arguments.scenarios)?;
    let given = arguments.peer_at.map(|address| (address, arguments.peer_pid));
    let Arguments { workerd, wasmtime, .. } = arguments;
    let places = Places { workerd, wasmtime, given, ..arguments.places.places()? };
    let time = Duration::from_secs(arguments.seconds);
    let mut report = Report::default();
    for round in 1..=arguments.rounds {
        for scenario in &chosen {
            for kind in kinds(scenario, &places) {
                eprint!("round {round}: {} on {} … ", scenario.name, kind.name());
                let row = measure(scenario, kind, &places, time)
                    .with_context(|| format!("{} on {}", scenario.name, kind.name()))?;
                eprintln!("{}", row.in_short());
                report.add(row);
            }
        }
    }
    print!("{}", report.markdown());
    if let Some(folder) = arguments.out {
        report.write(&folder)?;
        eprintln!("written to {}", folder.display());
    }
    Ok(())
}

fn measure(scenario: &Scenario, kind: Kind, places: &Places, time: Duration) -> Result<Row> {
    let running = Running::start(kind, places, scenario.serves)?;
    let stage = Stage { kind, running: &running, places, time };
    Ok(Row::new(scenario.name, kind, &(scenario.work)(&stage)?))
}

fn kinds(scenario: &Scenario, places: &Places) -> Vec<Kind> {
    let known = scenario.kinds.iter().copied().filter(|kind| places.has(*kind));
    // One that was given does what workerd does.
    let given = Some(Kind::Given).filter(|kind| places.has(*kind));
    let given = given.filter(|_| scenario.kinds.contains(&Kind::Workerd));
    known.chain(given).collect()
}

fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(scenario::ALL.iter().collect());
    }
    let find = |name: &String| {
        let found = scenario::ALL.iter().find(|scenario| scenario.name == *name);
        found.ok_or_else(|| {
            let all: Vec<String> = scenario::ALL
                .iter()
                .map(|scenario| format!("  {:20} {}", scenario.name, scenario.about))
                .collect();
            anyhow::anyhow!("there is no scenario `{name}`:\n{}", all.join("\n"))
        })
    };
    let chosen: Result<Vec<_>> = names.iter().map(find).collect();
    match chosen {
        Ok(chosen) if chosen.is_empty() => bail!("no scenario was chosen"),
        chosen => chosen,
    }
}
