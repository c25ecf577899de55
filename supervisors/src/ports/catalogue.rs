//! Which actors a node has on disk, for its operators.

use std::path::{Path, PathBuf};

use super::database::{Databases, StorageFault};
use crate::address::{ActorName, Address, Class, Tenant};
use crate::time::Timestamp;

/// What is known of an actor without opening its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownActor {
    pub name: KnownName,
    /// It has a database file; the others are only remembered by the node's index.
    pub has_file: bool,
    /// When the index says that its alarm is due.
    pub alarm: Option<Timestamp>,
}

/// A file's name tells its actor's name, unless that was too long for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KnownName {
    Name(ActorName),
    /// The name could not be read out of the file either.
    Stem(String),
}

/// Bytes of an actor's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileSizes {
    pub database: u64,
    pub wal: u64,
}

impl FileSizes {
    pub fn total(self) -> u64 {
        self.database.saturating_add(self.wal)
    }
}

/// The databases of one app, as an operator looks at them. Calls may block on the disk.
pub trait Catalogue: Databases {
    /// The classes that have actors, sorted.
    fn classes(&self, tenant: &Tenant) -> Result<Vec<Class>, StorageFault>;

    /// The actors of a class, sorted by name.
    fn actors(&self, tenant: &Tenant, class: &Class) -> Result<Vec<KnownActor>, StorageFault>;

    /// The sizes of the actor's files; none when it has no file.
    fn file_sizes(&self, address: &Address) -> Result<Option<FileSizes>, StorageFault>;

    /// Where the actor's file is, or would be.
    fn file(&self, address: &Address) -> PathBuf;

    /// A new name for an export that is not whole yet. Left behind by a crash, it goes with the next
    /// start.
    fn new_export(&self) -> PathBuf;

    /// Makes a plain SQLite file of what `Database::export_to` wrote: without the host's tables,
    /// without a WAL, checked.
    fn finish_export(&self, file: &Path) -> Result<(), StorageFault>;
}
