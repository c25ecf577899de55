//! `ports::Databases` over files: where each actor's database lies, and how it goes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmkeep_supervisors::address::{Address, App};
use wasmkeep_supervisors::limits;
use wasmkeep_supervisors::ports::{Database, Databases, OpenError, StorageFault};

use super::connection::LocalDatabase;
use super::data_dir::{DataDir, create_private};
use super::index::Index;
use super::off_worker;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseConfig {
    pub bytes_max: usize,
    pub sql_cpu_budget: Duration,
    pub event_written_bytes_max: usize,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            bytes_max: limits::DATABASE_BYTES_MAX,
            sql_cpu_budget: limits::SQL_CPU_BUDGET,
            event_written_bytes_max: limits::EVENT_WRITTEN_BYTES_MAX,
        }
    }
}

/// The databases of one app's actors under a data directory.
pub struct LocalDatabases {
    data_dir: Arc<DataDir>,
    app: App,
    index: Index,
    config: DatabaseConfig,
}

impl LocalDatabases {
    pub fn new(
        data_dir: Arc<DataDir>,
        app: App,
        config: DatabaseConfig,
    ) -> Result<Self, StorageFault> {
        let index = Index::open(&data_dir.index(), app.clone())?;
        Ok(Self { data_dir, app, index, config })
    }

    fn path(&self, address: &Address) -> PathBuf {
        let mut path = self.data_dir.state();
        path.push(address.tenant.as_str());
        path.push(self.app.as_str());
        path.push(address.class.as_str());
        path.push(address.name.shard());
        path.push(address.name.stem() + ".db");
        path
    }
}

impl Databases for LocalDatabases {
    fn has_file(&self, address: &Address) -> bool {
        self.path(address).exists()
    }

    fn open(&self, address: &Address) -> Result<Box<dyn Database>, OpenError> {
        let path = self.path(address);
        if let Some(folder) = path.parent()
            && !folder.exists()
        {
            make_folder(folder, &self.data_dir.state())
                .map_err(|cause| fault("creating", folder, &cause))?;
        }
        let database = off_worker(|| LocalDatabase::open(path, address, &self.config))?;
        Ok(Box::new(database))
    }

    fn fileless_init(&self, address: &Address) -> Result<Option<String>, StorageFault> {
        self.index.initialised_by(address)
    }

    fn set_fileless_init(&self, address: &Address, component: &str) -> Result<(), StorageFault> {
        self.index.set_initialised_by(address, component)
    }

    fn remove(&self, address: &Address) -> Result<(), StorageFault> {
        self.index.forget(address)?;
        let path = self.path(address);
        off_worker(|| {
            // The WAL first: a database without its WAL is an older state of the actor, and must
            // not be what a crash in between leaves to be found.
            for file in [wal_path(&path), path.clone()] {
                match fs::remove_file(&file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(fault("removing", &file, &error));
                    }
                    _ => {}
                }
            }
            let folder = path.parent().unwrap_or(&path);
            match sync_folder(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(fault("syncing", folder, &error))
                }
                _ => Ok(()),
            }
        })
    }
}

/// Makes a folder and its parents, each entry durable before anything is put into it.
fn make_folder(folder: &Path, root: &Path) -> io::Result<()> {
    create_private(folder)?;
    let mut child = folder;
    while child != root {
        let Some(parent) = child.parent() else { break };
        sync_folder(parent)?;
        child = parent;
    }
    Ok(())
}

pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub fn wal_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn fault(operation: &'static str, path: &Path, cause: &io::Error) -> StorageFault {
    StorageFault { operation, path: path.display().to_string(), cause: cause.to_string() }
}
