//! `cargo xtask sim`: runs many seeds, or one and prints what happened in it.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use wasmkeep_sim::sweep::{Until, sweep};
use wasmkeep_sim::world::{Setup, run};
use wasmkeep_supervisors::twin::Twin;

const USAGE: &str =
    "usage: wasmkeep-sim [--seeds N] [--from SEED] [--seed SEED] [--twin NAME] | --twins N";
const SEEDS: u64 = 2_000;

#[derive(Default)]
struct Options {
    seeds: Option<u64>,
    from: u64,
    seed: Option<u64>,
    twin: Option<Twin>,
    twins: Option<u64>,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Options { seed: Some(seed), twin, .. }) => {
            replay(Setup { seed, twin, keeps_trace: true })
        }
        Ok(Options { twins: Some(seeds), from, .. }) => twins(from..from + seeds),
        Ok(options) => many(&options),
        Err(why) => {
            eprintln!("error: {why}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("`{flag}` wants a value"))?;
        let number = || value.parse().map_err(|_| format!("`{value}` is no number"));
        match flag.as_str() {
            "--seeds" => options.seeds = Some(number()?),
            "--from" => options.from = number()?,
            "--seed" => options.seed = Some(number()?),
            "--twins" => options.twins = Some(number()?),
            "--twin" => options.twin = Some(twin(&value)?),
            _ => return Err(format!("there is no `{flag}`")),
        }
    }
    Ok(options)
}

fn twin(name: &str) -> Result<Twin, String> {
    let found = Twin::ALL.iter().find(|twin| format!("{twin:?}") == name);
    let names = || Twin::ALL.iter().map(|twin| format!("{twin:?}")).collect::<Vec<_>>().join(", ");
    found.copied().ok_or_else(|| format!("there is no twin `{name}`: there are {}", names()))
}

/// The first of these seeds at which each twin is caught.
fn twins(seeds: Range<u64>) -> ExitCode {
    for twin in Twin::ALL {
        let sweep = sweep(seeds.clone(), Some(*twin), Until::OneBreaks);
        let caught = sweep.broken.first();
        let said = caught.map_or("not caught".into(), |(seed, why)| format!("seed {seed}: {why}"));
        println!("{:<32} {said}", format!("{twin:?}"));
    }
    ExitCode::SUCCESS
}

fn replay(setup: Setup) -> ExitCode {
    let outcome = run(setup);
    outcome.trace.iter().for_each(|line| println!("{line}"));
    println!("{:?}", outcome.counts);
    match outcome.broken {
        Some(why) => {
            println!("seed {} broke a promise: {why}", setup.seed);
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

fn many(options: &Options) -> ExitCode {
    let began = Instant::now();
    let seeds = options.from..options.from + options.seeds.unwrap_or(SEEDS);
    let sweep = sweep(seeds, options.twin, Until::TheLast);
    let took = began.elapsed().as_secs_f64();
    println!("{} seeds in {took:.1} s, {} broke a promise", sweep.ran, sweep.broken.len());
    println!("{:?}", sweep.counts);
    let with = options.twin.map(|twin| format!(" --twin {twin:?}")).unwrap_or_default();
    for (seed, why) in sweep.broken.iter().take(20) {
        println!("seed {seed}: {why}\n    cargo xtask sim --seed {seed}{with}");
    }
    if sweep.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
