//! The data directory: its layout, and the lock that makes it one server's.
//!
//! ```text
//! lock                                              held while a server runs, with its pid
//! format                                            what wrote this directory
//! index.db                                          actors that have no database file
//! components/                                       compiled components
//! state/<tenant>/<app>/<class>/<2 hex>/<stem>.db    one actor's database (and its -wal)
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

const FORMAT: &str = "wasmkeep data 1";

#[derive(Debug, Error)]
pub enum DataDirError {
    #[error("the data directory {path} is in use by another wasmkeep server{by}; stop it, or give another --data-dir")]
    InUse { path: PathBuf, by: String },
    #[error(
        "the data directory {path} was written by another version ({found:?}; this one writes {FORMAT:?}); use that version, or another --data-dir"
    )]
    OtherFormat { path: PathBuf, found: String },
    #[error("the data directory cannot be used: {path}: {cause}")]
    Unusable { path: PathBuf, cause: io::Error },
}

/// A data directory that is this process's alone until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Opens the directory, creating it for its owner only.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let unusable = |at: &Path| {
            let at = at.to_owned();
            move |cause| DataDirError::Unusable { path: at, cause }
        };
        create_private(path).map_err(unusable(path))?;
        // SQLite is told to follow no symbolic links, so the path must hold none.
        let path = path.canonicalize().map_err(unusable(path))?;
        let lock = lock(&path)?;
        check_format(&path)?;
        for folder in ["state", "components"] {
            let folder = path.join(folder);
            create_private(&folder).map_err(unusable(&folder))?;
        }
        Ok(Self { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn components(&self) -> PathBuf {
        self.path.join("components")
    }

    pub fn index(&self) -> PathBuf {
        self.path.join("index.db")
    }

    pub fn state(&self) -> PathBuf {
        self.path.join("state")
    }
}

pub fn create_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn lock(directory: &Path) -> Result<File, DataDirError> {
    let path = directory.join("lock");
    let unusable = |cause| DataDirError::Unusable { path: path.clone(), cause };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(unusable)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let by = match file.read_to_string(&mut pid) {
                Ok(_) if !pid.trim().is_empty() => format!(" (process {})", pid.trim()),
                _ => String::new(),
            };
            return Err(DataDirError::InUse { path: directory.to_owned(), by });
        }
        Err(error) => return Err(unusable(error.into())),
    }
    file.set_len(0).map_err(unusable)?;
    writeln!(file, "{}", std::process::id()).map_err(unusable)?;
    Ok(file)
}

fn check_format(directory: &Path) -> Result<(), DataDirError> {
    let path = directory.join("format");
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == FORMAT => Ok(()),
        Ok(found) => Err(DataDirError::OtherFormat {
            path: directory.to_owned(),
            found: found.trim().to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let unfinished = directory.join("format.tmp");
            fs::write(&unfinished, format!("{FORMAT}\n"))
                .and_then(|()| fs::rename(&unfinished, &path))
                .map_err(|cause| DataDirError::Unusable { path, cause })
        }
        Err(cause) => Err(DataDirError::Unusable { path, cause }),
    }
}
