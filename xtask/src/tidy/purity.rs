//! What decides is pure: no `async`, no processes, no ports, no clock, no randomness, no files.
//! Time and ids arrive as arguments.

use super::paths::uses;
use super::rust_text::find_word;
use super::sources::{Problem, Source, Sources};

/// Files of these names are pure wherever they are in `supervisors`.
const PURE_NAMES: &[&str] = &["record.rs", "rules.rs"];

/// Files and folders that are pure, without `.rs` or `/`.
const PURE: &[&str] = &[
    "supervisors/src/limits",
    "supervisors/src/address",
    "supervisors/src/history",
    "supervisors/src/deploy/manifest",
    "supervisors/src/secrets/seal",
    "supervisors/src/secrets/layers",
    "supervisors/src/actor/queue",
    "supervisors/src/actor/state",
    "supervisors/src/tree/restart",
    "src/config",
    "src/database/sandbox",
    "src/edge/headers",
    "src/edge/status",
    "src/host/outbound/policy",
];

/// Pure but for this: configuration is read from files and the environment here, and only here.
const MAY_READ: &str = "src/config/mod.rs";

const READING: &[&str] = &["std::fs", "std::env", "File::open"];

const IMPURE: &[&str] =
    &["async", "ractor::", "tokio::", "Instant::now", "SystemTime::now", "rand::", "getrandom"];

pub fn check(sources: &Sources) -> Vec<Problem> {
    sources
        .rust_below("")
        .filter(|source| is_pure(&source.path) && !source.is_test())
        .flat_map(check_file)
        .collect()
}

fn is_pure(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    if path.starts_with("supervisors/src/") && PURE_NAMES.contains(&name) {
        return true;
    }
    PURE.iter().any(|pure| {
        path.strip_prefix(pure).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

fn check_file(source: &Source) -> Vec<Problem> {
    let reading = if source.path == MAY_READ { &[] } else { READING };
    let mut problems: Vec<Problem> = [IMPURE, reading]
        .concat()
        .iter()
        .flat_map(|word| find_word(&source.code, word).map(|offset| (*word, offset)))
        .map(|(word, offset)| {
            source.problem(
                offset,
                format!(
                    "this file is pure and has `{word}`: take the value as an argument, or move \
                     the step to the shell beside it (process.rs, mod.rs)"
                ),
            )
        })
        .collect();
    let crate_folder = if source.path.starts_with("src/") { "src/" } else { "supervisors/src/" };
    for used in uses(source, crate_folder).iter().filter(|used| used.module == "ports") {
        let message = "this file is pure and uses `ports`: return what is to be done, and let the \
                       process do it";
        problems.push(source.problem(used.offset, message));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Sources::of(&[(path, text)])).len()
    }

    const RULES: &str = "supervisors/src/lease/rules.rs";

    #[test]
    fn every_impure_word_is_found() {
        for text in [
            "async fn f() {}",
            "use ractor::Actor;",
            "use tokio::sync::watch;",
            "let now = Instant::now();",
            "let now = std::time::SystemTime::now();",
            "let id = rand::random();",
            "use crate::ports::Bucket;",
            "use crate::{limits, ports::Clock};",
            "let text = std::fs::read(path);",
        ] {
            assert_eq!(count(RULES, text), 1, "{text}");
        }
    }

    #[test]
    fn only_pure_files_are_held_to_it() {
        assert_eq!(count("supervisors/src/lease/process.rs", "use tokio::sync::watch;"), 0);
        assert_eq!(count("supervisors/src/limits.rs", "use tokio::sync::watch;"), 1);
        assert_eq!(count("supervisors/src/history/chain.rs", "use tokio::sync::watch;"), 1);
        assert_eq!(count("src/edge/rules.rs", "use tokio::sync::watch;"), 0);
    }

    #[test]
    fn durations_atomics_and_tests_are_fine() {
        let text = "use std::time::Duration;\nuse std::sync::atomic::AtomicU32;\n// async, tokio::\n\
                    #[cfg(test)]\nmod tests { use tokio::time; }";
        assert_eq!(count("supervisors/src/actor/queue.rs", text), 0);
    }

    #[test]
    fn configuration_is_read_in_one_file() {
        assert_eq!(count("src/config/mod.rs", "std::fs::read_to_string(path)"), 0);
        assert_eq!(count("src/config/env_file.rs", "std::fs::read_to_string(path)"), 1);
    }
}
