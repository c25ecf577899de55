//! The Rust SDK is a package of its own, so it carries a copy of the contract: byte for byte.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use super::sources::{Problem, Source, Sources};
use crate::repo;

const CONTRACT: &str = "wit/";
const COPY: &str = "sdk-rust/wit/";
const MEND: &str = "run `cargo xtask tidy --write`";

pub fn check(sources: &Sources) -> Vec<Problem> {
    let contract = wit_below(sources, CONTRACT);
    let mut copy = wit_below(sources, COPY);
    let mut problems = Vec::new();
    for (name, source) in contract {
        match copy.remove(name) {
            Some(copied) if copied.text == source.text => {}
            Some(copied) => {
                let message = format!("is not as {}: {MEND}", source.path);
                problems.push(Problem::of_file(&copied.path, message));
            }
            None => {
                let message = format!("has no copy in {COPY}: {MEND}");
                problems.push(Problem::of_file(&source.path, message));
            }
        }
    }
    let left = copy.into_values().map(|copied| {
        Problem::of_file(&copied.path, format!("is a copy of nothing in {CONTRACT}: {MEND}"))
    });
    problems.extend(left);
    problems
}

/// The WIT files below a folder, by their names in it.
fn wit_below<'a>(sources: &'a Sources, folder: &'a str) -> BTreeMap<&'a str, &'a Source> {
    let wit = sources.below(folder).filter(|source| source.path.ends_with(".wit"));
    wit.map(|source| (&source.path[folder.len()..], source)).collect()
}

/// Makes the copy anew.
pub fn write() -> Result<()> {
    let copy = repo::root().join(COPY);
    if copy.is_dir() {
        fs::remove_dir_all(&copy).with_context(|| format!("remove {COPY}"))?;
    }
    for path in repo::files_below(&repo::root().join(CONTRACT))? {
        if path.extension().is_some_and(|extension| extension == "wit") {
            let name = repo::relative(&path);
            let to = copy.join(&name[CONTRACT.len()..]);
            let folder = to.parent().unwrap_or(&copy);
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
            fs::copy(&path, &to).with_context(|| format!("copy {name} to {COPY}"))?;
        }
    }
    println!("wrote {COPY}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::of(files)).into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn a_copy_that_is_the_contract_passes() {
        let files = [
            ("wit/a.wit", "interface a {}"),
            ("wit/deps/b.wit", "interface b {}"),
            ("wit/src/lib.rs", "// no WIT"),
            ("sdk-rust/wit/a.wit", "interface a {}"),
            ("sdk-rust/wit/deps/b.wit", "interface b {}"),
        ];
        assert_eq!(problems(&files), [""; 0]);
    }

    #[test]
    fn a_changed_a_missing_and_a_left_over_file_are_problems() {
        let files = [
            ("wit/a.wit", "interface a { f: func(); }"),
            ("wit/new.wit", ""),
            ("sdk-rust/wit/a.wit", "interface a {}"),
            ("sdk-rust/wit/old.wit", ""),
        ];
        assert_eq!(problems(&files), ["sdk-rust/wit/a.wit", "wit/new.wit", "sdk-rust/wit/old.wit"]);
    }
}
