//! Guests by Debian's compiler, for machines whose rustup has no wasm target and cannot fetch it.
//!
//! Debian ships a compiler that knows the target, the sources of its standard library and a libc,
//! but no compiled standard library: cargo builds that with the guests (`-Zbuild-std`). Linkers
//! come from the active toolchain.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::toolchain::Rustc;
use super::{BUILD, TARGET};
use crate::{apt, command, repo};

pub const PACKAGES: &[&str] = &["rustc-web", "rust-web-src", "wasi-libc"];

const RUSTC: &str = "/usr/bin/rustc";
const LIBC: &str = "/usr/lib/wasm32-wasi";
const LINKERS: &[&str] = &["wasm-component-ld", "rust-lld"];

/// The thread functions that Debian's libc lacks; see the file.
const STUBS: &str = include_str!("../../guest-stubs/pthread.rs");

pub struct Debian {
    /// The packages and their versions, a line each.
    packages: String,
    linkers: PathBuf,
}

impl Debian {
    pub fn find_or_install(active: &Rustc) -> Result<Self> {
        let linkers = active.linkers()?;
        for linker in LINKERS {
            if !linkers.join(linker).is_file() {
                bail!("{} has no {linker}; a toolchain from rustup has", linkers.display());
            }
        }
        if let Some(packages) = installed_packages() {
            return Ok(Self { packages, linkers });
        }
        apt::install(PACKAGES)?;
        let packages = installed_packages().context("find the packages after installing them")?;
        Ok(Self { packages, linkers })
    }

    pub fn identity(&self) -> String {
        format!("{}\n{STUBS}", self.packages)
    }

    /// Sets a cargo command up to use this compiler, and returns the flags it needs.
    pub fn configure(&self, cargo: &mut Command) -> Result<Vec<String>> {
        let stubs = self.build_stubs()?;
        let flags = [
            "-L".to_owned(),
            format!("native={LIBC}"),
            "-Clink-self-contained=no".to_owned(),
            format!("-Clink-arg={}", stubs.display()),
        ];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.linkers.clone()).chain(std::env::split_paths(&path));
        cargo
            .arg("-Zbuild-std=std,panic_abort")
            .env("PATH", std::env::join_paths(path).context("extend PATH")?)
            .env("RUSTC", RUSTC)
            .env("RUSTC_BOOTSTRAP", "1");
        Ok(flags.into())
    }

    fn build_stubs(&self) -> Result<PathBuf> {
        let folder = repo::root().join(BUILD);
        std::fs::create_dir_all(&folder).with_context(|| format!("create {BUILD}"))?;
        let object = folder.join("pthread-stubs.o");
        let mut rustc = Command::new(RUSTC);
        rustc
            .args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj"])
            .args(["--target", TARGET, "-Copt-level=s", "-Cpanic=abort", "-o"])
            .arg(&object)
            .arg(repo::root().join("xtask/guest-stubs/pthread.rs"))
            .env("RUSTC_BOOTSTRAP", "1");
        command::capture(&mut rustc).context("compile the thread functions that libc lacks")?;
        Ok(object)
    }
}

/// Names and versions, when all are installed.
fn installed_packages() -> Option<String> {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n"]).args(PACKAGES);
    let packages = command::capture(&mut query).ok()?;
    packages.lines().all(|line| line.ends_with(" installed")).then_some(packages)
}
