//! `lib.rs` lists its modules lowest first, and a module uses only modules listed above it.

use super::paths::{declared_modules, module_of, uses};
use super::sources::{Problem, Source, Sources};

const CRATES: &[&str] = &["supervisors/src/", "sim/src/", "src/"];

pub fn check(sources: &Sources) -> Vec<Problem> {
    CRATES.iter().flat_map(|folder| check_crate(sources, folder)).collect()
}

fn check_crate(sources: &Sources, folder: &str) -> Vec<Problem> {
    let lib = format!("{folder}lib.rs");
    let Some(source) = sources.get(&lib) else {
        return vec![Problem::of_file(
            &lib,
            "is missing: it lists the crate's modules, lowest first",
        )];
    };
    let modules = declared_modules(source);
    if modules.is_empty() {
        return vec![Problem::of_file(&lib, "lists no module: declare them here, lowest first")];
    }
    sources
        .rust_below(folder)
        .filter(|source| !source.is_test())
        .flat_map(|source| check_file(source, folder, &modules))
        .collect()
}

fn check_file(source: &Source, folder: &str, modules: &[String]) -> Vec<Problem> {
    let rank = |name: &str| modules.iter().position(|module| module == name);
    let path = module_of(source, folder);
    let Some(own) = path.first().copied() else {
        return Vec::new();
    };
    let Some(own_rank) = rank(own) else {
        return Vec::new();
    };
    let mut seen = Vec::new();
    let mut problems = Vec::new();
    for used in uses(source, folder) {
        let name = used.module.as_str();
        if name == own || seen.contains(&used.module) {
            continue;
        }
        let message = match rank(name) {
            Some(rank) if rank < own_rank => continue,
            Some(_) => format!(
                "`{own}` uses `{name}`, which {folder}lib.rs lists below it: move what both need \
                 below `{own}`, pass it in as an argument, or (with a line in ARCHITECTURE.md) \
                 list `{name}` above `{own}`"
            ),
            None if used.by_crate => format!(
                "`crate::{name}` is no module that {folder}lib.rs lists: name the module it comes \
                 from, so that the order can be seen"
            ),
            None => continue,
        };
        problems.push(source.problem(used.offset, message));
        seen.push(used.module);
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: (&str, &str) = ("supervisors/src/lib.rs", "pub mod low;\npub mod high;\n");

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let sources = Sources::of(&[files, &[LIB]].concat());
        check_crate(&sources, "supervisors/src/").iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_higher_module_may_use_a_lower_one() {
        let high = ("supervisors/src/high/rules.rs", "use crate::low::X;\nuse super::process::Y;");
        assert!(problems(&[high]).is_empty());
    }

    #[test]
    fn a_lower_module_may_not_use_a_higher_one() {
        let low = ("supervisors/src/low.rs", "\nuse crate::high::X;\nfn f() { crate::high::g() }");
        let found = problems(&[low]);
        assert_eq!(found.len(), 1, "once per module: {found:?}");
        assert!(found[0].starts_with("supervisors/src/low.rs:2: `low` uses `high`"), "{found:?}");
        let climbing = ("supervisors/src/low/deep.rs", "use super::super::high::X;");
        assert_eq!(problems(&[climbing]).len(), 1);
    }

    #[test]
    fn tests_and_test_doubles_may_use_anything() {
        let inline = ("supervisors/src/low.rs", "#[cfg(test)]\nmod tests { use crate::high::X; }");
        let sibling = ("supervisors/src/low/tests.rs", "use crate::high::X;");
        let double = ("supervisors/src/testing/mod.rs", "use crate::high::X;");
        assert!(problems(&[inline, sibling, double]).is_empty());
    }

    #[test]
    fn a_name_without_its_module_hides_the_order() {
        assert_eq!(problems(&[("supervisors/src/low.rs", "use crate::Thing;")]).len(), 1);
    }

    #[test]
    fn a_missing_or_empty_list_is_a_problem() {
        assert_eq!(check(&Sources::of(&[])).len(), CRATES.len());
        assert_eq!(check_crate(&Sources::of(&[("src/lib.rs", "//! x\n")]), "src/").len(), 1);
    }
}
