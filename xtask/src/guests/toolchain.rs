//! Which compiler builds guests: the one cargo uses, when it has the standard library for wasm or
//! rustup can fetch it; else Debian's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::debian::Debian;
use super::{BUILD, TARGET};
use crate::{command, repo};

pub enum Toolchain {
    /// The compiler cargo uses anyway.
    Active(Rustc),
    Debian(Debian),
}

impl Toolchain {
    /// What is installed is used as it is; only what is missing is fetched.
    pub fn find_or_install() -> Result<Self> {
        let active = Rustc::active()?;
        if active.has_target() || rustup_adds_target(&active) {
            return Ok(Self::Active(active));
        }
        match Debian::find_or_install(&active) {
            Ok(debian) => {
                remember_refusal(&active)?;
                Ok(Self::Debian(debian))
            }
            Err(reason) => bail!(
                "no compiler here builds for {TARGET}.\n\
                 With rustup: `rustup target add {TARGET}` (tried; it failed or rustup is missing).\n\
                 On Debian: `apt-get install {}` as root ({reason:#}).\n\
                 Then run this task again.",
                super::debian::PACKAGES.join(" ")
            ),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Active(rustc) => rustc.name(),
            Self::Debian(_) => {
                "Debian's rustc-web, with a standard library built from rust-web-src"
            }
        }
    }

    /// Two toolchains of the same identity make the same components.
    pub fn identity(&self) -> String {
        match self {
            Self::Active(rustc) => rustc.version.clone(),
            Self::Debian(debian) => debian.identity(),
        }
    }

    /// `cargo build` with this compiler, still without packages and target.
    pub fn cargo_build(&self) -> Result<Command> {
        let mut cargo = command::cargo();
        cargo.arg("build");
        let mut flags = host_paths_left_out()?;
        if let Self::Debian(debian) = self {
            flags.extend(debian.configure(&mut cargo)?);
        }
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        Ok(cargo)
    }
}

/// Flags that keep this machine's folders out of components: panics name the source they are in.
fn host_paths_left_out() -> Result<Vec<String>> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cargo"))
    });
    let sources = cargo_home.context("find cargo's home: set HOME or CARGO_HOME")?;
    let sources = sources.join("registry/src");
    let mut flags = vec![format!("--remap-path-prefix={}=.", repo::root().display())];
    // Absent before the first build of a machine; then xtask itself could not run.
    for registry in fs::read_dir(&sources).into_iter().flatten() {
        let registry = registry.with_context(|| format!("read {}", sources.display()))?.path();
        flags.push(format!("--remap-path-prefix={}=crates", registry.display()));
    }
    Ok(flags)
}

/// A compiler, as it describes itself.
pub struct Rustc {
    /// All of `rustc -vV`.
    version: String,
    sysroot: PathBuf,
}

impl Rustc {
    fn active() -> Result<Self> {
        let rustc = || {
            let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
            rustc.current_dir(repo::root());
            rustc
        };
        Ok(Self {
            version: command::capture(rustc().arg("-vV"))?,
            sysroot: command::capture(rustc().args(["--print", "sysroot"]))?.trim().into(),
        })
    }

    /// `rustc 1.95.0 (59807616e 2026-04-14)`
    fn name(&self) -> &str {
        self.version.lines().next().unwrap_or("rustc")
    }

    fn has_target(&self) -> bool {
        self.sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir()
    }

    /// Where the linkers are that come with the compiler.
    pub fn linkers(&self) -> Result<PathBuf> {
        let host = self.version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("find the host in `rustc -vV`")?;
        Ok(self.sysroot.join("lib/rustlib").join(host).join("bin"))
    }
}

/// Asks rustup for the target, once per compiler: without a network each try costs seconds.
fn rustup_adds_target(active: &Rustc) -> bool {
    let refused = fs::read_to_string(refusal_file()).unwrap_or_default();
    if refused == active.version {
        return false;
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]).current_dir(repo::root());
    command::succeeds(&mut rustup) && active.has_target()
}

fn remember_refusal(active: &Rustc) -> Result<()> {
    let file = refusal_file();
    let folder: &Path = file.parent().expect("the file is in a folder");
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    fs::write(&file, &active.version).with_context(|| format!("write {}", file.display()))
}

fn refusal_file() -> PathBuf {
    repo::root().join(BUILD).join("rustup-has-no-target")
}
