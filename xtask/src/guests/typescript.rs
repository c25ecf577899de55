//! Guests in TypeScript, built by the SDK's own tool, as an author builds them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{COMPONENTS, folder};
use crate::fingerprint::Fingerprint;
use crate::{command, repo};

const SDK: &str = "sdk-ts";
/// The guest for the engine `web`, with the large package that makes such components.
const WEB: &str = "tests/guests-ts/web";
/// The hash of what these components were made from.
const INPUTS: &str = ".inputs-ts";
/// The hash of the lock file that `node_modules` was filled from.
const INSTALLED: &str = "node_modules/.wasmkeep-installed";

struct Guest {
    entry: &'static str,
    world: &'static str,
    engine: &'static str,
    component: &'static str,
}

const GUESTS: &[Guest] = &[
    Guest {
        entry: "tests/guests-ts/probe/index.ts",
        world: "actor",
        engine: "small",
        component: "guest-probe-ts.wasm",
    },
    Guest {
        entry: "tests/guests-ts/front/index.ts",
        world: "front",
        engine: "small",
        component: "guest-front-ts.wasm",
    },
    Guest {
        entry: "tests/guests-ts/sdk/index.ts",
        world: "actor",
        engine: "small",
        component: "guest-sdk-ts.wasm",
    },
    Guest {
        entry: "tests/guests-ts/web/index.ts",
        world: "actor",
        engine: "web",
        component: "guest-web-ts.wasm",
    },
    Guest {
        entry: "examples/counter-ts/counter.ts",
        world: "actor",
        engine: "small",
        component: "wasmkeep-example-counter-ts.wasm",
    },
    Guest {
        entry: "examples/chat-ts/room.ts",
        world: "actor",
        engine: "small",
        component: "wasmkeep-example-chat-room-ts.wasm",
    },
];

/// Builds what has changed into the folder of components.
pub fn build() -> Result<()> {
    let root = repo::root();
    prepare()?;
    let inputs = inputs(root)?;
    let components = folder();
    let recorded = components.join(INPUTS);
    let have = fs::read_to_string(&recorded).unwrap_or_default();
    if have == inputs && GUESTS.iter().all(|guest| components.join(guest.component).is_file()) {
        println!("{} components in TypeScript are up to date", GUESTS.len());
        return Ok(());
    }
    install(WEB)?;
    let started = Instant::now();
    fs::create_dir_all(&components).with_context(|| format!("create {COMPONENTS}"))?;
    // It comes back last: what a stopped run left behind never passes for complete.
    if recorded.exists() {
        fs::remove_file(&recorded).with_context(|| format!("remove {}", recorded.display()))?;
    }
    for guest in GUESTS {
        let mut tool = Command::new("node");
        tool.current_dir(root).arg("sdk-ts/bin/wasmkeep-ts.js").args(["build", guest.entry]);
        tool.args(["--world", guest.world, "--engine", guest.engine])
            .arg("-o")
            .arg(components.join(guest.component));
        command::run(&mut tool)?;
    }
    fs::write(&recorded, inputs).with_context(|| format!("write {}", recorded.display()))?;
    let seconds = started.elapsed().as_secs_f64();
    println!("built {} components in TypeScript in {seconds:.1} s", GUESTS.len());
    Ok(())
}

/// The tests of the SDK itself, those of its test kit on this server.
pub fn test(server: &Path) -> Result<()> {
    prepare()?;
    let mut test = npm(SDK);
    test.arg("test").env("WASMKEEP", server);
    command::run(test.env("WASMKEEP_TEST_PROBE", folder().join("guest-probe.wasm")))
}

/// Installs the SDK's packages, and compiles it.
fn prepare() -> Result<()> {
    if !command::succeeds(Command::new("npm").arg("--version")) {
        bail!(
            "npm is missing: install Node.js 20 or newer, on Debian `apt-get install nodejs npm`"
        );
    }
    install(SDK)?;
    command::run(npm(SDK).args(["run", "--silent", "build"])).context("compile sdk-ts")
}

/// Fills a folder's `node_modules` with what its lock file has.
fn install(folder: &str) -> Result<()> {
    let path = repo::root().join(folder);
    let mut lock = Fingerprint::new();
    lock.add_file(&path.join("package-lock.json"))?;
    let lock = lock.hex();
    let installed = path.join(INSTALLED);
    if fs::read_to_string(&installed).unwrap_or_default() != lock {
        command::run(npm(folder).args(["ci", "--no-audit", "--no-fund"]))
            .with_context(|| format!("install the packages of {folder}"))?;
        fs::write(&installed, lock).with_context(|| format!("write {}", installed.display()))?;
    }
    Ok(())
}

fn npm(folder: &str) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(repo::root().join(folder));
    npm
}

fn inputs(root: &Path) -> Result<String> {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add_wit(root)?;
    fingerprint.add_folder(&root.join(SDK))?;
    let mut folders: Vec<PathBuf> = GUESTS
        .iter()
        .filter_map(|guest| root.join(guest.entry).parent().map(Path::to_owned))
        .collect();
    folders.push(root.join("tests/guests-ts"));
    folders.sort();
    folders.dedup();
    for folder in folders {
        fingerprint.add_folder(&folder)?;
    }
    Ok(fingerprint.hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guest_in_typescript_is_built() {
        let root = repo::root();
        for guest in GUESTS {
            assert!(root.join(guest.entry).is_file(), "{}", guest.entry);
        }
        let sources = repo::files_below(&root.join("tests/guests-ts")).expect("list the guests");
        let entries = sources.iter().filter(|path| path.ends_with("index.ts"));
        for entry in entries.map(|path| repo::relative(path)) {
            assert!(GUESTS.iter().any(|guest| guest.entry == entry), "{entry} is not in the list");
        }
    }
}
