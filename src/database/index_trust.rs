//! Whether the index of alarms can be trusted. It is never late after a crash of the server. After a
//! power cut it may be: of two files that were not synced, either may have come further than the
//! other. So once after each start of the machine every actor with a database is entered as due,
//! and looks for itself when the timer comes to it.

use std::fs;

use rusqlite::{OptionalExtension, params};
use wasmkeep_supervisors::address::{Address, App, Tenant};
use wasmkeep_supervisors::ports::{Catalogue, KnownActor, KnownName, StorageFault};

use super::files::LocalDatabases;
use super::index::Index;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

const GET: &str = "SELECT v FROM node WHERE k = 'boot'";
const SET: &str = "INSERT INTO node VALUES ('boot', ?1) ON CONFLICT DO UPDATE SET v = excluded.v";
const ENTER: &str = "INSERT INTO alarms VALUES (?1, ?2, ?3, ?4, 0) \
                     ON CONFLICT DO UPDATE SET due = 0";

impl Index {
    /// Whether the machine has been up since the index was last found or made right. Taken for
    /// granted where the system does not tell one start of the machine from another.
    fn is_trusted(&self) -> Result<bool, StorageFault> {
        let Some(boot) = this_boot() else { return Ok(true) };
        self.with("read", |open| {
            let known: Option<String> =
                open.connection.query_row(GET, [], |row| row.get(0)).optional()?;
            Ok(known == Some(boot))
        })
    }

    /// The index is right as of now.
    pub(super) fn trust(&self) -> Result<(), StorageFault> {
        let Some(boot) = this_boot() else { return Ok(()) };
        self.with("write", |open| {
            open.connection.execute(SET, [boot])?;
            open.wrote()
        })?;
        self.make_durable()
    }

    /// Enters an actor as due, whatever stands there: that may be late.
    fn enter(&self, of: &Address, app: &App) -> Result<(), StorageFault> {
        self.with("write", |open| {
            let key =
                params![of.tenant.as_str(), app.as_str(), of.class.as_str(), of.name.as_str()];
            open.connection.prepare_cached(ENTER)?.execute(key)?;
            open.wrote()
        })
    }
}

impl LocalDatabases {
    /// After a start of the machine: enters every actor that has a database, and returns how many.
    /// None: there was no such start. Takes as long as it takes to read the names of all files. A
    /// data directory has one tenant and one app; with more, each would have to be entered before
    /// the index is trusted.
    pub fn mend_index(&self, tenant: &Tenant) -> Result<Option<usize>, StorageFault> {
        let index = self.data_dir.index();
        if index.is_trusted()? {
            return Ok(None);
        }
        let mut entered = 0;
        for class in self.classes(tenant)? {
            for KnownActor { name, has_file, .. } in self.actors(tenant, &class)? {
                let KnownName::Name(name) = name else { continue };
                if has_file {
                    let address = Address { tenant: tenant.clone(), class: class.clone(), name };
                    index.enter(&address, &self.app)?;
                    entered += 1;
                }
            }
        }
        index.trust()?;
        Ok(Some(entered))
    }
}

/// What tells this start of the machine from others, where the system says so.
pub(super) fn this_boot() -> Option<String> {
    Some(fs::read_to_string(BOOT_ID).ok()?.trim().to_owned())
}
