//! An open loop: requests leave at times that are fixed beforehand, whatever the answers do.
//!
//! A latency counts from when the request was to leave. A server that stands still is charged with
//! every request it kept from leaving, not with the one that happened to wait for it.

use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Seen;
use super::exchange::Answer;

/// More than are ever under way at the rates that are asked for, but after a long standstill.
const CONNECTIONS: usize = 32;

pub struct Pace {
    pub per_second: u64,
    pub time: Duration,
}

/// `request` gives the n-th request.
pub fn run(
    address: SocketAddr,
    pace: &Pace,
    request: impl Fn(u64) -> Vec<u8> + Sync,
) -> Result<Seen> {
    let count = (pace.per_second as f64 * pace.time.as_secs_f64()) as u64;
    let between = Duration::from_secs(1).div_f64(pace.per_second as f64);
    let next = AtomicU64::new(0);
    let seen = Mutex::new(Seen::nothing());
    // All connections are there before the first request is due.
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address).context("connect to the server")?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let begin = Instant::now() + Duration::from_millis(50);
    let client = |mut stream: TcpStream| -> Result<()> {
        // The kernel may otherwise wake a sleeper 50 µs late, which is what is measured here.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
        let mut answer = Answer::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let bytes = request(number);
            let due = begin + between.mul_f64(number as f64);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            answer.ask(&mut stream, &bytes)?;
            seen.lock().expect("no client panics").note(due.elapsed());
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            streams.into_iter().map(|stream| scope.spawn(|| client(stream))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("no client panics"))
    })?;
    let mut seen = seen.into_inner().expect("no client panics");
    seen.took = begin.elapsed();
    Ok(seen)
}
