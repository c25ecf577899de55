//! `cargo xtask embed`: the demo component that `wasmkeep` carries inside its binary.
//!
//! The component is committed, so that `cargo build` needs no wasm toolchain. Beside it lies the
//! hash of the sources it was made from; the toolchain is left out of it, since two toolchains
//! make different bytes of the same sources.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::fingerprint::Fingerprint;
use crate::{guests, repo, usage};

const PACKAGE: &str = "wasmkeep-example-counter";
const SOURCES: &str = "examples/counter";
const COMPONENT: &str = "src/cli/demo/counter.wasm";
const INPUTS: &str = "src/cli/demo/counter.inputs";

pub fn run(arguments: &[String]) -> Result<()> {
    usage::expect_no_arguments(arguments)?;
    let root = repo::root();
    let present = inputs(root)?;
    if is_current(root, &present) {
        println!("{COMPONENT} was made from the present sources: nothing to do");
        return Ok(());
    }
    guests::build()?;
    let component = guests::folder().join(format!("{PACKAGE}.wasm"));
    let target = root.join(COMPONENT);
    fs::create_dir_all(target.parent().expect("the path has a folder"))
        .context("create the folder of the demo component")?;
    let bytes = fs::copy(&component, &target)
        .with_context(|| format!("copy {} to {COMPONENT}", component.display()))?;
    fs::write(root.join(INPUTS), present + "\n").with_context(|| format!("write {INPUTS}"))?;
    println!("wrote {COMPONENT} ({} KiB) and {INPUTS}: commit both", bytes / 1024);
    Ok(())
}

/// Fails when the committed component is not the one its sources describe.
pub fn check() -> Result<()> {
    let root = repo::root();
    if !is_current(root, &inputs(root)?) {
        bail!(
            "{COMPONENT} was not made from the present wit/, sdk-rust/ and {SOURCES}/: \
             run `cargo xtask embed` and commit what it writes"
        );
    }
    let bytes = fs::read(root.join(COMPONENT)).with_context(|| format!("read {COMPONENT}"))?;
    if names_host_folder(&bytes) {
        bail!(
            "{COMPONENT} names folders of the machine it was built on: see `guests/toolchain.rs`"
        );
    }
    Ok(())
}

/// Whether a component tells where cargo kept its sources.
fn names_host_folder(component: &[u8]) -> bool {
    const SOURCES: &[u8] = b"registry/src";
    component.windows(SOURCES.len()).any(|window| window == SOURCES)
}

fn is_current(root: &Path, inputs: &str) -> bool {
    let recorded = fs::read_to_string(root.join(INPUTS)).unwrap_or_default();
    recorded.trim() == inputs && root.join(COMPONENT).is_file()
}

fn inputs(root: &Path) -> Result<String> {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add_wit(root)?;
    for folder in ["sdk-rust", SOURCES] {
        if !root.join(folder).join("Cargo.toml").is_file() {
            bail!("{folder}/Cargo.toml is missing: the demo component is made from it");
        }
        fingerprint.add_folder(&root.join(folder))?;
    }
    Ok(fingerprint.hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_that_names_the_machines_folders_is_told() {
        assert!(names_host_folder(
            b"\0asm /home/me/.cargo/registry/src/index/serde-1.0/src/lib.rs"
        ));
        assert!(!names_host_folder(b"\0asm crates/serde-1.0/src/lib.rs"));
    }
}
