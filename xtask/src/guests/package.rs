//! Which packages are guests, and what their files are called.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Every folder below these that has a `Cargo.toml` is a guest package: directly, or one deeper.
const FOLDERS: &[&str] = &["examples", "tests/guests"];

pub struct Package {
    pub name: String,
    pub folder: PathBuf,
}

impl Package {
    /// The file cargo makes.
    pub fn artifact(&self) -> String {
        format!("{}.wasm", self.name.replace('-', "_"))
    }

    /// The file tests and people ask for.
    pub fn component(&self) -> String {
        format!("{}.wasm", self.name)
    }
}

/// All guest packages, sorted by folder.
pub fn all(root: &Path) -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for parent in FOLDERS.iter().map(|folder| root.join(folder)).filter(|folder| folder.is_dir()) {
        for folder in folders_in(&parent)? {
            // An example of several components is a folder of packages.
            if folder.join("Cargo.toml").is_file() {
                packages.push(read(folder)?);
            } else {
                let parts = folders_in(&folder)?.into_iter();
                let parts = parts.filter(|part| part.join("Cargo.toml").is_file());
                packages.extend(parts.map(read).collect::<Result<Vec<_>>>()?);
            }
        }
    }
    packages.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(packages)
}

fn folders_in(parent: &Path) -> Result<Vec<PathBuf>> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let paths = fs::read_dir(parent)?.map(|entry| Ok(entry?.path()));
        paths.filter(|path| path.as_ref().map_or(true, |path| path.is_dir())).collect()
    };
    list().with_context(|| format!("list {}", parent.display()))
}

fn read(folder: PathBuf) -> Result<Package> {
    let manifest = folder.join("Cargo.toml");
    let text =
        fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
    let name = name_in(&text)
        .with_context(|| format!("find `name` under [package] in {}", manifest.display()))?;
    Ok(Package { name: name.to_owned(), folder })
}

/// The package name of a manifest.
fn name_in(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[package]").skip(1);
    lines
        .by_ref()
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.strip_prefix("name")?.trim_start().strip_prefix('='))
        .map(|value| value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_packages_and_not_the_librarys() {
        let manifest = "[lib]\nname = \"x\"\n[package]\nedition = \"2024\"\nname = \"my-guest\"\n";
        assert_eq!(name_in(manifest), Some("my-guest"));
        assert_eq!(name_in("[package]\nversion = \"1\"\n[lib]\nname = \"x\"\n"), None);
    }

    #[test]
    fn cargo_writes_underscores_and_components_keep_dashes() {
        let package = Package { name: "a-b".into(), folder: PathBuf::new() };
        assert_eq!(
            (package.artifact(), package.component()),
            ("a_b.wasm".into(), "a-b.wasm".into())
        );
    }
}
