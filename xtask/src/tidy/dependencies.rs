//! The tree of processes has never heard of wasm, HTTP, SQLite or S3: none of their crates is
//! below `wasmkeep-supervisors`.
//!
//! Read from Cargo.lock, where build and test dependencies count too.

use std::collections::{BTreeMap, VecDeque};

use super::sources::{Problem, Sources};

const LOCK: &str = "Cargo.lock";
const CRATE: &str = "wasmkeep-supervisors";
/// Crates of these names, and of these names with `-…` after them.
const FORBIDDEN: &[&str] =
    &["wasmtime", "actix", "rusqlite", "libsqlite3", "rust-s3", "s3s", "clap", "wasmkeep"];

pub fn check(sources: &Sources) -> Vec<Problem> {
    let Some(lock) = sources.get(LOCK) else {
        return vec![Problem::of_file(LOCK, "is missing: run any cargo command and commit it")];
    };
    let packages = parse(&lock.text);
    if !packages.contains_key(CRATE) {
        return vec![Problem::of_file(LOCK, format!("does not hold the crate {CRATE}"))];
    }
    chains_to_forbidden(&packages)
        .into_iter()
        .map(|chain| {
            let message =
                format!("{CRATE} depends on {chain}: that belongs behind a trait of ports");
            Problem::of_file(LOCK, message)
        })
        .collect()
}

/// From a crate's name to what its versions depend on. An entry may hold a version after the name.
fn parse(lock: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut packages = BTreeMap::new();
    for package in lock.split("[[package]]\n").skip(1) {
        let name = package.lines().find_map(|line| line.strip_prefix("name = "));
        let Some(name) = name.map(|name| name.trim_matches('"')) else {
            continue;
        };
        let dependencies = package.lines().skip_while(|line| *line != "dependencies = [").skip(1);
        let dependencies = dependencies
            .take_while(|line| *line != "]")
            .map(|line| name_of(line.trim_matches([' ', ',', '"'])));
        packages.entry(name).or_insert_with(Vec::new).extend(dependencies);
    }
    packages
}

fn name_of(dependency: &str) -> &str {
    dependency.split(' ').next().unwrap_or(dependency)
}

fn chains_to_forbidden(packages: &BTreeMap<&str, Vec<&str>>) -> Vec<String> {
    let mut chains = Vec::new();
    let mut seen = vec![CRATE];
    let mut queue = VecDeque::from([(CRATE, String::new())]);
    while let Some((package, chain)) = queue.pop_front() {
        for name in packages.get(package).into_iter().flatten().copied() {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            if is_forbidden(name) {
                chains.push(format!("{chain}{name}"));
            } else {
                queue.push_back((name, format!("{chain}{name} > ")));
            }
        }
    }
    chains
}

fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.iter().any(|forbidden| {
        name.strip_prefix(forbidden)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-') || rest.starts_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(packages: &[(&str, &[&str])]) -> Vec<String> {
        let mut lock = String::from("version = 4\n\n");
        for (name, dependencies) in packages {
            lock += &format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n");
            lock += "dependencies = [\n";
            for dependency in *dependencies {
                lock += &format!(" \"{dependency}\",\n");
            }
            lock += "]\n\n";
        }
        check(&Sources::of(&[(LOCK, &lock)])).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_forbidden_crate_is_named_with_its_way_in() {
        let found = problems(&[
            (CRATE, &["tokio", "helper 0.1.0"]),
            ("tokio", &["bytes"]),
            ("helper", &["wasmtime-environ"]),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("helper > wasmtime-environ"), "{found:?}");
    }

    #[test]
    fn crates_of_others_do_not_count() {
        let packages: &[(&str, &[&str])] =
            &[(CRATE, &["tokio"]), ("tokio", &[]), ("wasmkeep", &["clap", CRATE])];
        assert!(problems(packages).is_empty());
    }

    #[test]
    fn nothing_to_look_at_is_a_problem() {
        assert_eq!(check(&Sources::of(&[])).len(), 1);
        assert_eq!(problems(&[("tokio", &[])]).len(), 1);
    }
}
