//! A server as a child process, and what the operating system says it used.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const PATIENCE: Duration = Duration::from_secs(120);

/// Ends with the value.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Process {
    /// Starts a server that prints `listening on http://ADDRESS` once it is ready.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let output = child.stdout.take().context("the server's output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let Some(address) = line.trim().strip_prefix("listening on http://") else {
            let ended = child.wait()?;
            bail!("{command:?} ended with {ended}: run it by hand to see why");
        };
        let address = address.parse().with_context(|| format!("the address in {line:?}"))?;
        Ok(Self { child, address })
    }

    /// Starts a server that says nothing, at an address it was told, and waits until it listens.
    pub fn start_at(mut command: Command, address: SocketAddr) -> Result<Self> {
        let began = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let mut process = Self { child, address };
        while TcpStream::connect(address).is_err() {
            if let Some(ended) = process.child.try_wait()? {
                bail!("{command:?} ended with {ended}");
            }
            if began.elapsed() > PATIENCE {
                bail!("{command:?} does not listen on {address} after {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(process)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A stop may wait for much; the figures are in, and the data is a temporary folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// User and system time of a process so far, its threads included.
pub fn cpu(pid: u32) -> Result<Duration> {
    let text = read(pid, "stat")?;
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
        bail!("no times in /proc/{pid}/stat");
    };
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok(Duration::from_secs_f64((user + system) as f64 / per_second))
}

/// The resident set, in bytes.
pub fn resident(pid: u32) -> Result<u64> {
    let text = read(pid, "status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("no VmRSS in /proc/{pid}/status"))? * 1024)
}

pub fn descriptors(pid: u32) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

pub fn mappings(pid: u32) -> Result<usize> {
    Ok(read(pid, "maps")?.lines().count())
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(Path::new(&path)).with_context(|| format!("read {path}"))
}
