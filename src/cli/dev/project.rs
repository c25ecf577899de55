//! Where a project is, and which of its files it makes itself.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::nodes::bucket;
use crate::config::{DEFAULT_FILE, DEV_DATA_DIR, ServeConfig};

#[derive(Debug, Clone)]
pub struct Project {
    pub folder: PathBuf,
    /// Its `wasmkeep.toml`.
    pub settings: PathBuf,
}

impl Project {
    /// The project of a settings file, else the nearest one of the working directory and the
    /// folders above it.
    pub fn find(settings: Option<PathBuf>) -> Result<Self> {
        let here = env::current_dir().context("find the working directory")?;
        let settings = match settings {
            Some(given) => here.join(given),
            None => nearest(&here).with_context(|| {
                format!(
                    "there is no {DEFAULT_FILE} in {} or above it: `wasmkeep new NAME` makes a \
                     project, and `wasmkeep dev --help` shows what the file says",
                    here.display()
                )
            })?,
        };
        let settings = settings
            .canonicalize()
            .with_context(|| format!("the settings file {} cannot be read", settings.display()))?;
        let folder = settings.parent().context("a settings file stands in a folder")?.to_owned();
        Ok(Self { folder, settings })
    }

    /// What to say when its settings do not tell how it is built.
    pub fn has_no_build(&self) -> String {
        format!(
            "{} does not say how the project is built: add [build] with a command, as in \
             `wasmkeep dev --help`",
            self.settings.display()
        )
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.join(DEV_DATA_DIR)
    }
}

fn nearest(here: &Path) -> Option<PathBuf> {
    here.ancestors().map(|folder| folder.join(DEFAULT_FILE)).find(|file| file.is_file())
}

/// What a build and the nodes write, which is therefore no source.
pub fn made(nodes: &[ServeConfig]) -> Vec<PathBuf> {
    let written = nodes.iter().flat_map(|config| {
        let actors = config.actors.iter().map(|actor| actor.file.as_path());
        let front = config.front.as_ref().map(|front| front.file.as_path());
        actors.chain(front).chain([config.data_dir.as_path()]).chain(bucket(config))
    });
    written.filter_map(|path| std::path::absolute(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_settings_upwards_make_the_project() {
        let root = tempfile::tempdir().expect("a folder");
        let inner = root.path().join("app/src/deep");
        std::fs::create_dir_all(&inner).expect("folders");
        assert_eq!(nearest(&inner).filter(|found| found.starts_with(root.path())), None);
        for (folder, file) in [("", root.path()), ("app", &root.path().join("app"))] {
            let settings = root.path().join(folder).join(DEFAULT_FILE);
            std::fs::write(&settings, "").expect("a file");
            assert_eq!(nearest(&inner).as_deref(), Some(&*file.join(DEFAULT_FILE)));
        }
    }
}
