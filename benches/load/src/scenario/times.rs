//! What is a time and no rate: waking, alarms, starting.

use std::net::TcpStream;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};

use super::{Measured, Stage};
use crate::client::Seen;
use crate::client::closed::{self, Until};
use crate::client::exchange::{Answer, request};
use crate::scenario::requests::path;
use crate::target::{BENCH, Kind, Running};

const WOKEN: u64 = 500;
const ALARMS: u64 = 200;
/// From when the first is set until they are due.
const AHEAD: Duration = Duration::from_millis(2500);
const LATE_MAX: Duration = Duration::from_secs(30);
const STARTS: usize = 5;

/// Every actor is asked once: asleep, or awake.
pub fn wake(stage: &Stage, asleep: bool) -> Result<Measured> {
    let address = stage.running.address;
    let all = |method: &'static str, operation: &'static str| -> closed::Requests {
        Rc::new(move |number| request(method, &path(&format!("w{number}"), operation)))
    };
    closed::run(address, 8, Until::requests(WOKEN), all("POST", "write"))?;
    if asleep {
        until_asleep(stage.running)?;
    }
    stage.measure(|| closed::run(address, 1, Until::requests(WOKEN), all("GET", "read")))
}

pub fn until_asleep(running: &Running) -> Result<()> {
    let began = Instant::now();
    while metric(running, "wasmkeep_resident_actors")? > 0.0 {
        if began.elapsed() > Duration::from_secs(600) {
            bail!("the actors do not sleep");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// The value of one of the node's metrics.
fn metric(running: &Running, name: &str) -> Result<f64> {
    let text = ask(running, "GET", "/_wasmkeep/metrics")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no metric {name}"))?.parse()?)
}

/// One request on a connection of its own.
pub fn ask(running: &Running, method: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(running.address)?;
    let mut answer = Answer::default();
    answer.ask(&mut stream, &request(method, path))?;
    Ok(answer.text().to_owned())
}

/// Actors in memory, all with the same time.
pub fn alarms(stage: &Stage) -> Result<Measured> {
    let due = SystemTime::now() + AHEAD;
    let at_ms = due.duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let set: closed::Requests = Rc::new(move |number| {
        request("POST", &path(&format!("l{number}"), &format!("alarm?at={at_ms}")))
    });
    let began = Instant::now();
    closed::run(stage.running.address, 16, Until::requests(ALARMS), set)?;
    if SystemTime::now() >= due {
        bail!("setting {ALARMS} alarms took {:?}, past their time", began.elapsed());
    }
    // Nobody is asked before most are over: a question is an event, too.
    std::thread::sleep(due.duration_since(SystemTime::now())? + Duration::from_secs(1));
    let mut seen = Seen::nothing();
    for number in 0..ALARMS {
        let late = path(&format!("l{number}"), "late");
        loop {
            if let Ok(ms) = ask(stage.running, "GET", &late)?.parse::<u64>() {
                seen.note(Duration::from_millis(ms));
                break;
            }
            if due.elapsed()? > LATE_MAX {
                bail!("an alarm has not run {LATE_MAX:?} after its time");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(Measured::new(None, ALARMS, seen.latencies, None))
}

/// On a data directory that a start before has filled with what it compiled.
pub fn start(stage: &Stage) -> Result<Measured> {
    let mut seen = Seen::nothing();
    let mut data = stage.places.folder()?;
    for number in 0..=STARTS {
        let began = Instant::now();
        let running = match stage.kind {
            Kind::Wasmkeep => Running::on(data, stage.places, BENCH)?,
            kind => Running::start(kind, stage.places, BENCH)?,
        };
        ask(&running, "GET", &path("a", "hello"))?;
        if number > 0 {
            seen.note(began.elapsed());
        }
        data = running.stop();
    }
    Ok(Measured::new(None, STARTS as u64, seen.latencies, None))
}
