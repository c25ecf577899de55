//! `cargo xtask book`: the book of `docs/`, and whether the links in what was built lead somewhere.
//!
//! `tidy` holds the links of pages against their Markdown. Here it is mdBook's page names and anchors
//! that count, which are not GitHub's to the letter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{command, repo, usage};

const VERSION: &str = "0.5.4";
/// Where the tool is kept between runs.
const TOOLS: &str = "target/tools";
const DOCS: &str = "docs";
const BOOK: &str = "target/book";
/// Of no reader: all pages once more, and the frame with the contents.
const NO_PAGES: [&str; 2] = ["print.html", "toc.html"];

pub fn run(arguments: &[String]) -> Result<()> {
    usage::expect_no_arguments(arguments)?;
    build()
}

/// Builds the book; fails when it does not build, warns, or has a dead link.
pub fn build() -> Result<()> {
    let tool = tool()?;
    let book = repo::root().join(BOOK);
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("remove {BOOK}"))?;
    }
    let mut mdbook = Command::new(tool);
    let output = mdbook.arg("build").arg(repo::root().join(DOCS)).output().context("run mdbook")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || said.contains("WARN") || said.contains("ERROR") {
        bail!("mdbook build {DOCS} ({}):\n{said}", output.status);
    }
    let pages = pages()?;
    let dead = dead_links(&pages, |path| repo::root().join(path).exists());
    dead.iter().for_each(|link| println!("{link}"));
    match dead.len() {
        0 => println!("{BOOK}/ has {} pages, and no dead link", pages.len()),
        count => bail!("the book has {count} dead links"),
    }
    Ok(())
}

/// Installs mdBook where it is missing, unoptimised: that takes half the time, and a book a blink.
fn tool() -> Result<PathBuf> {
    let tools = repo::root().join(TOOLS);
    let tool = tools.join("bin/mdbook");
    let version = command::capture(Command::new(&tool).arg("--version")).unwrap_or_default();
    if version.trim().trim_start_matches("mdbook v") != VERSION {
        println!("installing mdbook {VERSION} into {TOOLS}/");
        let mut cargo = command::cargo();
        cargo.args([
            "install",
            "mdbook",
            "--version",
            VERSION,
            "--locked",
            "--no-default-features",
        ]);
        cargo.args(["--debug", "--force", "--quiet", "--root"]).arg(&tools);
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        command::run(&mut cargo).context("install mdbook")?;
    }
    Ok(tool)
}

/// The pages of the book that people read, by their names below it.
fn pages() -> Result<BTreeMap<String, String>> {
    let book = repo::root().join(BOOK);
    let mut pages = BTreeMap::new();
    let mut folders = vec![book.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let path = entry.context("list the book")?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let name = path.strip_prefix(&book).expect("it is below").to_string_lossy();
                let text = fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
                pages.insert(name.into_owned(), text);
            }
        }
    }
    pages.retain(|name, _| !NO_PAGES.contains(&name.as_str()));
    Ok(pages)
}

/// `exists` is asked for what is no page: files of the repository, to which `docs/outside-links.js`
/// leads such links.
fn dead_links(pages: &BTreeMap<String, String>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(name, page)| (name.as_str(), values(page, " id=\"").collect()))
        .collect();
    let mut dead = Vec::new();
    for (name, page) in pages {
        for link in values(page, " href=\"").filter(|link| !leaves(link)) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let Some(target) = resolve(name, path) else {
                dead.push(format!("{BOOK}/{name}: `{link}` leads out of the repository"));
                continue;
            };
            let wrong = match target.strip_prefix(&format!("{DOCS}/")) {
                Some(page) if anchors.contains_key(page) => (!anchor.is_empty()
                    && !anchors[page].contains(anchor))
                .then(|| format!("{page} has no such anchor")),
                // What mdBook adds, and files of `docs/` that are no pages.
                Some(file) if exists(&format!("{BOOK}/{file}")) => None,
                _ => (!exists(&target) && !exists(&source_of(&target)))
                    .then(|| format!("there is no {target}")),
            };
            dead.extend(wrong.map(|wrong| format!("{BOOK}/{name}: `{link}`: {wrong}")));
        }
    }
    dead
}

fn leaves(link: &str) -> bool {
    link.split_once(':').is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphabetic()))
}

/// The values of an attribute.
fn values<'a>(page: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    page.split(attribute).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0))
}

/// A link of a page, from the root of the repository: the book's pages are those of `docs/`.
fn resolve(page: &str, link: &str) -> Option<String> {
    let page = format!("{DOCS}/{page}");
    if link.is_empty() {
        return Some(page);
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// mdBook writes `.html` for `.md`, and `index.html` for `README.md`.
fn source_of(target: &str) -> String {
    let target = target.replace("index.html", "README.md");
    target.strip_suffix(".html").map_or(target.clone(), |page| format!("{page}.md"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(page: &str) -> Vec<String> {
        let other = r#"<h2 id="two">Two</h2>"#;
        let pages = [("a.html", page), ("adr/b.html", other)];
        let pages = pages.map(|(name, page)| (name.to_owned(), page.to_owned()));
        let files = ["target/book/css/x.css", "sdk-ts/README.md", "src/lib.rs"];
        dead_links(&pages.into(), |path| files.contains(&path))
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let page = r##"<a id="own" href="#own"></a> <a href="adr/b.html#two"></a> <a href="a.html"></a>
            <link href="css/x.css"> <a href="../sdk-ts/index.html#x"></a> <a href="../src/lib.rs"></a>
            <a href="https://example.org/#x"></a> <a href="mailto:a@b"></a>"##;
        assert_eq!(dead(page), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        for (link, says) in [
            ("#none", "a.html has no such anchor"),
            ("adr/b.html#three", "adr/b.html has no such anchor"),
            ("gone.html", "there is no docs/gone.html"),
            ("css/y.css", "there is no docs/css/y.css"),
            ("../gone/index.html", "there is no gone/index.html"),
            ("../../x", "leads out of the repository"),
        ] {
            let found = dead(&format!("<a href=\"{link}\"></a>"));
            assert!(found.len() == 1 && found[0].contains(says), "{link}: {found:?}");
        }
    }
}
