//! Every Rust file is a module of its crate: one that no `mod` names is never compiled, and its
//! tests never run.

use super::rust_text::find_word;
use super::sources::{Problem, Source, Sources};

/// Source folders, and the files there that are roots and not modules.
const CRATES: &[(&str, &[&str])] = &[
    ("src/", &["src/lib.rs", "src/main.rs"]),
    ("supervisors/src/", &["supervisors/src/lib.rs"]),
    ("wit/src/", &["wit/src/lib.rs"]),
    ("sdk-rust/src/", &["sdk-rust/src/lib.rs"]),
    ("sim/src/", &["sim/src/lib.rs", "sim/src/main.rs"]),
    ("xtask/src/", &["xtask/src/main.rs"]),
    ("tests/", &["tests/main.rs"]),
];

/// Crates of their own below one of the folders.
const OTHER_CRATES: &[&str] = &["tests/guests/"];

pub fn check(sources: &Sources) -> Vec<Problem> {
    CRATES.iter().flat_map(|(folder, roots)| check_crate(sources, folder, roots)).collect()
}

fn check_crate(sources: &Sources, folder: &str, roots: &[&str]) -> Vec<Problem> {
    sources
        .rust_below(folder)
        .filter(|source| !roots.contains(&source.path.as_str()))
        .filter(|source| !OTHER_CRATES.iter().any(|other| source.path.starts_with(other)))
        .filter(|source| !is_declared(sources, source, roots))
        .map(|source| {
            let message = format!(
                "no `mod {};` names this file, so it is not compiled: declare it or delete it",
                name_and_folder(source).0
            );
            Problem::of_file(&source.path, message)
        })
        .collect()
}

/// The module's name, and the folder in which its parent's file is or after which it is named.
fn name_and_folder(source: &Source) -> (&str, &str) {
    let path = source.path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    (name, folder)
}

fn is_declared(sources: &Sources, source: &Source, roots: &[&str]) -> bool {
    let (name, folder) = name_and_folder(source);
    let declaration = format!("mod {name};");
    let in_folder = roots
        .iter()
        .copied()
        .filter(|root| root.rsplit_once('/').is_some_and(|(root_folder, _)| root_folder == folder));
    let parents = [format!("{folder}/mod.rs"), format!("{folder}.rs")];
    in_folder
        .chain(parents.iter().map(String::as_str))
        .filter_map(|parent| sources.get(parent))
        .any(|parent| find_word(&parent.text, &declaration).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::of(files)).into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn files_named_by_their_parent_pass() {
        let files = [
            ("src/main.rs", "mod cli;"),
            ("src/lib.rs", "pub mod edge;\n"),
            ("src/cli.rs", ""),
            ("src/edge/mod.rs", "mod status;"),
            ("src/edge/status.rs", "#[cfg(test)]\nmod tests;\n"),
            ("src/edge/status/tests.rs", ""),
            ("tests/main.rs", "mod support;"),
            ("tests/support/mod.rs", ""),
            ("tests/guests/echo/src/lib.rs", ""),
        ];
        assert_eq!(problems(&files), [""; 0]);
    }

    #[test]
    fn a_file_that_nobody_names_is_a_problem() {
        let files = [
            ("src/lib.rs", "pub mod edge;\n"),
            ("src/edge/mod.rs", "mod status_codes;"),
            ("src/edge/status.rs", ""),
            ("src/lost/mod.rs", ""),
        ];
        assert_eq!(problems(&files), ["src/edge/status.rs", "src/lost/mod.rs"]);
    }
}
