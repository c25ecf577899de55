//! `ports::Databases`: which file is whose, and what becomes of it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmkeep_supervisors::address::{Address, App, Class, Tenant};
use wasmkeep_supervisors::limits;
use wasmkeep_supervisors::ports::{Database, Databases, Meta, OpenError, StorageFault};
use wasmkeep_supervisors::time::Timestamp;

use super::connection::{Found, LocalDatabase, PAGE_BYTES};
use super::copies;
use super::data_dir::{DataDir, make_private, sync_directory};
use super::meta::Identity;
use super::off_runtime::{off_runtime, off_runtime_if};
use super::sync::wal_path;

/// The bounds of an actor's database and of what one event may do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseConfig {
    pub bytes_max: usize,
    pub sql_cpu_budget: Duration,
    pub event_written_bytes_max: usize,
    /// Commits are captured, for the bucket. The files are then a copy of what is there: they are
    /// not synced, and used again only when they are known to be that.
    pub captured: bool,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            bytes_max: limits::DATABASE_BYTES_MAX,
            sql_cpu_budget: limits::SQL_CPU_BUDGET,
            event_written_bytes_max: limits::EVENT_WRITTEN_BYTES_MAX,
            captured: false,
        }
    }
}

impl DatabaseConfig {
    pub(super) fn pages_max(&self) -> u64 {
        self.bytes_max as u64 / PAGE_BYTES
    }
}

/// The databases of one app in a node's data directory.
pub struct LocalDatabases {
    pub(super) data_dir: Arc<DataDir>,
    pub(super) app: App,
    config: DatabaseConfig,
}

impl LocalDatabases {
    pub fn new(data_dir: Arc<DataDir>, app: App, config: DatabaseConfig) -> Self {
        Self { data_dir, app, config }
    }

    /// `state/<tenant>/<app>/<class>/<shard>/<stem>.db`
    pub fn path(&self, address: &Address) -> PathBuf {
        let mut path = self.data_dir.state().to_owned();
        path.push(address.tenant.as_str());
        path.push(self.app.as_str());
        path.push(address.class.as_str());
        path.push(address.name.shard());
        path.push(address.name.stem() + ".db");
        path
    }

    pub(super) fn open_file(&self, address: &Address) -> Result<LocalDatabase, OpenError> {
        let path = self.path(address);
        let long_name = self.data_dir.long_names().open(&path, &address.name);
        let found = look(&path)?;
        // Also where nothing is captured: the node may have been in a cluster, and be in one again.
        copies::end_trust(&self.data_dir, &path)?;
        if !found.file {
            make_room(&path)?;
        }
        // With a WAL to recover this reads as much as the last checkpoint left.
        off_runtime_if(found.wal, || {
            let identity = Identity::new(address, &self.app);
            let data_dir = Arc::clone(&self.data_dir);
            let mut database = LocalDatabase::open(path, found, identity, &self.config, data_dir)?;
            database.long_name = long_name;
            if found.file && !self.config.captured {
                database.become_own()?;
            }
            if !found.file || !database.verify()? {
                self.move_fileless(address, &mut database)?;
            }
            Ok(database)
        })
    }

    /// Moves what the index knew of an actor without a file into the file it has now.
    fn move_fileless(
        &self,
        address: &Address,
        database: &mut LocalDatabase,
    ) -> Result<(), StorageFault> {
        let index = self.data_dir.index();
        if let Some(component) = index.get(address, &self.app)? {
            database.write_meta(Meta::InitComponent, Some(&component))?;
            index.remove(address, &self.app)?;
        }
        Ok(())
    }
}

impl Databases for LocalDatabases {
    fn has_file(&self, address: &Address) -> bool {
        // What cannot be looked at is there: opening it will say why.
        look(&self.path(address)).map_or(true, |found| found.file)
    }

    fn open(&self, address: &Address) -> Result<Box<dyn Database>, OpenError> {
        Ok(Box::new(self.open_file(address)?))
    }

    fn fileless_init(&self, address: &Address) -> Result<Option<String>, StorageFault> {
        self.data_dir.index().get(address, &self.app)
    }

    fn set_fileless_init(&self, address: &Address, component: &str) -> Result<(), StorageFault> {
        self.data_dir.index().set(address, &self.app, component)
    }

    fn indexed_alarm(&self, address: &Address) -> Result<Option<Timestamp>, StorageFault> {
        self.data_dir.index().alarm(address, &self.app)
    }

    fn index_alarm(&self, address: &Address, due: Option<Timestamp>) -> Result<(), StorageFault> {
        self.data_dir.index().set_alarm(address, &self.app, due)
    }

    fn alarms_due(
        &self,
        tenant: &Tenant,
        class: &Class,
        by: Timestamp,
        most: usize,
    ) -> Result<Vec<(Timestamp, Address)>, StorageFault> {
        self.data_dir.index().alarms_due(&self.app, tenant, class, by, most)
    }

    fn next_alarm(
        &self,
        tenant: &Tenant,
        class: &Class,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StorageFault> {
        self.data_dir.index().next_alarm(&self.app, tenant, class, after)
    }

    fn sync_index(&self) -> Result<(), StorageFault> {
        self.data_dir.index().make_durable()
    }

    fn remove(&self, address: &Address) -> Result<(), StorageFault> {
        off_runtime(|| {
            self.data_dir.index().remove_durably(address, &self.app)?;
            let path = self.path(address);
            if self.config.captured {
                copies::remove_beside(&self.data_dir, &path)?;
            }
            remove_files(&path)?;
            self.data_dir.trust(&path);
            // Last: an alarm without an entry would be lost, an entry without an alarm runs
            // nothing.
            self.data_dir.index().set_alarm(address, &self.app, None)
        })
    }
}

fn look(path: &Path) -> Result<Found, StorageFault> {
    let file = length(path)?.is_some();
    let wal = file && length(&wal_path(path))?.is_some_and(|length| length > 0);
    Ok(Found { file, wal })
}

/// Bytes of a file, if it is there.
pub(super) fn length(path: &Path) -> Result<Option<u64>, StorageFault> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(fault("look at", path, &error)),
    }
}

/// Makes the directory of a new file.
pub(super) fn make_room(path: &Path) -> Result<(), StorageFault> {
    let Some(directory) = path.parent() else { return Ok(()) };
    make_private(directory).map_err(|error| fault("create", directory, &error))?;
    // A WAL without its database is what a power cut left of a removal.
    remove_file(&wal_path(path))
}

/// The WAL first: a database without its WAL is an older state, a WAL without its database is
/// nothing.
fn remove_files(path: &Path) -> Result<(), StorageFault> {
    remove_file(&wal_path(path))?;
    remove_file(path)?;
    let Some(directory) = path.parent() else { return Ok(()) };
    // Also when nothing was there: an earlier try may have removed it and failed here.
    match sync_directory(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(fault("sync", directory, &error)),
        _ => Ok(()),
    }
}

pub(super) fn remove_file(path: &Path) -> Result<(), StorageFault> {
    match std::fs::remove_file(path) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(fault("remove", path, &error))
        }
        _ => Ok(()),
    }
}

pub(super) fn fault(operation: &'static str, path: &Path, cause: &std::io::Error) -> StorageFault {
    StorageFault { operation, path: path.display().to_string(), cause: cause.to_string() }
}
