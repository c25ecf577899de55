//! What is loaded: a node, or a peer that does the same work.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::Process;

/// A kind of server. Each is started anew for each measurement, with nothing on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Wasmkeep,
    Workerd,
    WasmtimeServe,
    /// One that runs already, at an address that was given.
    Given,
    /// hyper, answering a constant.
    RawHttp,
    /// Sockets without a protocol behind them.
    RawSockets,
    /// SQLite in a loop in this process, `synchronous=NORMAL`.
    RawSqlite,
    /// The same with `synchronous=FULL`: an fsync for every write.
    RawSqliteFull,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasmkeep => "wasmkeep",
            Self::Workerd => "workerd",
            Self::WasmtimeServe => "wasmtime serve",
            Self::Given => "given",
            Self::RawHttp => "bare hyper",
            Self::RawSockets => "bare sockets",
            Self::RawSqlite => "bare SQLite, NORMAL",
            Self::RawSqliteFull => "bare SQLite, FULL",
        }
    }
}

/// Where everything is.
pub struct Places {
    pub server: PathBuf,
    pub components: PathBuf,
    pub workerd: Option<PathBuf>,
    pub wasmtime: Option<PathBuf>,
    /// A server that runs already, and its process if it is on this machine.
    pub given: Option<(SocketAddr, Option<u32>)>,
    /// `benches/peers`.
    pub peers: PathBuf,
    /// Where data directories are made: the disk that is measured.
    pub data: PathBuf,
}

impl Places {
    pub fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Workerd => self.workerd.is_some(),
            Kind::WasmtimeServe => self.wasmtime.is_some(),
            Kind::Given => self.given.is_some(),
            _ => true,
        }
    }

    pub fn folder(&self) -> Result<TempDir> {
        tempfile::tempdir_in(&self.data)
            .with_context(|| format!("make a folder in {}", self.data.display()))
    }

    pub fn component(&self, name: &str) -> Result<PathBuf> {
        let path = self.components.join(name);
        path.metadata()
            .with_context(|| format!("{}: `cargo xtask guests` builds it", path.display()))?;
        Ok(path)
    }
}

/// What the node is to serve, and how.
#[derive(Clone, Copy)]
pub struct Serves {
    /// Class and component; `None` for the front alone.
    pub class: Option<&'static str>,
    pub front: Option<&'static str>,
    pub flags: &'static [&'static str],
}

pub const BENCH: Serves = Serves { class: Some("guest-bench.wasm"), front: None, flags: ROOMY };
/// Actors sleep a second after their last event.
pub const SLEEPY: Serves =
    Serves { flags: &["--idle-timeout-secs", "1", "--max-instances", "4000"], ..BENCH };
/// As `SLEEPY`, in few places: a first wave of some hundred actors has used them all, so what a second
/// one adds to the memory is addresses and no places.
pub const CROWDED: Serves =
    Serves { flags: &["--idle-timeout-secs", "1", "--max-instances", "256"], ..BENCH };
/// As many as 20,000 descriptors allow. It takes more mappings than a process has by default:
/// `sysctl -w vm.max_map_count=131072`.
pub const ROOMIEST: &[&str] = &["--idle-timeout-secs", "600", "--max-instances", "9400"];
/// Nobody sleeps, nobody is sent away.
pub const ROOMY: &[&str] = &["--idle-timeout-secs", "600", "--max-instances", "8000"];

/// A server that runs, with a folder of its own.
pub struct Running {
    _process: Option<Process>,
    data: TempDir,
    pub address: SocketAddr,
    /// The process to look at; none if it is elsewhere.
    pub pid: Option<u32>,
}

impl Running {
    pub fn start(kind: Kind, places: &Places, serves: Serves) -> Result<Self> {
        let data = places.folder()?;
        let process = match kind {
            Kind::Given => None,
            Kind::Wasmkeep => Some(Process::start(node(places, serves, data.path())?)?),
            Kind::Workerd => Some(workerd(places, data.path())?),
            Kind::WasmtimeServe => Some(wasmtime(places, serves)?),
            Kind::RawHttp => Some(Process::start(raw("http")?)?),
            Kind::RawSockets => Some(Process::start(raw("sockets")?)?),
            Kind::RawSqlite | Kind::RawSqliteFull => None,
        };
        let (address, pid) = match (&process, places.given) {
            (Some(process), _) => (process.address, Some(process.pid())),
            (None, Some(given)) => given,
            (None, None) => (unspecified(), None),
        };
        Ok(Self { _process: process, data, address, pid })
    }

    /// A node that compiled its components in a start before this one: what a compiler leaves
    /// behind in memory belongs to no actor.
    pub fn start_compiled(places: &Places, serves: Serves) -> Result<Self> {
        let data = places.folder()?;
        drop(Process::start(node(places, serves, data.path())?)?);
        Self::on(data, places, serves)
    }

    /// A node on a data directory that is there.
    pub fn on(data: TempDir, places: &Places, serves: Serves) -> Result<Self> {
        let process = Process::start(node(places, serves, data.path())?)?;
        let (address, pid) = (process.address, Some(process.pid()));
        Ok(Self { _process: Some(process), data, address, pid })
    }

    /// Stops it, and leaves what it has on disk.
    pub fn stop(self) -> TempDir {
        self.data
    }
}

/// The command that serves a node.
fn node(places: &Places, serves: Serves, data: &Path) -> Result<Command> {
    let mut command = Command::new(&places.server);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    command.args(serves.flags).stderr(Stdio::null());
    if let Some(class) = serves.class {
        command.arg("--actor").arg(format!("bench={}", places.component(class)?.display()));
    }
    if let Some(front) = serves.front {
        command.arg("--front").arg(places.component(front)?);
    }
    Ok(command)
}

fn workerd(places: &Places, data: &Path) -> Result<Process> {
    let address = free_address()?;
    let program = places.workerd.as_ref().context("no workerd was given")?;
    let mut command = Command::new(program);
    command.arg("serve").arg(places.peers.join("workerd/config.capnp"));
    command.arg(format!("--socket-addr=http={address}"));
    command.arg(format!("--directory-path=disk={}", data.display()));
    Process::start_at(command, address)
}

fn wasmtime(places: &Places, serves: Serves) -> Result<Process> {
    let address = free_address()?;
    let program = places.wasmtime.as_ref().context("no wasmtime was given")?;
    let front = serves.front.context("wasmtime serves nothing but a front")?;
    let mut command = Command::new(program);
    command.args(["serve", "-S", "cli=y", "--addr", &address.to_string()]);
    command.arg(places.component(front)?);
    Process::start_at(command, address)
}

fn raw(kind: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.args(["raw", kind]);
    Ok(command)
}

/// Free now: another may take it before the peer does, which then says so.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn unspecified() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
}
