//! The texts that checks look at, and the problems they find.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::rust_text;
use crate::repo;

/// What checks read beside Rust files, WIT, manifests and Markdown. Folders count with all they hold.
const OTHER: &[&str] = &["Cargo.lock", "deny.toml", "docs", "dashboards"];

pub struct Source {
    /// From the root, with `/`.
    pub path: String,
    pub text: String,
    /// The text of a Rust file without comments, without what strings hold and without test
    /// items: what the product runs, each character where it stands in `text`.
    pub code: String,
    /// Lines of the text that are not test items.
    pub lines: usize,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let is_rust = path.ends_with(".rs");
        let (code, test_lines) =
            if is_rust { rust_text::code_of(text) } else { Default::default() };
        let lines = text.lines().count() - test_lines;
        Self { path: path.to_owned(), text: text.to_owned(), code, lines }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Tests and test doubles may do what the product may not.
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests.rs" | "tests" | "testing.rs" | "testing"))
    }

    pub fn problem(&self, offset: usize, message: impl Into<String>) -> Problem {
        let line = self.text[..offset].matches('\n').count() + 1;
        Problem { path: self.path.clone(), line, message: message.into() }
    }
}

pub struct Sources {
    sources: Vec<Source>,
    /// Of every file, those included that no check reads.
    paths: BTreeSet<String>,
}

impl Sources {
    pub fn load(root: &Path) -> Result<Self> {
        let mut paths = repo::files_below(root)?;
        let all = paths.iter().map(|path| repo::relative(path)).collect();
        paths.retain(|path| {
            let read = ["rs", "wit", "md"];
            path.extension().is_some_and(|extension| read.iter().any(|one| extension == *one))
                || path.file_name().is_some_and(|name| name == "Cargo.toml")
                || OTHER.iter().any(|other| path.starts_with(root.join(other)))
        });
        let mut sources = Vec::with_capacity(paths.len());
        for path in paths {
            let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            if let Ok(text) = String::from_utf8(bytes) {
                sources.push(Source::new(&repo::relative(&path), &text));
            }
        }
        Ok(Self { sources, paths: all })
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self {
            sources: files.iter().map(|(path, text)| Source::new(path, text)).collect(),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
        }
    }

    pub fn get(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// Whether there is such a file, or a folder that holds one.
    pub fn exists(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        self.paths.contains(path)
            || self
                .paths
                .range(inside.clone()..)
                .next()
                .is_some_and(|next| next.starts_with(&inside))
    }

    /// The Rust files below a folder (`src/`), or all of them (``).
    pub fn rust_below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a Source> {
        self.below(folder).filter(|source| source.is_rust())
    }

    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a Source> {
        self.sources.iter().filter(move |source| source.path.starts_with(folder))
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub path: String,
    pub line: usize,
    pub message: String,
}

impl Problem {
    /// For what is wrong with a file as a whole, or with its absence.
    pub fn of_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 1, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
