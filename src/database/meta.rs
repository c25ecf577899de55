//! The host's table in an actor's database: whose it is, and which component initialised it.
//!
//! Guests see its name and nothing else of it (`sandbox`). It is made by the host's first write,
//! not with the file: most of what a new actor costs is its first transaction.

use wasmkeep_supervisors::address::{Address, App};
use wasmkeep_supervisors::ports::{Meta, OpenError, StorageFault};

use super::connection::{HOST_PAGES, LocalDatabase, damaged, open_error, set_pages_max};

/// The version of what the host keeps here.
const FORMAT: u32 = 1;

const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_wk_meta')";
const CREATE: &str = "CREATE TABLE _wk_meta (k TEXT PRIMARY KEY, v) WITHOUT ROWID";
const READ_ALL: &str = "SELECT k, v FROM _wk_meta";
const READ: &str = "SELECT v FROM _wk_meta WHERE k = ?1";
const WRITE: &str = "INSERT INTO _wk_meta (k, v) VALUES (?1, ?2) \
                     ON CONFLICT (k) DO UPDATE SET v = excluded.v";

const REMOVE: &str = "DELETE FROM _wk_meta WHERE k = ?1";

/// Whose database a file is.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    address: Address,
    app: App,
}

impl Identity {
    pub(super) fn new(address: &Address, app: &App) -> Self {
        Self { address: address.clone(), app: app.clone() }
    }

    pub(super) fn class(&self) -> &str {
        self.address.class.as_str()
    }

    fn rows(&self) -> [(&'static str, String); 5] {
        [
            ("tenant", self.address.tenant.to_string()),
            ("app", self.app.to_string()),
            ("class", self.address.class.to_string()),
            ("name", self.address.name.to_string()),
            ("format", FORMAT.to_string()),
        ]
    }
}

impl LocalDatabase {
    /// Checks that the file is this actor's and of a format this build knows. Returns whether the
    /// host ever wrote to it: when not, nothing says whose it is but its path.
    pub(super) fn verify(&mut self) -> Result<bool, OpenError> {
        let read = self.hooks.as_host(|| {
            if !self.meta_exists()? {
                return Ok(None);
            }
            let mut statement = self.connection.prepare(READ_ALL)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<(String, String)>>>().map(Some)
        });
        let Some(rows) = read.map_err(|error| open_error(&self.path, &error))? else {
            return Ok(false);
        };
        let value = |key: &str| rows.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        if let Some(format) = value("format").and_then(|format| format.parse::<u32>().ok())
            && format > FORMAT
        {
            let cause = format!("format {format} is newer than this build, which reads {FORMAT}");
            return Err(damaged(&self.path, cause));
        }
        for (key, ours) in self.identity.rows() {
            match value(key) {
                Some(found) if found == ours => {}
                found => {
                    let cause = format!("its {key} is {found:?}, not {ours:?}");
                    return Err(damaged(&self.path, cause));
                }
            }
        }
        self.meta = Some(rows);
        Ok(true)
    }

    pub(super) fn read_meta(&mut self, key: Meta) -> Result<Option<String>, StorageFault> {
        self.usable()?;
        if let Some(rows) = &self.meta {
            return Ok(rows.iter().find(|(k, _)| k == key.key()).map(|(_, v)| v.clone()));
        }
        let read = self.hooks.as_host(|| {
            if !self.meta_exists()? {
                return Ok(None);
            }
            let mut statement = self.connection.prepare_cached(READ)?;
            let mut rows = statement.query([key.key()])?;
            rows.next()?.map(|row| row.get(0)).transpose()
        });
        read.map_err(|error| self.give_up(self.fault("read", error)))
    }

    /// Joins the guest's transaction when one is open.
    pub(super) fn write_meta(
        &mut self,
        key: Meta,
        value: Option<&str>,
    ) -> Result<(), StorageFault> {
        self.usable()?;
        self.meta = None;
        let written = self.hooks.as_host(|| {
            set_pages_max(&self.connection, self.config.pages_max() + HOST_PAGES)?;
            let written = match value {
                Some(value) => self.write_rows(key, value),
                None => self.remove_row(key),
            };
            set_pages_max(&self.connection, self.config.pages_max())?;
            written
        });
        written.map_err(|error| self.give_up(self.fault("write", error)))
    }

    fn write_rows(&self, key: Meta, value: &str) -> rusqlite::Result<()> {
        if self.meta_exists()? {
            return self.write_row(key.key(), value);
        }
        self.connection.execute_batch("SAVEPOINT _wk_meta")?;
        self.connection.execute_batch(CREATE)?;
        for (key, value) in self.identity.rows() {
            self.write_row(key, &value)?;
        }
        self.write_row(key.key(), value)?;
        self.connection.execute_batch("RELEASE _wk_meta")
    }

    fn remove_row(&self, key: Meta) -> rusqlite::Result<()> {
        if self.meta_exists()? {
            self.connection.prepare_cached(REMOVE)?.execute([key.key()])?;
        }
        Ok(())
    }

    fn write_row(&self, key: &str, value: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(WRITE)?.execute([key, value]).map(drop)
    }

    fn meta_exists(&self) -> rusqlite::Result<bool> {
        self.connection.prepare_cached(EXISTS)?.query_row([], |row| row.get(0))
    }
}
