//! Where the repository is, and which of its files count as sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result};

/// Folders that hold what a build or a run has left behind.
const NOT_SOURCES: &[&str] = &["target", "node_modules", "dist", "data"];

/// Asked of cargo at run time: a target folder that moved with its tree, or came out of a cache,
/// still holds the path it was compiled at.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let xtask = xtask.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        xtask.parent().expect("xtask is a folder of the repository").to_owned()
    });
    &ROOT
}

/// A path as the checks and messages spell it: from the root, with `/`.
pub fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

/// Every source file below `folder`, sorted, hidden ones left out. Empty when there is no folder.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if folder.is_dir() {
        collect(folder, &mut files).with_context(|| format!("list {}", folder.display()))?;
    }
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if !entry.file_type()?.is_dir() {
            files.push(entry.path());
        } else if !NOT_SOURCES.contains(&name.as_ref()) {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}
