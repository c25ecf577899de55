//! What a node serves: loaded at the start, and again when its files have changed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use wasmkeep_supervisors::address::Class;
use wasmkeep_supervisors::front::Front;
use wasmkeep_supervisors::ports::{FrontGuest, Guest};
use wasmkeep_supervisors::tree::Tree;

use crate::config::{ActorArg, ServeConfig};
use crate::host::{self, Components};

/// Where the components of a node come from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// The files the configuration names.
    Files,
    /// Files inside this executable, by the names the configuration gives them.
    Embedded(&'static [(&'static str, &'static [u8])]),
}

impl Source {
    fn read(self, path: &Path) -> Result<Cow<'static, [u8]>> {
        match self {
            Source::Files => {
                let bytes = fs::read(path);
                let bytes = bytes.with_context(|| format!("{} cannot be read", path.display()))?;
                Ok(Cow::Owned(bytes))
            }
            Source::Embedded(files) => {
                let mut named = files.iter().filter(|(name, _)| path == Path::new(name));
                let (_, bytes) = named
                    .next()
                    .with_context(|| format!("{} is not in this executable", path.display()))?;
                Ok(Cow::Borrowed(bytes))
            }
        }
    }
}

/// The component files of a node.
pub struct Files {
    components: Components,
    source: Source,
    actors: Vec<ActorArg>,
    front: Option<(PathBuf, Duration)>,
    /// The hash of what was loaded last from each.
    loaded: Mutex<HashMap<PathBuf, String>>,
}

/// What was loaded.
pub struct Loaded {
    pub front: Option<Arc<dyn FrontGuest>>,
    pub classes: Vec<(Class, Arc<dyn Guest>)>,
}

impl Files {
    pub fn new(components: Components, source: Source, config: &ServeConfig) -> Self {
        let front = config.front.as_ref().map(|front| (front.file.clone(), front.cpu_budget));
        let actors = config.actors.clone();
        Self { components, source, actors, front, loaded: Mutex::default() }
    }

    /// Loads what has changed since it was loaded last, at first everything: all of it, or nothing.
    pub fn load(&self) -> Result<Loaded> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut present = HashMap::new();
        let mut changed = |file: &Path| -> Result<Option<Cow<'static, [u8]>>> {
            let bytes = self.source.read(file)?;
            let hash = host::component_hash(&bytes);
            let is_changed = loaded.get(file) != Some(&hash);
            present.insert(file.to_owned(), hash);
            Ok(is_changed.then_some(bytes))
        };
        let mut load_front = || match &self.front {
            Some((file, cpu_budget)) => match changed(file)? {
                Some(bytes) => Ok(Some(self.components.load_front(file, &bytes, *cpu_budget)?)),
                None => anyhow::Ok(None),
            },
            None => Ok(None),
        };
        let front = load_front().context("serve the front")?;
        let mut classes = Vec::new();
        for ActorArg { class, file } in &self.actors {
            let mut load = || match changed(file)? {
                Some(bytes) => Ok(Some(self.components.load(file, &bytes)?)),
                None => anyhow::Ok(None),
            };
            let guest = load().with_context(|| format!("serve the class {class}"))?;
            classes.extend(guest.map(|guest| (class.clone(), guest)));
        }
        *loaded = present;
        Ok(Loaded { front, classes })
    }
}

/// Has a node that runs serve its files as they are now.
pub struct Reload {
    pub(super) files: Files,
    pub(super) tree: Arc<Tree>,
    pub(super) front: Option<Arc<Front>>,
}

impl Reload {
    /// Serves what has changed, and names it. After an error everything is served as before.
    pub fn run(&self) -> Result<Vec<String>> {
        let Loaded { front, classes } = self.files.load()?;
        let mut names = Vec::new();
        if let (Some(present), Some(guest)) = (&self.front, front) {
            present.replace(guest);
            names.push("the front".to_owned());
        }
        for (class, guest) in classes {
            names.push(class.to_string());
            self.tree.replace(&class, guest);
        }
        Ok(names)
    }
}
