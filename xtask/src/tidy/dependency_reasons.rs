//! Each direct dependency has a line in deny.toml that says why it is there.

use std::collections::BTreeMap;

use super::sources::{Problem, Source, Sources};

const PAGE: &str = "deny.toml";
const REASON: &str = "# - ";
/// Packages of this tree need no reason.
const OWN: &str = "wasmkeep";

pub fn check(sources: &Sources) -> Vec<Problem> {
    let Some(page) = sources.get(PAGE) else {
        return vec![Problem::of_file(PAGE, "is missing: it says why each dependency is there")];
    };
    let mut used: BTreeMap<&str, Problem> = BTreeMap::new();
    for manifest in sources.below("").filter(|source| source.path.ends_with("Cargo.toml")) {
        for (name, offset) in dependencies(manifest) {
            used.entry(name).or_insert_with(|| {
                let message = format!(
                    "`{name}` has no reason: add `{REASON}{name}: why it is there` to {PAGE}"
                );
                manifest.problem(offset, message)
            });
        }
    }
    let mut problems = Vec::new();
    for (name, offset) in reasons(page) {
        if used.remove(name).is_none() {
            let message = format!("`{name}` is no direct dependency, or stands here twice");
            problems.push(page.problem(offset, message));
        }
    }
    problems.extend(used.into_values());
    problems
}

/// The names in a manifest's tables of dependencies. `[workspace.dependencies]` only offers.
fn dependencies(manifest: &Source) -> Vec<(&str, usize)> {
    let mut names = Vec::new();
    let mut in_table = false;
    for (line, offset) in lines(&manifest.text) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end().trim_end_matches(']');
            in_table = table.ends_with("dependencies") && table != "workspace.dependencies";
            continue;
        }
        let length = line.bytes().take_while(|&byte| is_of_name(byte)).count();
        let (name, rest) = line.split_at(length);
        let is_key = rest.trim_start().starts_with(['.', '=']);
        if in_table && !name.is_empty() && is_key && !name.starts_with(OWN) {
            names.push((name, offset));
        }
    }
    names
}

fn reasons(page: &Source) -> impl Iterator<Item = (&str, usize)> {
    lines(&page.text).filter_map(|(line, offset)| {
        let (name, reason) = line.strip_prefix(REASON)?.split_once(':')?;
        (!reason.trim().is_empty()).then_some((name, offset))
    })
}

fn lines(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut end = 0;
    text.split_inclusive('\n').map(move |line| {
        end += line.len();
        (line, end - line.len())
    })
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"x\"\n\n[workspace.dependencies]\nunused = \"1\"\n\n\
        [dependencies]\nwasmkeep-wit.workspace = true\nbytes.workspace = true\n\
        tokio = { version = \"1\", features = [\n    \"rt\",\n] }\n\n[dev-dependencies]\nureq = \"3\"\n";

    fn problems(page: &str) -> Vec<String> {
        let files = [("a/Cargo.toml", MANIFEST), (PAGE, page)];
        check(&Sources::of(&files)).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_reason_for_each_passes() {
        let page = "# - bytes: bodies\n# - tokio: the runtime\n# - ureq: tests\n[bans]\n";
        assert_eq!(problems(page), [""; 0]);
    }

    #[test]
    fn a_dependency_without_a_reason_is_a_problem() {
        let found = problems("# - bytes: bodies\n# - ureq:\n# - tokio: the runtime\n");
        assert!(found.len() == 1 && found[0].starts_with("a/Cargo.toml:15: `ureq`"), "{found:?}");
    }

    #[test]
    fn a_reason_for_nothing_is_a_problem() {
        let page = "# - bytes: bodies\n# - tokio: the runtime\n# - ureq: tests\n# - unused: gone\n";
        let found = problems(page);
        assert!(found.len() == 1 && found[0].starts_with("deny.toml:4: `unused`"), "{found:?}");
    }

    #[test]
    fn no_page_is_a_problem() {
        assert_eq!(check(&Sources::of(&[])).len(), 1);
    }
}
