//! One SQLite database per actor: `ports::Databases` and `ports::Database` on local files.
//!
//! Promised: a commit survives a crash of the server, and after `sync` also a power cut. A guest
//! reaches its own tables and nothing else (`sandbox`), and its SQL ends at the event's budgets
//! (`budget`, `memory`). A database that is not open is a file, beside it at most a short log, and costs nothing else. Whatever
//! the files or the disk do wrong makes that one database unusable until it is opened again; it
//! never passes for an answer.
//!
//! For the bucket, commits are captured from the log (`capture`), and files are copies of what is
//! there (`copies`).
//!
//! Not here: who may open a database and when (the caller keeps one connection per address), and
//! what becomes of captured pages. The reasons are in docs/adr/0003-local-databases.md and
//! docs/adr/0016-history.md.
//!
//! The lock of the data directory stands for all locks: SQLite runs without its own, so a database
//! must not be opened by another program while the server runs.

mod alarm_index;
mod budget;
mod capture;
mod catalogue;
mod connection;
mod copies;
mod data_dir;
mod failure;
mod files;
mod functions;
mod hooks;
mod index;
mod index_lists;
mod index_rebuild;
mod index_trust;
mod inspect;
mod memory;
mod meta;
mod off_runtime;
mod prepared;
mod sandbox;
mod session_file;
mod sqlite_file;
mod statement;
mod sync;
mod sync_threads;

#[cfg(test)]
mod tests;

pub use data_dir::{DataDir, DataDirError};
pub use files::{DatabaseConfig, LocalDatabases};
