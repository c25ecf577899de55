//! `wasmkeep-load memory`: what the node's resident set grows by, for each actor or socket.
//!
//! Growth is counted after a first wave of the same kind: what an allocator keeps once belongs to the
//! node, not to an actor. The kernel's own share (socket buffers, page tables) is not in it. Addresses
//! that sleep are counted on a node with few places, all of which the first wave has used.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::client::closed::{self, Until};
use crate::client::exchange::request;
use crate::client::socket;
use crate::process;
use crate::report::whole;
use crate::run::PlacesGiven;
use crate::scenario::{path, until_asleep};
use crate::target::{BENCH, CROWDED, Places, ROOMIEST, ROOMY, Running, SLEEPY, Serves};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    places: PlacesGiven,
    /// Actors in memory at once
    #[arg(long, default_value_t = 2000)]
    residents: u64,
    /// Addresses that have slept, with and without a pending alarm
    #[arg(long, default_value_t = 10_000)]
    addresses: u64,
    /// WebSockets held by sleeping actors, ten each
    #[arg(long, default_value_t = 5_000)]
    sockets: u64,
    /// Folder for the results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Cost {
    what: &'static str,
    count: u64,
    bytes_each: f64,
    descriptors_each: f64,
    mappings_each: f64,
}

/// A first wave before the count: a tenth of it.
const FIRST_WAVE: u64 = 10;
const TYPESCRIPT: Serves =
    Serves { class: Some("wasmkeep-example-counter-ts.wasm"), front: None, flags: ROOMY };
/// Longer than a node waits before it closes the databases of actors that rest, and gives the kernel
/// the memory of what has gone.
const REST: Duration = Duration::from_secs(20);
/// Actors with a database that are made before the first of them rests; and as many in TypeScript, which
/// take a megabyte each.
const ACTIVE_MAX: u64 = 2_000;
/// Residents that `ROOMY` has room for, those of the first wave included.
const ROOMY_RESIDENTS: u64 = 7_000;
const FIRST_ASLEEP: u64 = 4_000;
const SOCKETS_EACH: u64 = 10;
const FAR_MS: u64 = 4_102_444_800_000;

pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { residents, addresses, sockets, out, places } = arguments;
    let places = places.places()?;
    let idle = Running::start_compiled(&places, BENCH)?;
    let pid = idle.pid.context("a node of our own")?;
    println!(
        "a node with one class, nobody asked for: {} KiB",
        whole(process::resident(pid)? / 1024)
    );
    drop(idle);
    let alarm = format!("alarm?at={FAR_MS}");
    let flags = if residents > ROOMY_RESIDENTS { ROOMIEST } else { ROOMY };
    let bench = Serves { flags, ..BENCH };
    let costs = [
        resident(&places, "resident actor, no storage", bench, ("GET", "hello"), residents)?,
        active(&places, "resident actor with a database, at once", bench, residents)?,
        resident(
            &places,
            "resident actor with a database, 20 s later",
            bench,
            ("POST", "write"),
            residents,
        )?,
        resident(
            &places,
            "resident actor of TypeScript with a database",
            TYPESCRIPT,
            ("GET", ""),
            residents.min(ACTIVE_MAX),
        )?,
        asleep(&places, "address asleep, no storage", ("GET", "hello"), addresses)?,
        asleep(&places, "address asleep with an alarm", ("POST", &alarm), addresses)?,
        held(&places, sockets)?,
    ];
    println!("\n| what | how many | memory each | descriptors each | mappings each |");
    println!("| --- | --- | --- | --- | --- |");
    for Cost { what, count, bytes_each, descriptors_each, mappings_each } in &costs {
        let bytes = if *bytes_each < 4096.0 {
            format!("{bytes_each:.0} bytes")
        } else {
            format!("{:.1} KiB", bytes_each / 1024.0)
        };
        let count = whole(*count);
        println!("| {what} | {count} | {bytes} | {descriptors_each:.2} | {mappings_each:.2} |");
    }
    if let Some(folder) = out {
        fs::create_dir_all(&folder)?;
        let mut csv = csv::Writer::from_path(folder.join("memory.csv"))?;
        costs.iter().try_for_each(|cost| csv.serialize(cost))?;
        csv.flush()?;
    }
    Ok(())
}

/// What the operating system says of a node.
struct Usage {
    bytes: f64,
    descriptors: f64,
    mappings: f64,
}

impl Usage {
    fn of(running: &Running) -> Result<Self> {
        let pid = running.pid.context("a node of our own")?;
        Ok(Self {
            bytes: process::resident(pid)? as f64,
            descriptors: process::descriptors(pid)? as f64,
            mappings: process::mappings(pid)? as f64,
        })
    }

    fn cost(&self, what: &'static str, before: &Self, count: u64) -> Cost {
        let each = |now: f64, before: f64| (now - before) / count as f64;
        Cost {
            what,
            count,
            bytes_each: each(self.bytes, before.bytes),
            descriptors_each: each(self.descriptors, before.descriptors),
            mappings_each: each(self.mappings, before.mappings),
        }
    }
}

fn resident(
    places: &Places,
    what: &'static str,
    serves: Serves,
    asked: (&'static str, &str),
    count: u64,
) -> Result<Cost> {
    let running = Running::start_compiled(places, serves)?;
    visit(&running, "first", asked, (count / FIRST_WAVE).max(1))?;
    std::thread::sleep(REST);
    let before = Usage::of(&running)?;
    visit(&running, "m", asked, count)?;
    std::thread::sleep(REST);
    Ok(Usage::of(&running)?.cost(what, &before, count))
}

/// As `resident`, before anything has come to rest: as many as are made within seconds.
fn active(places: &Places, what: &'static str, serves: Serves, count: u64) -> Result<Cost> {
    let count = count.min(ACTIVE_MAX);
    let running = Running::start_compiled(places, serves)?;
    visit(&running, "first", ("POST", "write"), count / FIRST_WAVE)?;
    let before = Usage::of(&running)?;
    visit(&running, "m", ("POST", "write"), count)?;
    Ok(Usage::of(&running)?.cost(what, &before, count))
}

fn asleep(
    places: &Places,
    what: &'static str,
    asked: (&'static str, &str),
    count: u64,
) -> Result<Cost> {
    let running = Running::start_compiled(places, CROWDED)?;
    // All places are used, and the index has its pages in memory: both are the node's.
    visit(&running, "first", asked, FIRST_ASLEEP)?;
    until_asleep(&running)?;
    std::thread::sleep(REST);
    let before = Usage::of(&running)?;
    visit(&running, "s", asked, count)?;
    until_asleep(&running)?;
    std::thread::sleep(REST);
    Ok(Usage::of(&running)?.cost(what, &before, count))
}

fn held(places: &Places, count: u64) -> Result<Cost> {
    let running = Running::start_compiled(places, SLEEPY)?;
    visit(&running, "first", ("GET", "hello"), 500)?;
    until_asleep(&running)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let address = running.address;
    let open = |from: u64, to: u64| async move {
        let mut open = Vec::new();
        for number in from..to {
            let path = format!("/actor/bench/h{}", number / SOCKETS_EACH);
            open.push(socket::open(address, &path).await?);
        }
        anyhow::Ok(open)
    };
    let first = runtime.block_on(open(0, (count / FIRST_WAVE).max(1)))?;
    until_asleep(&running)?;
    std::thread::sleep(REST);
    let before = Usage::of(&running)?;
    let rest = runtime.block_on(open(count, 2 * count))?;
    until_asleep(&running)?;
    std::thread::sleep(REST);
    let cost = Usage::of(&running)?.cost("WebSocket held for an actor asleep", &before, count);
    drop((first, rest));
    Ok(cost)
}

fn visit(
    running: &Running,
    names: &'static str,
    asked: (&'static str, &str),
    count: u64,
) -> Result<()> {
    let (method, operation) = (asked.0, asked.1.to_owned());
    let requests: closed::Requests =
        Rc::new(move |number| request(method, &path(&format!("{names}{number}"), &operation)));
    closed::run(running.address, 8, Until::requests(count), requests).map(drop)
}
