//! What was measured, as a table, as CSV, and as plots.

mod aims;
mod machine;
mod numbers;
pub mod plot;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::scenario::{self, Measured};
use crate::target::Kind;

pub use numbers::{micros, millis, rate, whole};

/// One measurement.
#[derive(Clone, Serialize)]
pub struct Row {
    pub scenario: &'static str,
    #[serde(serialize_with = "kind_name")]
    pub server: Kind,
    /// None where the work is not to do as many as possible.
    pub rate_per_second: Option<f64>,
    pub p50_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    /// Of the server, for each operation.
    pub cpu_us: Option<f64>,
}

fn kind_name<S: serde::Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

impl Row {
    pub fn new(scenario: &'static str, server: Kind, measured: &Measured) -> Self {
        let at = |percent| measured.latency(percent).as_micros() as u64;
        Self {
            scenario,
            server,
            rate_per_second: measured.rate,
            p50_us: at(50.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            cpu_us: measured.cpu.map(|cpu| cpu.as_secs_f64() * 1e6),
        }
    }

    pub fn in_short(&self) -> String {
        let cpu = self.cpu_us.map(|cpu| format!(", {} of CPU", micros(cpu))).unwrap_or_default();
        let rate = self.rate_per_second.map(|each| format!("{}, ", rate(each))).unwrap_or_default();
        format!("{rate}p50 {}, p99 {}{cpu}", millis(self.p50_us), millis(self.p99_us))
    }

    /// What is compared: a rate, or where there is none the speed at the median.
    fn speed(&self) -> f64 {
        self.rate_per_second.unwrap_or(1e6 / self.p50_us.max(1) as f64)
    }
}

#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

/// All rounds of one scenario on one server.
struct Rounds<'a>(Vec<&'a Row>);

impl Rounds<'_> {
    fn middle(&self) -> &Row {
        let mut sorted = self.0.clone();
        sorted.sort_by(|a, b| a.speed().total_cmp(&b.speed()));
        sorted[sorted.len() / 2]
    }

    /// The middle round's figure, and half of what lies between the extremes in percent of it.
    fn spread_percent(&self) -> f64 {
        let speeds = self.0.iter().map(|row| row.speed());
        let (least, most) = speeds
            .fold((f64::MAX, 0.0_f64), |(least, most), speed| (least.min(speed), most.max(speed)));
        (most - least) / self.middle().speed() * 50.0
    }

    /// Ours through theirs, round by round, so that what the machine does meanwhile weighs on both:
    /// the middle and the extremes.
    fn ratio(&self, theirs: &Rounds) -> Ratio {
        let pairs = self.0.iter().zip(&theirs.0);
        let mut ratios: Vec<f64> =
            pairs.map(|(ours, theirs)| ours.speed() / theirs.speed()).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |index: usize| ratios.get(index).copied().unwrap_or(f64::NAN);
        Ratio {
            middle: at(ratios.len() / 2),
            least: at(0),
            most: at(ratios.len().saturating_sub(1)),
        }
    }
}

#[derive(Clone, Copy)]
struct Ratio {
    middle: f64,
    least: f64,
    most: f64,
}

type Table<'a> = BTreeMap<(usize, Kind), Rounds<'a>>;

impl Report {
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// In the order of the scenarios, the node first.
    fn table(&self) -> Table<'_> {
        let mut table = Table::new();
        for row in &self.rows {
            let place = scenario::ALL.iter().position(|scenario| scenario.name == row.scenario);
            let key = (place.unwrap_or(usize::MAX), row.server);
            table.entry(key).or_insert_with(|| Rounds(Vec::new())).0.push(row);
        }
        table
    }

    pub fn markdown(&self) -> String {
        let table = self.table();
        let mut text = String::from(
            "| work | server | rate | p50 | p99 | p99.9 | server CPU each | wasmkeep ÷ it |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for ((place, kind), rounds) in &table {
            let row = rounds.middle();
            let ours = table.get(&(*place, Kind::Wasmkeep)).filter(|_| *kind != Kind::Wasmkeep);
            let ratio = ours.map(|ours| ours.ratio(rounds));
            let ratio = ratio
                .map(|Ratio { middle, least, most }| format!("{middle:.2} ({least:.2}–{most:.2})"));
            let speed = match row.rate_per_second {
                None => "–".to_owned(),
                Some(per_second) => {
                    format!("{} (±{:.0} %)", rate(per_second), rounds.spread_percent())
                }
            };
            let _ = writeln!(
                text,
                "| {} | {} | {speed} | {} | {} | {} | {} | {} |",
                row.scenario,
                kind.name(),
                millis(row.p50_us),
                millis(row.p99_us),
                millis(row.p999_us),
                row.cpu_us.map(micros).unwrap_or("–".into()),
                ratio.unwrap_or("–".into()),
            );
        }
        text.push('\n');
        text.push_str(&aims::markdown(&table));
        text
    }

    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let mut csv = csv::Writer::from_path(folder.join("run.csv"))?;
        self.rows.iter().try_for_each(|row| csv.serialize(row))?;
        csv.flush()?;
        fs::write(folder.join("run.md"), format!("{}\n{}", machine::describe(), self.markdown()))?;
        let table = self.table();
        let bars = table.iter().filter(|((_, kind), _)| *kind != Kind::Wasmkeep);
        let bars = bars.filter_map(|((place, kind), rounds)| {
            let ours = table.get(&(*place, Kind::Wasmkeep))?;
            let name = format!("{} ÷ {}", rounds.middle().scenario, kind.name());
            Some((name, ours.ratio(rounds).middle))
        });
        plot::ratios(&folder.join("run.svg"), &bars.collect::<Vec<_>>())
    }
}
