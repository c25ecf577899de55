//! The data directory: one server's, and only one server's at a time.
//!
//! ```text
//! lock        held with flock for as long as the server lives, or an operator's command; holds
//!             who it is
//! format      "wasmkeep data 1"
//! index.db    what the node remembers of actors that have no database (index.rs)
//! session     the last lease's session (session_file.rs)
//! components/ compiled components (not this module's)
//! admin.sock  where the running server answers operators (not this module's)
//! export-*    copies on their way to an operator
//! state/      <tenant>/<app>/<class>/<shard>/<stem>.db (files.rs)
//! ```

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

use super::catalogue::LongNames;
use super::index::Index;
use super::index_rebuild::open_or_rebuild;
use super::memory;

const FORMAT: &str = "wasmkeep data ";
const FORMAT_VERSION: u32 = 1;

/// What the end of a file's name is while it is not whole yet.
pub(super) const UNFINISHED: &str = "tmp";

/// How the name of a copy for an operator begins.
pub(super) const EXPORT: &str = "export-";

#[derive(Debug, Error)]
pub enum DataDirError {
    #[error(
        "the data directory {path} is in use by another wasmkeep {by}: stop it, or give another \
         --data-dir"
    )]
    InUse { path: PathBuf, by: String },
    #[error("there is no data directory at {path}: give the --data-dir the server runs with")]
    Absent { path: PathBuf },
    #[error(
        "the data directory {path} belongs to user {owner}, and this is user {user}: run the \
         command as its owner, whose server could not use files of another"
    )]
    NotOwner { path: PathBuf, owner: u32, user: u32 },
    #[error(
        "{path} was written by a newer wasmkeep (data format {found}; this build knows \
         {FORMAT_VERSION}): upgrade, or use another data directory"
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("{path} is no data directory of wasmkeep: its file \"format\" holds {found:?}")]
    Foreign { path: PathBuf, found: String },
    #[error(
        "the index {path} is unusable: {cause}. Move it away to have it made anew from the \
         databases, which opens them all once; actors that never used storage are taken for new then"
    )]
    Index { path: PathBuf, cause: String },
    #[error("{operation} {path}: {source}")]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
}

/// An open data directory. The lock is held until this is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    state: PathBuf,
    index: Index,
    entries: Entries,
    long_names: Arc<LongNames>,
    _lock: File,
}

/// Who holds a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Server,
    /// An operator's command, while no server runs.
    Command,
}

impl DataDir {
    /// Opens the data directory at `path`, and makes it when there is none.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        Self::open_for(Holder::Server, path)
    }

    /// Opens the data directory of a server that does not run, for an operator's command. No server
    /// starts on it meanwhile.
    pub fn open_for_command(path: &Path) -> Result<Self, DataDirError> {
        let found = fs::metadata(path.join("format"));
        let owner = match found {
            Ok(format) => format.uid(),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(DataDirError::Absent { path: path.to_owned() });
            }
            Err(source) => {
                return Err(DataDirError::Io { operation: "open", path: path.to_owned(), source });
            }
        };
        // SAFETY: it cannot fail. Not by rustix, for the reason in `thread_clock`.
        let user = unsafe { libc::geteuid() };
        if owner != user {
            return Err(DataDirError::NotOwner { path: path.to_owned(), owner, user });
        }
        Self::open_for(Holder::Command, path)
    }

    fn open_for(holder: Holder, path: &Path) -> Result<Self, DataDirError> {
        memory::install();
        let at = |operation, path: &Path| {
            let path = path.to_owned();
            move |source| DataDirError::Io { operation, path, source }
        };
        make_private(path).map_err(at("create", path))?;
        // SQLite refuses a path with a symbolic link in it, and this one is the operator's.
        let path = path.canonicalize().map_err(at("open", path))?;
        let lock = lock(&path, holder)?;
        remove_unfinished(&path).map_err(at("clean", &path))?;
        check_format(&path)?;
        for directory in ["state", "components"].map(|name| path.join(name)) {
            make_private(&directory).map_err(at("create", &directory))?;
        }
        let state = path.join("state");
        let state = state.canonicalize().map_err(at("open", &state))?;
        let index = path.join("index.db");
        let index = open_or_rebuild(&index, &state)
            .map_err(|cause| DataDirError::Index { path: index, cause })?;
        sync_directory(&path).map_err(at("sync", &path))?;
        if let Some(parent) = path.parent() {
            sync_directory(parent).map_err(at("sync", parent))?;
        }
        Ok(Self {
            path,
            state,
            index,
            entries: Entries::default(),
            long_names: Arc::default(),
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where compiled components are kept.
    pub fn components(&self) -> PathBuf {
        self.path.join("components")
    }

    /// Where the databases are.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    pub(super) fn doubt(&self, database: &Path) {
        self.entries.known().doubted.insert(database.to_owned());
    }

    pub(super) fn is_doubted(&self, database: &Path) -> bool {
        self.entries.known().doubted.contains(database)
    }

    /// All of it was written anew, or removed.
    pub(super) fn trust(&self, database: &Path) {
        self.entries.known().doubted.remove(database);
    }

    pub(super) fn long_names(&self) -> &Arc<LongNames> {
        &self.long_names
    }

    /// Makes what was created in and removed from a folder durable. One whose sync failed stays so.
    pub(super) fn sync_folder(&self, folder: &Path) -> Result<(), String> {
        self.entries.sync(folder)
    }

    /// Makes the entry of `file` in its directory durable, and that directory's in its parent, up
    /// to the directory of all databases.
    pub(super) fn sync_entry(&self, file: &Path) -> Result<(), String> {
        let Some(directory) = file.parent() else { return Ok(()) };
        self.entries.sync(directory)?;
        // The last one, `state` itself, was synced at the start.
        let made = directory.ancestors().take_while(|made| *made != self.state);
        made.filter_map(|made| Some((made, made.parent()?)))
            .try_for_each(|(made, parent)| self.entries.sync_once(made, parent))
    }
}

/// What this process knows of the directories it made entries in.
#[derive(Debug, Default)]
struct Entries(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Directories whose entry in their parent is durable. One is synced once: a process that
    /// was killed may have made it and never synced it.
    durable: HashSet<PathBuf>,
    /// Directories whose fsync failed. Another would say nothing.
    failed: HashMap<PathBuf, String>,
    /// Databases with a file whose fsync failed. The kernel shows what was written to it, has
    /// perhaps not put it on disk, and would not say so at another fsync.
    doubted: HashSet<PathBuf>,
}

impl Entries {
    fn sync_once(&self, directory: &Path, parent: &Path) -> Result<(), String> {
        if !self.known().durable.contains(directory) {
            self.sync(parent)?;
            self.known().durable.insert(directory.to_owned());
        }
        Ok(())
    }

    fn sync(&self, directory: &Path) -> Result<(), String> {
        if let Some(failed) = self.known().failed.get(directory) {
            return Err(failed.clone());
        }
        let opened = File::open(directory).map_err(|error| error.to_string())?;
        sync_opened(&opened).map_err(|error| {
            let failed = error.to_string();
            self.known().failed.insert(directory.to_owned(), failed.clone());
            failed
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Independent sets: whole after a panic anywhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes what was created in and removed from a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    sync_opened(&File::open(directory)?)
}

fn sync_opened(directory: &File) -> io::Result<()> {
    #[cfg(test)]
    if let Some(result) = super::sync::faults::on_sync_directory() {
        return result;
    }
    directory.sync_all()
}

/// A directory that only its owner may enter, and the missing ones above it.
pub(super) fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(directory)
}

fn lock(path: &Path, holder: Holder) -> Result<File, DataDirError> {
    let path_of_lock = path.join("lock");
    let at = |operation| {
        let path = path_of_lock.clone();
        move |source| DataDirError::Io { operation, path, source }
    };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path_of_lock)
        .map_err(at("open"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let holder = fs::read_to_string(&path_of_lock).unwrap_or_default();
            let by = match holder.trim().split_once(' ') {
                Some((process, _)) => format!("command (process {process})"),
                None if holder.is_empty() => "server".to_owned(),
                None => format!("server (process {})", holder.trim()),
            };
            return Err(DataDirError::InUse { path: path.to_owned(), by });
        }
        Err(error) => return Err(at("lock")(error.into())),
    }
    let process = std::process::id();
    let says = match holder {
        Holder::Server => format!("{process}\n"),
        Holder::Command => format!("{process} command\n"),
    };
    file.set_len(0).and_then(|()| file.write_all(says.as_bytes())).map_err(at("write"))?;
    Ok(file)
}

fn remove_unfinished(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        // SQLite puts files of its own beside an export's.
        let is_export = name.to_string_lossy().starts_with(EXPORT);
        let is_unfinished = Path::new(&name).extension().is_some_and(|end| end == UNFINISHED);
        if is_export || is_unfinished {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Reads the directory's format, and writes it to a new directory.
fn check_format(path: &Path) -> Result<(), DataDirError> {
    let file = path.join("format");
    match fs::read_to_string(&file) {
        Ok(found) => {
            let version = found.trim_end().strip_prefix(FORMAT).and_then(|v| v.parse().ok());
            match version {
                Some(1..=FORMAT_VERSION) => Ok(()),
                Some(newer) if newer > FORMAT_VERSION => {
                    Err(DataDirError::Newer { path: path.to_owned(), found: newer })
                }
                _ => Err(DataDirError::Foreign { path: path.to_owned(), found }),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("{FORMAT}{FORMAT_VERSION}\n");
            write_whole(&file, &text).map_err(|source| DataDirError::Io {
                operation: "write",
                path: file,
                source,
            })
        }
        Err(source) => Err(DataDirError::Io { operation: "read", path: file, source }),
    }
}

/// Writes a small file so that after a crash it is there whole or not at all.
pub(super) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension(UNFINISHED);
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(unfinished, path)
}
