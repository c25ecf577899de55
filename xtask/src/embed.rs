//! `cargo xtask embed`: the demo's components, which `wasmkeep` carries inside its binary.
//!
//! They are committed, so that `cargo build` needs no wasm toolchain. Beside them lies
//! the hash of the sources they were made from; the toolchain is left out of it, since two toolchains
//! make different bytes of the same sources.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::fingerprint::Fingerprint;
use crate::{guests, repo, usage};

const FOLDER: &str = "src/cli/demo";
/// Packages, and the files their components become.
const COMPONENTS: [(&str, &str); 3] = [
    ("wasmkeep-example-chat-front", "chat-front.wasm"),
    ("wasmkeep-example-chat-room", "chat-room.wasm"),
    ("wasmkeep-example-counter", "counter.wasm"),
];
const SOURCES: [&str; 3] = ["sdk-rust", "examples/chat", "examples/counter"];
const INPUTS: &str = "src/cli/demo/inputs";

pub fn run(arguments: &[String]) -> Result<()> {
    usage::expect_no_arguments(arguments)?;
    let root = repo::root();
    let present = inputs(root)?;
    if is_current(root, &present) {
        println!("{FOLDER}/ was made from the present sources: nothing to do");
        return Ok(());
    }
    guests::build()?;
    fs::create_dir_all(root.join(FOLDER)).context("create the folder of the demo's components")?;
    for (package, file) in COMPONENTS {
        let built = guests::folder().join(format!("{package}.wasm"));
        let bytes = fs::copy(&built, root.join(FOLDER).join(file))
            .with_context(|| format!("copy {} to {FOLDER}/{file}", built.display()))?;
        println!("wrote {FOLDER}/{file} ({} KiB)", bytes / 1024);
    }
    fs::write(root.join(INPUTS), present + "\n").with_context(|| format!("write {INPUTS}"))?;
    println!("wrote {INPUTS}: commit all of {FOLDER}/");
    Ok(())
}

/// Fails when a committed component is not the one its sources describe.
pub fn check() -> Result<()> {
    let root = repo::root();
    if !is_current(root, &inputs(root)?) {
        bail!(
            "{FOLDER}/ was not made from the present wit/, {}: run `cargo xtask embed` and commit \
             what it writes",
            SOURCES.join("/, ") + "/"
        );
    }
    for (_, file) in COMPONENTS {
        let path = format!("{FOLDER}/{file}");
        let bytes = fs::read(root.join(&path)).with_context(|| format!("read {path}"))?;
        if names_host_folder(&bytes) {
            bail!("{path} names folders of the machine it was built on: see `guests/toolchain.rs`");
        }
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
    recorded.trim() == inputs
        && COMPONENTS.iter().all(|(_, file)| root.join(FOLDER).join(file).is_file())
}

fn inputs(root: &Path) -> Result<String> {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add_wit(root)?;
    for folder in SOURCES {
        let folder = root.join(folder);
        if !folder.is_dir() {
            bail!("{} is missing: the demo is made from it", repo::relative(&folder));
        }
        fingerprint.add_folder(&folder)?;
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
