//! What each figure is to reach, as ratios to peers where there are some. "Must" is a promise, "aim"
//! is what the next work on speed goes for.

use std::fmt::Write;

use super::{Table, micros, millis, rate};
use crate::scenario;
use crate::target::Kind::{self, *};

struct Aim {
    scenario: &'static str,
    figure: Figure,
    must: f64,
    /// `None` where reaching the promise is enough.
    aim: Option<f64>,
}

#[derive(Clone, Copy)]
enum Figure {
    /// The rate through a peer's in the same round, at least.
    Over(Kind),
    /// Operations a second, at least.
    Rate,
    /// Of the server for each operation, at most, in microseconds.
    Cpu,
    /// At most, in microseconds.
    P50,
    P99,
    /// The median less that of another scenario, at most, in microseconds.
    P50Beyond(&'static str),
}

const fn must(scenario: &'static str, figure: Figure, must: f64) -> Aim {
    Aim { scenario, figure, must, aim: None }
}

const fn aim(scenario: &'static str, figure: Figure, must: f64, aim: f64) -> Aim {
    Aim { scenario, figure, must, aim: Some(aim) }
}

const AIMS: &[Aim] = &[
    aim("hello", Figure::Over(Workerd), 6.0, 8.0),
    aim("hello", Figure::Over(RawHttp), 0.25, 0.35),
    aim("hello", Figure::Cpu, 45.0, 30.0),
    aim("write", Figure::Over(RawSqlite), 0.2, 0.3),
    aim("write", Figure::Cpu, 80.0, 50.0),
    must("durable", Figure::Over(Workerd), 3.0),
    must("durable-1", Figure::Over(Workerd), 1.5),
    must("durable-1", Figure::P50, 450.0),
    must("durable-1000-actors", Figure::Over(Workerd), 4.0),
    aim("durable-1000-actors", Figure::Over(RawSqliteFull), 1.0, 2.5),
    must("write-1000-actors", Figure::Rate, 8_000.0),
    must("write-1000-actors", Figure::Cpu, 100.0),
    aim("create", Figure::Rate, 8_000.0, 15_000.0),
    must("create-write-1", Figure::Over(RawSqlite), 0.8),
    aim("create-write", Figure::Over(RawSqlite), 0.8, 1.5),
    aim("wake", Figure::P50Beyond("wake-warm"), 600.0, 300.0),
    must("wake", Figure::P99, 2_000.0),
    must("paced-hello", Figure::P50, 250.0),
    must("paced-hello", Figure::P99, 1_000.0),
    must("paced-durable", Figure::P50, 600.0),
    aim("paced-durable", Figure::P99, 2_000.0, 1_200.0),
    must("echo", Figure::Over(Workerd), 4.0),
    must("echo", Figure::Cpu, 25.0),
    aim("echo", Figure::Over(RawSockets), 0.25, 0.5),
    must("fan-out", Figure::Over(Workerd), 3.5),
    must("fan-out", Figure::Cpu, 9.0),
    aim("front", Figure::Over(WasmtimeServe), 2.0, 3.0),
    must("front", Figure::Cpu, 80.0),
    aim("alarms", Figure::P99, 100_000.0, 20_000.0),
    aim("start", Figure::P50, 45_000.0, 20_000.0),
];

impl Figure {
    fn name(self, scenario: &str) -> String {
        match self {
            Self::Over(kind) => format!("{scenario} ÷ {}", kind.name()),
            Self::Rate => format!("{scenario}, rate"),
            Self::Cpu => format!("{scenario}, CPU each"),
            Self::P50 => format!("{scenario}, p50"),
            Self::P99 => format!("{scenario}, p99"),
            Self::P50Beyond(other) => format!("{scenario}, p50 beyond {other}"),
        }
    }

    fn measured(self, name: &str, table: &Table) -> Option<f64> {
        let of = |name: &str, kind| {
            let place = scenario::ALL.iter().position(|scenario| scenario.name == name)?;
            table.get(&(place, kind))
        };
        let ours = of(name, Wasmkeep)?;
        let row = ours.middle();
        Some(match self {
            Self::Over(kind) => ours.ratio(of(name, kind)?).middle,
            Self::Rate => row.rate_per_second?,
            Self::Cpu => row.cpu_us?,
            Self::P50 => row.p50_us as f64,
            Self::P99 => row.p99_us as f64,
            Self::P50Beyond(other) => {
                row.p50_us as f64 - of(other, Wasmkeep)?.middle().p50_us as f64
            }
        })
    }

    fn is_reached(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Over(_) | Self::Rate => value >= bound,
            _ => value <= bound,
        }
    }

    fn print(self, value: f64) -> String {
        match self {
            Self::Over(_) => format!("{value:.2}"),
            Self::Rate => rate(value),
            Self::Cpu => micros(value),
            Self::P50 | Self::P99 | Self::P50Beyond(_) => millis(value.max(0.0) as u64),
        }
    }
}

pub(super) fn markdown(table: &Table) -> String {
    let mut text =
        String::from("| figure | measured | must | aim | |\n| --- | --- | --- | --- | --- |\n");
    for Aim { scenario, figure, must, aim } in AIMS {
        let Some(value) = figure.measured(scenario, table) else { continue };
        let verdict = match aim {
            _ if !figure.is_reached(value, *must) => "**missed**",
            Some(aim) if figure.is_reached(value, *aim) => "aim reached",
            _ => "reached",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {verdict} |",
            figure.name(scenario),
            figure.print(value),
            figure.print(*must),
            aim.map(|aim| figure.print(aim)).unwrap_or("–".into()),
        );
    }
    text
}
