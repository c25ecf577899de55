//! `wasmkeep new`: a project that builds, and passes its own tests.

mod templates;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use self::templates::{Names, files};

/// Writes a new project into the folder NAME: sources, tests, and a wasmkeep.toml for
/// `wasmkeep dev`.
#[derive(Debug, clap::Args)]
#[command(after_help = NEXT)]
pub struct Args {
    /// The project: letters, digits and dashes, a letter first; also the folder
    name: String,
    /// The language of the actors
    #[arg(long, default_value = "rust")]
    lang: Language,
    /// What it begins with
    #[arg(long, default_value = "counter")]
    template: Template,
    /// Take the SDK from a checkout of WasmKeep, and not from its repository
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

const NEXT: &str = "\
Then:
  cd NAME
  wasmkeep dev

For Rust, once: rustup target add wasm32-wasip2
For TypeScript, first in each project: npm install";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Rust,
    /// TypeScript
    Ts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Template {
    /// One class: a counter with its history
    Counter,
    /// A front with a page, and rooms that hold WebSockets
    Chat,
    /// A front with a page, and a class it asks
    Front,
}

pub fn run(args: Args) -> Result<()> {
    check(&args.name)?;
    let folder = Path::new(&args.name);
    if folder.exists() {
        bail!("{} is there already: choose another name, or remove it", folder.display());
    }
    let sdk = args.sdk.as_deref().map(checkout).transpose()?;
    let names = Names::new(&args.name, sdk.as_deref());
    for (path, text) in files(args.lang, args.template, &names) {
        let path = folder.join(path);
        let parent = path.parent().context("a file stands in a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    println!("{} is made. Next:", folder.display());
    match args.lang {
        Language::Rust => println!("  rustup target add wasm32-wasip2    # once"),
        Language::Ts => println!("  npm install --prefix {}", folder.display()),
    }
    println!("  cd {}", folder.display());
    println!("  wasmkeep dev");
    Ok(())
}

/// A cargo package, a folder, and a part of component file names.
fn check(name: &str) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let starts = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
    if starts && name.bytes().all(fits) && name.len() <= 40 && !name.ends_with('-') {
        return Ok(());
    }
    bail!("{name:?} is no name for a project: 1 to 40 of a-z, 0-9 and -, a letter first")
}

/// Where the SDK is in a checkout of this repository.
fn checkout(folder: &Path) -> Result<PathBuf> {
    let found = folder.canonicalize().ok().filter(|folder| folder.join("sdk-rust").is_dir());
    found.with_context(|| {
        format!("{} is no checkout of WasmKeep: sdk-rust is not there", folder.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_a_plain_name() {
        for fits in ["a", "my-app", "app2"] {
            assert!(check(fits).is_ok(), "{fits}");
        }
        for wrong in ["", "2app", "-a", "a-", "My", "a_b", "a/b", "..", &"x".repeat(41)] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }
}
