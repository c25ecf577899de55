//! The work, each piece with those who can do it.

mod requests;
mod sockets;
mod sqlite;
mod times;

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

use crate::client::Seen;
use crate::process;
use crate::target::{BENCH, Kind, Places, Running, SLEEPY, Serves};

pub use requests::path;
pub use times::{ask, until_asleep};

pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub serves: Serves,
    pub kinds: &'static [Kind],
    pub work: fn(&Stage) -> Result<Measured>,
}

/// Where a piece of work takes place.
pub struct Stage<'a> {
    pub kind: Kind,
    pub running: &'a Running,
    pub places: &'a Places,
    pub time: Duration,
}

pub struct Measured {
    /// Operations a second; none where the work is not to do as many as possible.
    pub rate: Option<f64>,
    /// In microseconds.
    pub latencies: Histogram<u64>,
    /// Of the server, for each operation.
    pub cpu: Option<Duration>,
}

impl Measured {
    fn new(
        rate: Option<f64>,
        operations: u64,
        latencies: Histogram<u64>,
        cpu: Option<Duration>,
    ) -> Self {
        let cpu = cpu.filter(|_| operations > 0).map(|cpu| cpu.div_f64(operations as f64));
        Self { rate, latencies, cpu }
    }

    pub fn latency(&self, percent: f64) -> Duration {
        Duration::from_micros(self.latencies.value_at_percentile(percent))
    }
}

impl Stage<'_> {
    /// Does the work and reads from the operating system what the server used for it.
    fn measure(&self, work: impl FnOnce() -> Result<Seen>) -> Result<Measured> {
        let before = self.cpu()?;
        let seen = work()?;
        let cpu = self.cpu()?.zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok(Measured::new(Some(seen.rate()), seen.count(), seen.latencies, cpu))
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        self.running.pid.map(process::cpu).transpose()
    }
}

const FRONT: Serves = Serves { class: None, front: Some("guest-front-hello.wasm"), flags: &[] };

use Kind::{RawHttp, RawSockets, RawSqlite, RawSqliteFull, Wasmkeep, WasmtimeServe, Workerd};

pub const ALL: &[Scenario] = &[
    Scenario {
        name: "hello",
        about: "a constant from one actor, 64 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd, RawHttp],
        work: |stage| requests::hot(stage, "GET", "hello", 64),
    },
    Scenario {
        name: "hello-1",
        about: "the same, one connection",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd, RawHttp],
        work: |stage| requests::hot(stage, "GET", "hello", 1),
    },
    Scenario {
        name: "hello-1000-actors",
        about: "a constant, from 1,000 actors in turns, 64 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd],
        work: |stage| requests::spread(stage, "GET", "hello"),
    },
    Scenario {
        name: "read",
        about: "a row read by its key, one actor, 64 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd],
        work: |stage| requests::hot(stage, "GET", "read", 64),
    },
    Scenario {
        name: "write",
        about: "a row written and read, answered before any fsync, one actor, 64 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, RawSqlite],
        work: |stage| requests::hot(stage, "POST", "write", 64),
    },
    Scenario {
        name: "write-1000-actors",
        about: "the same, on 1,000 actors in turns",
        serves: BENCH,
        kinds: &[Wasmkeep, RawSqlite],
        work: |stage| requests::spread(stage, "POST", "write"),
    },
    Scenario {
        name: "durable",
        about: "a row written, fsynced and read, one actor, 64 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd, RawSqliteFull],
        work: |stage| requests::hot(stage, "POST", "durable", 64),
    },
    Scenario {
        name: "durable-1",
        about: "the same, one connection",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd, RawSqliteFull],
        work: |stage| requests::hot(stage, "POST", "durable", 1),
    },
    Scenario {
        name: "durable-1000-actors",
        about: "the same, on 1,000 actors in turns, 64 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd, RawSqliteFull],
        work: |stage| requests::spread(stage, "POST", "durable"),
    },
    Scenario {
        name: "call",
        about: "one actor calls another, 64 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd],
        work: |stage| requests::hot(stage, "POST", "call/b", 64),
    },
    Scenario {
        name: "create",
        about: "the first request of a new actor, no storage, 16 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd],
        work: |stage| requests::create(stage, "GET", "hello", 16),
    },
    Scenario {
        name: "create-write",
        about: "the first request of a new actor, which makes a table and writes, 16 connections",
        serves: BENCH,
        kinds: &[Wasmkeep, RawSqlite],
        work: |stage| requests::create(stage, "POST", "write", 16),
    },
    Scenario {
        name: "create-write-1",
        about: "the same, one by one",
        serves: BENCH,
        kinds: &[Wasmkeep, RawSqlite],
        work: |stage| requests::create(stage, "POST", "write", 1),
    },
    Scenario {
        name: "create-durable-1",
        about: "the same with an fsync, one by one",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd],
        work: |stage| requests::create(stage, "POST", "durable", 1),
    },
    Scenario {
        name: "wake",
        about: "a read that wakes its actor, one by one",
        serves: SLEEPY,
        kinds: &[Wasmkeep],
        work: |stage| times::wake(stage, true),
    },
    Scenario {
        name: "wake-warm",
        about: "the same read, the actors awake: what a wake is measured against",
        serves: SLEEPY,
        kinds: &[Wasmkeep],
        work: |stage| times::wake(stage, false),
    },
    Scenario {
        name: "paced-hello",
        about: "a constant, 500 a second whatever the answers do",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd, RawHttp],
        work: |stage| requests::paced(stage, "GET", "hello"),
    },
    Scenario {
        name: "paced-durable",
        about: "a durable write, 500 a second whatever the answers do",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd],
        work: |stage| requests::paced(stage, "POST", "durable"),
    },
    Scenario {
        name: "echo",
        about: "a message of a WebSocket to its actor and back, 64 sockets",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd, RawSockets],
        work: sockets::echo,
    },
    Scenario {
        name: "fan-out",
        about: "a message to all of an actor's 200 sockets; rate and CPU of each received",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd, RawSockets],
        work: |stage| sockets::fan_out(stage, 200),
    },
    Scenario {
        name: "fan-out-1000",
        about: "the same with 1,000 sockets",
        serves: BENCH,
        kinds: &[Wasmkeep, RawSockets],
        work: |stage| sockets::fan_out(stage, 1000),
    },
    Scenario {
        name: "front",
        about: "a constant from the front, a new instance for each request, 64 connections",
        serves: FRONT,
        kinds: &[Wasmkeep, WasmtimeServe, Workerd, RawHttp],
        work: |stage| requests::front(stage, 64),
    },
    Scenario {
        name: "front-1",
        about: "the same, one connection",
        serves: FRONT,
        kinds: &[Wasmkeep, WasmtimeServe, Workerd, RawHttp],
        work: |stage| requests::front(stage, 1),
    },
    Scenario {
        name: "alarms",
        about: "200 alarms due at once; the latency is how late they ran",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd],
        work: times::alarms,
    },
    Scenario {
        name: "start",
        about: "a server's start until its first answer, compiled before; latency alone",
        serves: BENCH,
        kinds: &[Wasmkeep, Workerd],
        work: times::start,
    },
];
