//! What the node remembers of actors that have no database file: that they exist, and which
//! component initialised them. One small database for all of them, beside theirs.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};
use wasmkeep_supervisors::address::{Address, App};
use wasmkeep_supervisors::ports::StorageFault;

pub struct Index {
    connection: Mutex<Connection>,
    path: String,
    app: App,
}

impl Index {
    pub fn open(path: &Path, app: App) -> Result<Self, StorageFault> {
        let open = || {
            let connection = Connection::open(path)?;
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS fileless (
                    tenant TEXT, app TEXT, class TEXT, name TEXT, init_component TEXT NOT NULL,
                    PRIMARY KEY (tenant, app, class, name)
                ) WITHOUT ROWID",
            )?;
            Ok(connection)
        };
        let path = path.display().to_string();
        match open() {
            Ok(connection) => Ok(Self { connection: Mutex::new(connection), path, app }),
            Err(cause) => Err(fault("opening", &path, &cause)),
        }
    }

    pub fn initialised_by(&self, address: &Address) -> Result<Option<String>, StorageFault> {
        self.run("reading", |connection| {
            connection
                .prepare_cached(
                    "SELECT init_component FROM fileless
                     WHERE tenant = ? AND app = ? AND class = ? AND name = ?",
                )?
                .query_row(self.key(address), |row| row.get(0))
                .optional()
        })
    }

    pub fn set_initialised_by(
        &self,
        address: &Address,
        component: &str,
    ) -> Result<(), StorageFault> {
        let [tenant, app, class, name] = self.key(address);
        self.run("writing", |connection| {
            connection
                .prepare_cached("INSERT OR REPLACE INTO fileless VALUES (?, ?, ?, ?, ?)")?
                .execute(params![tenant, app, class, name, component])
        })?;
        Ok(())
    }

    pub fn forget(&self, address: &Address) -> Result<(), StorageFault> {
        self.run("writing", |connection| {
            connection
                .prepare_cached(
                    "DELETE FROM fileless
                     WHERE tenant = ? AND app = ? AND class = ? AND name = ?",
                )?
                .execute(self.key(address))
        })?;
        Ok(())
    }

    fn key<'a>(&'a self, address: &'a Address) -> [&'a str; 4] {
        let Address { tenant, class, name } = address;
        [tenant.as_str(), self.app.as_str(), class.as_str(), name.as_str()]
    }

    fn run<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StorageFault> {
        work(&self.lock()).map_err(|cause| fault(operation, &self.path, &cause))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fault(operation: &'static str, path: &str, cause: &rusqlite::Error) -> StorageFault {
    StorageFault { operation, path: path.to_owned(), cause: cause.to_string() }
}
