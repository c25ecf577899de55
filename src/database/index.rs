//! What the node remembers beside the actors' databases: which actors have none and what
//! initialised them, and when alarms are due (`alarm_index`).
//!
//! An actor that never touches storage costs a row here instead of a file. The rows survive a
//! crash of the server; they are not synced one by one, since nothing was promised to be durable,
//! except when a row is removed with its actor.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, OptionalExtension, params};
use wasmkeep_supervisors::address::{Address, App};
use wasmkeep_supervisors::ports::StorageFault;

use super::connection::{connect, to_wal};
use super::failure::is_disk_full;
use super::off_runtime::off_runtime;
use super::sync::{self, File, wal_path};

/// Rows written between two checkpoints, each about a page of the WAL.
const WRITES_BETWEEN_CHECKPOINTS: u32 = 2_000;

const BEFORE_READING: &str = "PRAGMA locking_mode = EXCLUSIVE;";
const SETTINGS: &str = "
    PRAGMA synchronous = NORMAL;
    PRAGMA cache_size = -4096;
    PRAGMA wal_autocheckpoint = 0;
    CREATE TABLE IF NOT EXISTS alarms (
        tenant TEXT NOT NULL,
        app TEXT NOT NULL,
        class TEXT NOT NULL,
        name TEXT NOT NULL,
        due INTEGER NOT NULL,
        PRIMARY KEY (tenant, app, class, name)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS alarms_by_due ON alarms (tenant, app, class, due);
    CREATE TABLE IF NOT EXISTS node (k TEXT PRIMARY KEY, v TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS fileless (
        tenant TEXT NOT NULL,
        app TEXT NOT NULL,
        class TEXT NOT NULL,
        name TEXT NOT NULL,
        init_component TEXT NOT NULL,
        PRIMARY KEY (tenant, app, class, name)
    ) WITHOUT ROWID;";

/// Makes SQLite sync the WAL before and the file after.
const MOVE_ALL: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

const GET: &str = "SELECT init_component FROM fileless \
                   WHERE tenant = ?1 AND app = ?2 AND class = ?3 AND name = ?4";
const SET: &str = "INSERT INTO fileless VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT DO UPDATE SET init_component = excluded.init_component";
const REMOVE: &str = "DELETE FROM fileless \
                      WHERE tenant = ?1 AND app = ?2 AND class = ?3 AND name = ?4";

#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    open: Mutex<Open>,
    /// Held while the files are synced, which takes as long as the disk does: who only reads or
    /// writes does not wait for it.
    syncing: Mutex<()>,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) connection: Connection,
    writes_since_checkpoint: u32,
    main_is_synced: bool,
    /// Counts what was written, over connections too.
    written: u64,
    /// How much of that is on disk.
    synced: Option<u64>,
    /// This connection failed: the next use opens another.
    given_up: bool,
}

impl Open {
    fn new(connection: Connection, written: u64) -> Self {
        Self {
            connection,
            writes_since_checkpoint: 0,
            main_is_synced: false,
            written,
            // What a crash left in the WAL is not known to be on disk.
            synced: None,
            given_up: false,
        }
    }

    fn again(&mut self, path: &Path) -> rusqlite::Result<()> {
        // The lock on the file goes with the connection that has it.
        self.connection = Connection::open_in_memory()?;
        let connection = prepare(path)?;
        connection.query_row(MOVE_ALL, [], |_| Ok(()))?;
        *self = Self::new(connection, self.written + 1);
        Ok(())
    }
}

impl Index {
    /// Opens the index, or makes it. The text of the error is for the operator.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let connection = prepare(path).map_err(|error| error.to_string())?;
        let open = Mutex::new(Open::new(connection, 0));
        Ok(Self { path: path.to_owned(), open, syncing: Mutex::default() })
    }

    /// Closes it with everything in its one file, on disk.
    pub(super) fn into_one_file(self) -> Result<(), String> {
        let open = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        let moved: rusqlite::Result<i64> =
            open.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        match moved {
            Ok(0) => open.connection.close().map_err(|(_, error)| error.to_string()),
            Ok(_) => Err("its log could not be moved into its file".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn get(&self, of: &Address, app: &App) -> Result<Option<String>, StorageFault> {
        self.with("read", |open| {
            let key =
                params![of.tenant.as_str(), app.as_str(), of.class.as_str(), of.name.as_str()];
            open.connection.prepare_cached(GET)?.query_row(key, |row| row.get(0)).optional()
        })
    }

    pub(super) fn set(&self, of: &Address, app: &App, component: &str) -> Result<(), StorageFault> {
        self.with("write", |open| {
            let (tenant, class, name) = (of.tenant.as_str(), of.class.as_str(), of.name.as_str());
            let row = params![tenant, app.as_str(), class, name, component];
            open.connection.prepare_cached(SET)?.execute(row)?;
            open.wrote()
        })
    }

    /// Forgets the actor; true when it was known.
    pub(super) fn remove(&self, of: &Address, app: &App) -> Result<bool, StorageFault> {
        self.with("write", |open| {
            let key =
                params![of.tenant.as_str(), app.as_str(), of.class.as_str(), of.name.as_str()];
            let known = open.connection.prepare_cached(REMOVE)?.execute(key)? > 0;
            if known {
                open.wrote()?;
            }
            Ok(known)
        })
    }

    /// Forgets the actor for good: after a power cut too.
    pub(super) fn remove_durably(&self, of: &Address, app: &App) -> Result<(), StorageFault> {
        if !self.remove(of, app)? {
            return Ok(());
        }
        self.make_durable()
    }

    /// Returns once everything written is on disk.
    pub(super) fn make_durable(&self) -> Result<(), StorageFault> {
        {
            let open = self.usable()?;
            if open.synced == Some(open.written) {
                return Ok(());
            }
        }
        off_runtime(|| self.sync())
    }

    fn sync(&self) -> Result<(), StorageFault> {
        let _one_at_a_time = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (written, main_is_synced) = {
            let open = self.usable()?;
            if open.synced == Some(open.written) {
                return Ok(());
            }
            (open.written, open.main_is_synced)
        };
        let main = if main_is_synced { Ok(()) } else { sync::sync_path(&self.path, File::Main) };
        let synced = main.and_then(|()| sync::sync_path(&wal_path(&self.path), File::Wal));
        let mut open = self.lock();
        match synced {
            Ok(()) => {
                open.main_is_synced = true;
                open.synced = Some(written);
                Ok(())
            }
            Err(cause) => {
                open.given_up = true;
                Err(self.fault("sync", cause))
            }
        }
    }

    pub(super) fn with<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Open) -> rusqlite::Result<T>,
    ) -> Result<T, StorageFault> {
        let mut open = self.usable()?;
        work(&mut open).map_err(|error| {
            open.given_up |= !is_disk_full(&error);
            self.fault(operation, error.to_string())
        })
    }

    /// The index; after a failure opened anew, since all actors need it. A failed fsync is not
    /// tried again: what is read back goes into the file once more, as new writes.
    fn usable(&self) -> Result<MutexGuard<'_, Open>, StorageFault> {
        let mut open = self.lock();
        if open.given_up {
            off_runtime(|| open.again(&self.path))
                .map_err(|error| self.fault("open again", error.to_string()))?;
        }
        Ok(open)
    }

    fn fault(&self, operation: &'static str, cause: String) -> StorageFault {
        StorageFault { operation, path: self.path.display().to_string(), cause }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A statement is whole or undone, whatever panicked around it.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    pub(super) fn wrote(&mut self) -> rusqlite::Result<()> {
        self.written += 1;
        self.writes_since_checkpoint += 1;
        if self.writes_since_checkpoint >= WRITES_BETWEEN_CHECKPOINTS {
            self.writes_since_checkpoint = 0;
            let main = Some(c"main");
            let moved =
                off_runtime(|| self.connection.wal_checkpoint_v2(main, CheckpointMode::PASSIVE));
            // Without room the rows stay in the WAL.
            return moved
                .map(drop)
                .or_else(|error| is_disk_full(&error).then_some(()).ok_or(error));
        }
        Ok(())
    }
}

fn prepare(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path)?;
    connection.execute_batch(BEFORE_READING)?;
    to_wal(&connection)?;
    connection.execute_batch(SETTINGS)?;
    // Damage further in would only be met when some actor's row is looked up.
    let check: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if check == "ok" {
        return Ok(connection);
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(rusqlite::Error::SqliteFailure(code, Some(check)))
}
