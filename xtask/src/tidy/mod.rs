//! `cargo xtask tidy`: the structural rules of this tree, as checks.
//!
//! A check is a pure function from the texts of the sources to problems; its tests show it failing
//! on a bad example. A problem says what to do. Sizes are printed and fail nothing.

mod contract_copy;
mod dead_files;
mod dependencies;
mod dependency_reasons;
mod import_order;
mod leftovers;
mod limits;
mod links;
mod markdown;
mod metrics;
mod paths;
mod purity;
mod rust_text;
mod shells_apart;
mod sizes;
mod sources;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::repo;
use crate::usage::UsageError;
use sources::{Problem, Sources};

const CHECKS: &[fn(&Sources) -> Vec<Problem>] = &[
    import_order::check,
    shells_apart::check,
    purity::check,
    limits::check,
    links::check,
    metrics::check,
    dependencies::check,
    dependency_reasons::check,
    contract_copy::check,
    dead_files::check,
    leftovers::check,
];

pub fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => {}
        [only] if only == "--write" => {
            write_limits_page()?;
            contract_copy::write()?;
        }
        [first, ..] => {
            return Err(UsageError::new(format!("unexpected argument `{first}`")).into());
        }
    }
    check()
}

/// Prints what is wrong and how large things are; fails when something is wrong.
pub fn check() -> Result<()> {
    let sources = Sources::load(repo::root())?;
    let mut problems: Vec<Problem> = CHECKS.iter().flat_map(|check| check(&sources)).collect();
    problems.sort();
    print!("{}", sizes::report(&sources));
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        count => bail!("tidy found {count} problem{}", if count == 1 { "" } else { "s" }),
    }
}

fn write_limits_page() -> Result<()> {
    let sources = Sources::load(repo::root())?;
    let source = sources.get(limits::SOURCE).with_context(|| format!("find {}", limits::SOURCE))?;
    fs::create_dir_all(repo::root().join("docs")).context("create docs/")?;
    fs::write(repo::root().join(limits::PAGE), limits::page(&source.text))
        .with_context(|| format!("write {}", limits::PAGE))?;
    println!("wrote {}", limits::PAGE);
    Ok(())
}
