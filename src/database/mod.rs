//! One SQLite database per actor: `ports::Databases` and `ports::Database` on local files.
//!
//! Promised: a commit survives a crash of the server, and after `sync` also a power cut. A guest
//! reaches its own tables and nothing else (`sandbox`), and its SQL ends at the event's budgets
//! (`budget`, `memory`). A database that is not open is one file and costs nothing else. Whatever
//! the files or the disk do wrong makes that one database unusable until it is opened again; it
//! never passes for an answer.
//!
//! Not here: who may open a database and when (the caller keeps one connection per address), and
//! copies elsewhere. The reasons are in docs/adr/0003-local-databases.md.
//!
//! The lock of the data directory stands for all locks: SQLite runs without its own, so a database
//! must not be opened by another program while the server runs.

use std::time::Duration;

use wasmkeep_supervisors::limits;

mod budget;
mod connection;
mod data_dir;
mod failure;
mod files;
mod hooks;
mod index;
mod memory;
mod meta;
mod off_runtime;
mod prepared;
mod sandbox;
mod statement;
mod sync;

#[cfg(test)]
mod tests;

pub use data_dir::{DataDir, DataDirError};
pub use files::LocalDatabases;

/// The bounds of an actor's database that an operator may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseLimits {
    pub database_bytes_max: u64,
    pub event_written_bytes_max: u64,
    pub sql_cpu_budget: Duration,
}

impl Default for DatabaseLimits {
    fn default() -> Self {
        Self {
            database_bytes_max: limits::DATABASE_BYTES_MAX as u64,
            event_written_bytes_max: limits::EVENT_WRITTEN_BYTES_MAX as u64,
            sql_cpu_budget: limits::SQL_CPU_BUDGET,
        }
    }
}

impl DatabaseLimits {
    fn pages_max(self) -> u64 {
        self.database_bytes_max / connection::PAGE_BYTES
    }
}
