//! `wasmkeep-load grow`: the same figure for growing numbers of actors, connections, bytes and alarms.
//!
//! What is flat here is flat for users. Each curve is one node that grows.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::client::Seen;
use crate::client::closed::{self, Requests, Until};
use crate::client::exchange::request;
use crate::process;
use crate::report::{micros, millis, plot, rate, whole};
use crate::run::PlacesGiven;
use crate::scenario::{ask, path, until_asleep};
use crate::target::{BENCH, CROWDED, Kind, Places, Running, SLEEPY};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    places: PlacesGiven,
    /// Curves to draw [default: all]
    curves: Vec<Curve>,
    /// Seconds of each point
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// The last point: actors
    #[arg(long, default_value_t = 10_000)]
    actors: u64,
    /// The last point: megabytes of one database
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=950))]
    megabytes: u64,
    /// The last point: pending alarms. Those beyond 10,000 have no actor behind them: they are
    /// written into the index of a node that is stopped
    #[arg(long, default_value_t = 100_000)]
    alarms: u64,
    /// Folder for the results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Curve {
    /// One hot actor beside so many that sleep
    Asleep,
    /// So many actors in memory, asked in turns
    Resident,
    /// One actor asked over so many connections
    Connections,
    /// One actor whose database has so many kilobytes
    Bytes,
    /// So many pending alarms, and a few that are due
    Alarms,
}

#[derive(Serialize)]
struct Point {
    curve: &'static str,
    figure: &'static str,
    number: u64,
    value: f64,
    unit: &'static str,
}

struct Growing<'a> {
    places: &'a Places,
    time: Duration,
    points: Vec<Point>,
}

const RESIDENTS_MAX: u64 = 7_500;
const ALARMS_DUE: u64 = 20;
/// Actors that set one at each point.
const ALARMS_SET: u64 = 200;
/// More would take a quarter of an hour to make.
const ALARMS_MADE_MAX: u64 = 10_000;

pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { places, curves, seconds, actors, megabytes, alarms, out } = arguments;
    let places = places.places()?;
    let mut growing =
        Growing { places: &places, time: Duration::from_secs(seconds), points: Vec::new() };
    let all = Curve::value_variants();
    for curve in if curves.is_empty() { all } else { &curves } {
        match curve {
            Curve::Asleep => growing.asleep(actors)?,
            Curve::Resident => growing.resident(actors.min(RESIDENTS_MAX))?,
            Curve::Connections => growing.connections()?,
            Curve::Bytes => growing.bytes(megabytes * 1000)?,
            Curve::Alarms => growing.alarms(alarms)?,
        }
    }
    if let Some(folder) = out {
        growing.write(&folder)?;
    }
    Ok(())
}

/// 1, 10, 100 … and the last.
fn steps(last: u64) -> Vec<u64> {
    steps_from(1, last)
}

fn steps_from(first: u64, last: u64) -> Vec<u64> {
    let mut steps: Vec<u64> = std::iter::successors(Some(first), |step| Some(step * 10))
        .take_while(|step| *step < last)
        .collect();
    steps.push(last);
    steps
}

impl Growing<'_> {
    fn note(
        &mut self,
        curve: &'static str,
        figure: &'static str,
        number: u64,
        value: f64,
        unit: &'static str,
    ) {
        let shown = match unit {
            "1/s" => rate(value),
            "µs" => micros(value),
            _ => format!("{value:.1} {unit}"),
        };
        println!("{curve}, {}: {figure} {shown}", whole(number));
        self.points.push(Point { curve, figure, number, value, unit });
    }

    fn load(
        &self,
        running: &Running,
        connections: usize,
        requests: Requests,
    ) -> Result<(Seen, f64)> {
        let pid = running.pid.context("a node of our own")?;
        closed::run(
            running.address,
            connections,
            Until::after(self.time / 4),
            Rc::clone(&requests),
        )?;
        let before = process::cpu(pid)?;
        let seen = closed::run(running.address, connections, Until::after(self.time), requests)?;
        let cpu = process::cpu(pid)?.saturating_sub(before).as_secs_f64() * 1e6;
        let each = cpu / seen.count().max(1) as f64;
        Ok((seen, each))
    }

    fn asleep(&mut self, last: u64) -> Result<()> {
        let running = Running::start(Kind::Wasmkeep, self.places, SLEEPY)?;
        let mut there = 0;
        for number in steps(last) {
            make(&running, ("s", "GET", "hello"), there, number)?;
            there = number;
            until_asleep(&running)?;
            let (seen, cpu) = self.load(&running, 16, all("GET", path("hot", "hello")))?;
            let resident = process::resident(running.pid.context("a node of our own")?)?;
            self.note("asleep", "hello on one hot actor", number, seen.rate(), "1/s");
            self.note("asleep", "CPU of one hello", number, cpu, "µs");
            self.note("asleep", "memory of the node", number, resident as f64 / 1048576.0, "MiB");
        }
        Ok(())
    }

    fn resident(&mut self, last: u64) -> Result<()> {
        let running = Running::start(Kind::Wasmkeep, self.places, BENCH)?;
        let mut there = 0;
        for number in steps(last) {
            make(&running, ("r", "POST", "write"), there, number)?;
            there = number;
            for (figure, method, operation) in
                [("hello in turns", "GET", "hello"), ("write in turns", "POST", "write")]
            {
                let requests: Requests = Rc::new(move |n| {
                    request(method, &path(&format!("r{}", n % number), operation))
                });
                let (seen, _) = self.load(&running, 64, requests)?;
                self.note("resident", figure, number, seen.rate(), "1/s");
            }
        }
        Ok(())
    }

    fn connections(&mut self) -> Result<()> {
        let running = Running::start(Kind::Wasmkeep, self.places, BENCH)?;
        for number in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000] {
            let (seen, cpu) = self.load(&running, number, all("GET", path("a", "hello")))?;
            self.note("connections", "hello", number as u64, seen.rate(), "1/s");
            self.note("connections", "CPU of one hello", number as u64, cpu, "µs");
        }
        Ok(())
    }

    fn bytes(&mut self, last: u64) -> Result<()> {
        let running = Running::start(Kind::Wasmkeep, self.places, SLEEPY)?;
        let mut there = 0;
        for number in steps_from(10, last) {
            while there < number {
                // A megabyte at a time: far from what one event may write. A row has a kilobyte.
                let rows = (number - there).min(1000);
                ask(&running, "POST", &path("a", &format!("fill?rows={rows}")))?;
                there += rows;
            }
            for (figure, method, operation) in [("read", "GET", "read"), ("write", "POST", "write")]
            {
                let (seen, _) = self.load(&running, 1, all(method, path("a", operation)))?;
                let median = seen.latencies.value_at_quantile(0.5) as f64;
                self.note("bytes", figure, number, median, "µs");
            }
            until_asleep(&running)?;
            let began = Instant::now();
            ask(&running, "GET", &path("a", "read"))?;
            self.note(
                "bytes",
                "read that wakes",
                number,
                began.elapsed().as_secs_f64() * 1e6,
                "µs",
            );
        }
        Ok(())
    }

    fn alarms(&mut self, last: u64) -> Result<()> {
        let mut running = Running::start(Kind::Wasmkeep, self.places, CROWDED)?;
        let mut there = 0;
        for number in steps(last) {
            if number > ALARMS_MADE_MAX {
                let data = running.stop();
                enter_alarms(data.path(), number - there)?;
                running = Running::on(data, self.places, CROWDED)?;
                there = number;
            }
            // New ones in any case: what is measured is setting one beside so many.
            let set = ALARMS_SET.max(number.saturating_sub(there));
            let began = Instant::now();
            make(&running, ("f", "POST", "alarm?at=4102444800000"), there, there + set)?;
            let each = began.elapsed().as_secs_f64() * 1e6 / set as f64;
            there += set;
            self.note("alarms", "a new actor sets one", number, each, "µs");
            until_asleep(&running)?;
            let late = due(&running, number)?;
            self.note("alarms", "20 due at once, the last one late by", number, late, "ms");
            let resident = process::resident(running.pid.context("a node of our own")?)?;
            self.note("alarms", "memory of the node", number, resident as f64 / 1048576.0, "MiB");
        }
        Ok(())
    }

    fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let mut csv = csv::Writer::from_path(folder.join("grow.csv"))?;
        self.points.iter().try_for_each(|point| csv.serialize(point))?;
        csv.flush()?;
        let mut drawn: Vec<(&str, &str)> = Vec::new();
        for Point { curve, unit, .. } in &self.points {
            if drawn.contains(&(curve, unit)) {
                continue;
            }
            drawn.push((curve, unit));
            let of_it =
                || self.points.iter().filter(|point| point.curve == *curve && point.unit == *unit);
            let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
            for point in of_it() {
                let at = (point.number as f64, point.value);
                match series.iter_mut().find(|(figure, _)| figure == point.figure) {
                    Some((_, points)) => points.push(at),
                    None => series.push((point.figure.to_owned(), vec![at])),
                }
            }
            let name = match *unit {
                "1/s" => "rate",
                "µs" => "time",
                "MiB" => "memory",
                _ => "late",
            };
            let file = folder.join(format!("grow-{curve}-{name}.svg"));
            plot::curves(&file, curve, unit, &series)?;
        }
        Ok(())
    }
}

/// The same request each time.
fn all(method: &str, path: String) -> Requests {
    let bytes = request(method, &path);
    Rc::new(move |_| bytes.clone())
}

/// Asks new actors, from one number up to another.
fn make(
    running: &Running,
    asked: (&'static str, &'static str, &'static str),
    from: u64,
    to: u64,
) -> Result<()> {
    let (names, method, operation) = asked;
    let requests: Requests = Rc::new(move |number| {
        request(method, &path(&format!("{names}{}", from + number), operation))
    });
    closed::run(running.address, 8, Until::requests(to - from), requests).map(drop)
}

/// Enters so many far alarms into the index of a node that is stopped, like one that is there.
fn enter_alarms(data: &Path, count: u64) -> Result<()> {
    let index = rusqlite::Connection::open(data.join("index.db"))?;
    let count = i64::try_from(count)?;
    let entered = index.execute(
        "INSERT INTO alarms (tenant, app, class, name, due)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?1)
         SELECT tenant, app, class, 'entered' || due || '-' || i || '-' || ?1, due
         FROM (SELECT * FROM alarms LIMIT 1), n",
        [count],
    )?;
    if entered as i64 != count {
        bail!("{entered} alarms entered instead of {count}: the index had none to go by");
    }
    Ok(())
}

/// How late the last of a few alarms ran that were due at once, in milliseconds.
fn due(running: &Running, round: u64) -> Result<f64> {
    let at = SystemTime::now() + Duration::from_secs(3);
    let at_ms = at.duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let named = |number: u64, operation: &str| path(&format!("d{round}-{number}"), operation);
    for number in 0..ALARMS_DUE {
        ask(running, "POST", &named(number, &format!("alarm?at={at_ms}")))?;
    }
    // They sleep when their time comes.
    until_asleep(running)?;
    if SystemTime::now() > at {
        bail!("the actors slept too late: {}", millis(at.elapsed()?.as_micros() as u64));
    }
    std::thread::sleep(at.duration_since(SystemTime::now())? + Duration::from_secs(1));
    let mut last = 0_f64;
    for number in 0..ALARMS_DUE {
        let late: f64 = ask(running, "GET", &named(number, "late"))?
            .parse()
            .context("an alarm has not run a second after its time")?;
        last = last.max(late);
    }
    Ok(last)
}
