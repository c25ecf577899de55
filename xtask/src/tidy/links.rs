//! Links between pages lead somewhere: to a file that is there, and to a heading of it. The book
//! has every page of `docs/`.

use super::markdown::{anchors, links};
use super::sources::{Problem, Source, Sources};

const BOOK: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

pub fn check(sources: &Sources) -> Vec<Problem> {
    let pages = sources.below("").filter(|source| is_page(&source.path));
    let mut problems: Vec<Problem> =
        pages.flat_map(|page| check_page(sources, page)).chain(check_summary(sources)).collect();
    problems.sort();
    problems
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md")
}

fn check_page(sources: &Sources, page: &Source) -> Vec<Problem> {
    let links = links(&page.text).into_iter().filter(|link| !leaves_the_tree(link.target));
    links
        .filter_map(|link| {
            let message = what_is_wrong(sources, page, link.target)?;
            Some(page.problem(link.offset, format!("`{}`: {message}", link.target)))
        })
        .collect()
}

/// `https://…`, `mailto:…`: whether those lead anywhere is not asked.
fn leaves_the_tree(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+')
    })
}

fn what_is_wrong(sources: &Sources, page: &Source, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(&page.path, path) else {
        return Some("leads out of the repository: write the path from this file".to_owned());
    };
    if !path.is_empty() && !sources.exists(&path) {
        return Some(format!("there is no {path}: correct the link, or add the file"));
    }
    // A line of a source file, or a heading of what a forge shows for a folder: not looked at.
    let linked = sources.get(&path).filter(|linked| is_page(&linked.path))?;
    (!anchor.is_empty() && !anchors(&linked.text).contains(anchor))
        .then(|| format!("{path} has no heading with this anchor: correct one of the two"))
}

/// A path as a page writes it, from the root; the page's own when it is empty. None when it climbs
/// out, or starts there.
fn resolve(page: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(page.to_owned());
    }
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn check_summary(sources: &Sources) -> Vec<Problem> {
    let is_in_book = |path: &str| {
        path.strip_prefix(BOOK).is_some_and(|name| is_page(name) && !name.contains('/'))
    };
    let listed: Vec<String> = sources.get(SUMMARY).map_or_else(Vec::new, |summary| {
        links(&summary.text).iter().filter_map(|link| resolve(SUMMARY, link.target)).collect()
    });
    sources
        .below(BOOK)
        .filter(|page| is_in_book(&page.path) && page.path != SUMMARY)
        .filter(|page| !listed.contains(&page.path))
        .map(|page| {
            let message = format!("is not in the book: add it to {SUMMARY}");
            Problem::of_file(&page.path, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::of(files)).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let summary = "[a](a.md) [b](./b.md)";
        let a = "# A\n[self](#a) [b](b.md#two-words) [up](../README.md) [code](../src/lib.rs#L3)\n\
                 [folder](../src/) [wit](../wit/actor.wit) [web](https://example.org/x.md#y)\n\
                 [mail](mailto:a@example.org)\n```\n[code](gone.md)\n```\n";
        let files = [
            ("docs/SUMMARY.md", summary),
            ("docs/a.md", a),
            ("docs/b.md", "## Two words\n"),
            ("docs/adr/0001.md", "[a](../a.md#a)"),
            ("README.md", "[docs](docs) [a](docs/a.md)"),
            ("src/lib.rs", "//! [gone](gone.md)"),
            ("wit/actor.wit", ""),
        ];
        assert_eq!(problems(&files), [""; 0]);
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_a_problem() {
        let files = [("README.md", "# A\n\n[b](docs/b.md)\n"), ("docsy/b.md", "")];
        let found = problems(&files);
        assert!(found.len() == 1 && found[0].starts_with("README.md:3: `docs/b.md`"), "{found:?}");
    }

    #[test]
    fn a_link_out_of_the_repository_is_a_problem() {
        for target in ["../other/x.md", "a/../../x.md", "/README.md"] {
            let found = problems(&[("README.md", &format!("[x]({target})"))]);
            assert!(found.len() == 1 && found[0].contains("leads out"), "{target}: {found:?}");
        }
    }

    #[test]
    fn an_anchor_that_no_heading_has_is_a_problem() {
        let files = [("a.md", "[b](b.md#two)\n[own](#none)"), ("b.md", "# One\n```\n# two\n```\n")];
        let found = problems(&files);
        assert!(found.len() == 2 && found[0].contains("b.md has no heading"), "{found:?}");
    }

    #[test]
    fn a_page_that_the_book_does_not_have_is_a_problem() {
        let files = [("docs/SUMMARY.md", "[a](a.md)"), ("docs/a.md", ""), ("docs/b.md", "")];
        assert_eq!(problems(&files).len(), 1);
        assert!(problems(&files)[0].starts_with("docs/b.md:1:"));
        assert_eq!(problems(&files[1..]).len(), 2, "no summary lists none");
    }
}
