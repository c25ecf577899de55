//! The shells of `src/` do not know one another; `serve` alone puts them together.

use super::paths::{module_of, uses};
use super::sources::{Problem, Sources};

const FOLDER: &str = "src/";

/// What a module may use of its crate. Modules not listed are held by the import order alone.
const MAY_USE: &[(&str, &[&str])] = &[
    ("bucket", &["telemetry"]),
    ("database", &["telemetry", "thread_clock"]),
    ("host", &["telemetry", "thread_clock"]),
    ("admin", &["telemetry"]),
    ("peer_link", &["telemetry", "identity"]),
    ("edge", &["telemetry", "identity"]),
    ("cli", &["telemetry", "bucket", "admin", "config", "serve"]),
];

pub fn check(sources: &Sources) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.rust_below(FOLDER).filter(|source| !source.is_test()) {
        let path = module_of(source, FOLDER);
        let Some((own, allowed)) = MAY_USE.iter().find(|(name, _)| path.first() == Some(name))
        else {
            continue;
        };
        for used in uses(source, FOLDER) {
            if used.module == *own || allowed.contains(&used.module.as_str()) {
                continue;
            }
            problems.push(source.problem(
                used.offset,
                format!(
                    "`{own}` uses `{}`; it may use {} of this crate: let `serve` pass in what is \
                     needed, or give it a trait in supervisors/src/ports",
                    used.module,
                    allowed.join(", "),
                ),
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Sources::of(&[(path, text)])).len()
    }

    #[test]
    fn a_shell_may_not_see_another() {
        assert_eq!(count("src/edge/actor.rs", "use crate::host::Engine;"), 1);
        assert_eq!(count("src/edge/mod.rs", "use super::{database, telemetry};"), 1);
        assert_eq!(count("src/bucket/mod.rs", "fn f() { crate::config::load() }"), 1);
    }

    #[test]
    fn what_is_allowed_is_allowed() {
        assert_eq!(count("src/edge/actor.rs", "use crate::edge::status; use crate::telemetry;"), 0);
        assert_eq!(count("src/serve/mod.rs", "use crate::{database, edge, host};"), 0);
        assert_eq!(count("src/cli/dev.rs", "use crate::{config, serve, bucket};"), 0);
    }

    #[test]
    fn cli_sees_no_shell_but_the_bucket_and_what_operators_ask() {
        assert_eq!(count("src/cli/dev.rs", "use crate::host::Engine;"), 1);
    }
}
