//! `cargo xtask guests`: the WebAssembly components of `examples/` and `tests/guests/`.
//!
//! All are built by one cargo call into one target folder, so that the standard library and the
//! SDK are compiled once. A hash over everything that goes into them is kept beside the results:
//! while it stands, cargo is not called at all.

mod debian;
mod package;
mod toolchain;
pub mod typescript;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::fingerprint::Fingerprint;
use crate::{command, repo, usage};
use package::Package;
use toolchain::Toolchain;

const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "guest";
/// Where cargo builds guests. Not `target/` itself: a build of the host would wait for its lock.
const BUILD: &str = "target/guests";
const COMPONENTS: &str = "target/components";
/// The hash of what the components were made from.
const INPUTS: &str = ".inputs";

pub fn run(arguments: &[String]) -> Result<()> {
    if arguments != ["ts"] {
        usage::expect_no_arguments(arguments)?;
        build()?;
    }
    typescript::build()
}

/// Where `build` puts the components.
pub fn folder() -> PathBuf {
    repo::root().join(COMPONENTS)
}

/// Makes a toolchain for guests available, installing one if that is possible.
pub fn prepare() -> Result<()> {
    let toolchain = Toolchain::find_or_install()?;
    println!("guests are built by {}", toolchain.name());
    Ok(())
}

/// Builds what has changed into `folder`.
pub fn build() -> Result<()> {
    let root = repo::root();
    let packages = package::all(root)?;
    if packages.is_empty() {
        bail!("there is no guest: no folder of examples/ or tests/guests/ has a Cargo.toml");
    }
    let toolchain = Toolchain::find_or_install()?;
    let inputs = inputs(root, &packages, &toolchain)?;
    let components = folder();
    if are_current(&components, &packages, &inputs) {
        println!("{} components are up to date", packages.len());
        return Ok(());
    }
    let started = Instant::now();
    compile(&packages, &toolchain)?;
    collect(root, &components, &packages, &inputs)?;
    println!(
        "built {} components into {COMPONENTS}/ in {:.1} s with {}",
        packages.len(),
        started.elapsed().as_secs_f64(),
        toolchain.name()
    );
    Ok(())
}

fn inputs(root: &Path, packages: &[Package], toolchain: &Toolchain) -> Result<String> {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add("toolchain", toolchain.identity().as_bytes());
    fingerprint.add_wit(root)?;
    fingerprint.add_folder(&root.join("sdk-rust"))?;
    for package in packages {
        fingerprint.add_folder(&package.folder)?;
    }
    // The profile, and the versions and features of dependencies.
    fingerprint.add_file(&root.join("Cargo.toml"))?;
    fingerprint.add_file(&root.join("Cargo.lock"))?;
    Ok(fingerprint.hex())
}

fn are_current(components: &Path, packages: &[Package], inputs: &str) -> bool {
    let recorded = fs::read_to_string(components.join(INPUTS)).unwrap_or_default();
    recorded.trim() == inputs
        && packages.iter().all(|package| components.join(package.component()).is_file())
}

fn compile(packages: &[Package], toolchain: &Toolchain) -> Result<()> {
    let mut cargo = toolchain.cargo_build()?;
    cargo.args(["--profile", PROFILE, "--target", TARGET, "--target-dir", BUILD]);
    for package in packages {
        cargo.args(["--package", &package.name]);
    }
    command::run(&mut cargo).context("build the guests")
}

/// Copies the results out. The hash goes away first and comes back last: what a stopped run left
/// behind never passes for complete.
fn collect(root: &Path, components: &Path, packages: &[Package], inputs: &str) -> Result<()> {
    fs::create_dir_all(components).with_context(|| format!("create {COMPONENTS}"))?;
    let recorded = components.join(INPUTS);
    if recorded.exists() {
        fs::remove_file(&recorded).with_context(|| format!("remove {}", recorded.display()))?;
    }
    let built = root.join(BUILD).join(TARGET).join(PROFILE);
    for package in packages {
        let from = built.join(package.artifact());
        fs::copy(&from, components.join(package.component())).with_context(|| {
            format!(
                "copy {}: {} needs `[lib] crate-type = [\"cdylib\"]` and no other library name",
                from.display(),
                repo::relative(&package.folder.join("Cargo.toml"))
            )
        })?;
    }
    fs::write(&recorded, inputs).with_context(|| format!("write {}", recorded.display()))
}
