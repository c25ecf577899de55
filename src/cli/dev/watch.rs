//! Tells when sources have changed.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::project::Project;

/// Changes that come this soon after one another are one: an editor writes a file in steps.
const QUIET: Duration = Duration::from_millis(40);
/// Folders that builds and package managers fill, by their names.
const NOT_SOURCES: [&str; 3] = ["target", "node_modules", "dist"];

/// Watches the sources of a project.
pub struct Watch {
    changes: Receiver<PathBuf>,
    paths: Vec<PathBuf>,
    sources: Sources,
    watcher: RecommendedWatcher,
}

impl Watch {
    /// Watches these files and folders with all below them, but for what is no source.
    /// `made` is what builds and the server make.
    pub fn start(paths: &[PathBuf], project: &Project, made: Vec<PathBuf>) -> Result<Self> {
        let (told, changes) = channel();
        let sources = Sources { root: project.folder.clone(), made };
        let listening = sources.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            tell(event, &listening, &told);
        })
        .context("watch the sources")?;
        let absolute = paths.iter().map(|path| {
            let found = path.canonicalize();
            found.with_context(|| format!("watch {}, as [build] says", path.display()))
        });
        let paths = absolute.collect::<Result<_>>()?;
        let mut watch = Self { changes, paths, sources, watcher };
        watch.everything()?;
        Ok(watch)
    }

    fn everything(&mut self) -> Result<()> {
        let Self { paths, sources, watcher, .. } = self;
        paths.iter().try_for_each(|path| sources.watch(path, watcher))
    }

    /// Waits for the next change, and for the end of those that come with it. An error when there
    /// is nothing left that could tell.
    pub fn wait(&mut self) -> Result<Vec<PathBuf>> {
        let mut changed = vec![self.changes.recv().context("watch the sources")?];
        loop {
            match self.changes.recv_timeout(QUIET) {
                Ok(path) => changed.push(path),
                Err(RecvTimeoutError::Timeout) => break,
                Err(error) => return Err(error).context("watch the sources"),
            }
        }
        // A folder that is new, or was replaced, is watched from now on.
        self.everything()?;
        Ok(changed)
    }
}

fn tell(event: notify::Result<notify::Event>, sources: &Sources, told: &Sender<PathBuf>) {
    let Ok(event) = event else { return };
    let is_change = matches!(
        event.kind,
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Any
    );
    for path in event.paths.into_iter().filter(|path| is_change && sources.holds(path)) {
        let _ = told.send(path);
    }
}

/// Which files are sources.
#[derive(Debug, Clone)]
struct Sources {
    root: PathBuf,
    /// What builds and the server make.
    made: Vec<PathBuf>,
}

impl Sources {
    fn holds(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        let hidden_or_made = below.components().any(|part| {
            let name = part.as_os_str().to_string_lossy();
            name.starts_with('.') || NOT_SOURCES.contains(&&*name)
        });
        !hidden_or_made && !self.made.iter().any(|made| path.starts_with(made))
    }

    /// Watches folder by folder: a watch of everything would hold each folder of `target`.
    fn watch(&self, path: &Path, watcher: &mut RecommendedWatcher) -> Result<()> {
        let unwatched = || format!("watch {}", path.display());
        watcher.watch(path, RecursiveMode::NonRecursive).with_context(unwatched)?;
        if !path.is_dir() {
            return Ok(());
        }
        for entry in path.read_dir().with_context(unwatched)? {
            let path = entry.with_context(unwatched)?.path();
            // A link may lead back up.
            let is_watched = path.is_dir() && !path.is_symlink() && self.holds(&path);
            if is_watched && let Err(error) = self.watch(&path, watcher)
                // One that is gone by now was no source for long.
                && path.exists()
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_builds_make_is_no_source() {
        let made = vec!["/p/.x/app/out/app.wasm".into(), "/p/.x/app/data".into()];
        let sources = Sources { root: "/p/.x/app".into(), made };
        for path in ["src/lib.rs", "Cargo.toml", "wasmkeep.toml", "out/other.wasm"] {
            assert!(sources.holds(&Path::new("/p/.x/app").join(path)), "{path}");
        }
        for path in [
            "target/x",
            "a/node_modules/b.js",
            "out/app.wasm",
            "data/x.db",
            ".git/HEAD",
            "src/.a.swp",
        ] {
            assert!(!sources.holds(&Path::new("/p/.x/app").join(path)), "{path}");
        }
    }

    #[test]
    fn a_change_is_told_once_and_what_is_made_never() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().canonicalize().expect("its path");
        for name in ["src", "target"] {
            std::fs::create_dir(folder.join(name)).expect("a folder");
        }
        let project = Project { settings: folder.join("wasmkeep.toml"), folder: folder.clone() };
        let mut watch =
            Watch::start(std::slice::from_ref(&folder), &project, Vec::new()).expect("it watches");
        std::fs::write(folder.join("target/made"), "x").expect("a file");
        std::fs::write(folder.join("src/lib.rs"), "x").expect("a file");
        let changed = watch.wait().expect("a change");
        assert!(changed.iter().all(|path| *path == folder.join("src/lib.rs")), "{changed:?}");
        assert!(watch.changes.recv_timeout(QUIET).is_err(), "and that was all");
        std::fs::create_dir(folder.join("src/new")).expect("a folder");
        watch.wait().expect("a change");
        std::fs::write(folder.join("src/new/mod.rs"), "x").expect("a file");
        let changed = watch.wait().expect("a change");
        assert_eq!(changed.first(), Some(&folder.join("src/new/mod.rs")));
    }
}
