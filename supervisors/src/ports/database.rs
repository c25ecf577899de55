//! One SQLite database per actor, and what the node remembers of actors that have none.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thiserror::Error;
use tokio::time::Instant;

use crate::address::{Address, Class, Tenant};
use crate::history::Base;
use crate::time::Timestamp;

use super::capture::Capturing;

/// One SQL value, as SQLite stores it.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The answer of a query: the columns' names, and each row's values in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowSet {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<SqlValue>>,
}

/// Becomes true when nobody waits any more.
pub type Left = Arc<AtomicBool>;

/// Rows that were asked for up to a number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SomeRows {
    pub set: RowSet,
    /// There are more, or they are larger than a result may be.
    pub cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind {
    Unique,
    PrimaryKey,
    ForeignKey,
    NotNull,
    Check,
    Other,
}

/// A guest's mistake or limit, as a value returned to it. The cases are those of `sql-error` in
/// `wit/storage.wit`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SqlError {
    #[error("invalid: {0}")]
    Invalid(String),
    #[error("constraint: {message}")]
    Constraint { kind: ConstraintKind, message: String },
    #[error("quota exceeded: {0}")]
    QuotaExceeded(String),
    #[error("not allowed: {0}")]
    NotAllowed(String),
    /// The database itself failed; the actor is given up when the event ends.
    #[error("internal: {0}")]
    Internal(String),
}

/// The files of a database failed. What was written last may or may not be there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{operation} {path}: {cause}")]
pub struct StorageFault {
    pub operation: &'static str,
    pub path: String,
    pub cause: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The file is not a database of this actor that this build can read. A retry will not help.
    #[error("{path} is not a readable database of this actor: {cause}")]
    Damaged { path: String, cause: String },
    /// Opening failed for now: descriptors, memory, permissions.
    #[error(transparent)]
    Failed(#[from] StorageFault),
}

/// For whom a damaged file is one that cannot be opened, like others.
impl From<OpenError> for StorageFault {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Failed(fault) => fault,
            OpenError::Damaged { path, cause } => Self { operation: "open", path, cause },
        }
    }
}

/// What the host keeps in an actor's own database, beside the guest's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meta {
    /// The component whose `on-init` succeeded last, as hexadecimal SHA-256.
    InitComponent,
    /// The pending alarm: `alarm/record.rs`.
    Alarm,
    /// The alarm that a running `on-alarm` has set: it takes the pending one's place when that
    /// handler succeeds.
    NextAlarm,
}

impl Meta {
    pub const fn key(self) -> &'static str {
        match self {
            Meta::InitComponent => "init_component",
            Meta::Alarm => "alarm",
            Meta::NextAlarm => "next_alarm",
        }
    }
}

/// The node's databases. An actor that never touched storage has no file; the node's index then
/// remembers which component initialised it.
pub trait Databases: Send + Sync + 'static {
    /// Whether the actor has a database file.
    fn has_file(&self, address: &Address) -> bool;

    /// Opens the actor's database, creating the file when there is none. One connection at a time
    /// per address: the caller keeps that.
    fn open(&self, address: &Address) -> Result<Box<dyn Database>, OpenError>;

    /// The component that initialised an actor without a database file.
    fn fileless_init(&self, address: &Address) -> Result<Option<String>, StorageFault>;

    /// Remembers that an actor without a database file was initialised by `component`.
    fn set_fileless_init(&self, address: &Address, component: &str) -> Result<(), StorageFault>;

    /// When the node's index of alarms says that this actor's is due.
    fn indexed_alarm(&self, address: &Address) -> Result<Option<Timestamp>, StorageFault>;

    /// Writes the index of alarms. It survives a crash of the server; `sync_index` makes it survive
    /// a power cut.
    fn index_alarm(&self, address: &Address, due: Option<Timestamp>) -> Result<(), StorageFault>;

    /// The actors of a class whose alarms are due by then, as the index has it, the earliest first.
    fn alarms_due(
        &self,
        tenant: &Tenant,
        class: &Class,
        by: Timestamp,
        most: usize,
    ) -> Result<Vec<(Timestamp, Address)>, StorageFault>;

    /// When the class's first alarm after that moment is due.
    fn next_alarm(
        &self,
        tenant: &Tenant,
        class: &Class,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StorageFault>;

    /// Makes the index durable.
    fn sync_index(&self) -> Result<(), StorageFault>;

    /// Removes what the node knows of the actor: the index entries, the WAL file, then the database,
    /// and makes that durable. The database must be closed. Repeating it is harmless.
    fn remove(&self, address: &Address) -> Result<(), StorageFault>;
}

/// Ends when what it is about is on disk. It borrows nothing of the database.
pub type Syncing = Pin<Box<dyn Future<Output = Result<(), StorageFault>> + Send>>;

/// One open database. Calls may block on the disk; the implementation steps off the runtime where
/// that takes long.
pub trait Database: Send {
    /// Starts an event's budgets: statements must end by `deadline`.
    fn begin_event(&mut self, deadline: Instant);

    /// Ends an event: rolls back what is still open, and returns whether that was needed. After
    /// an `internal` error the database is unusable and must be closed.
    fn end_event(&mut self) -> Result<bool, StorageFault>;

    /// Runs one statement and returns the rows it changed.
    fn exec(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError>;

    /// As `exec`, but inside a transaction only `COMMIT` and `END` are allowed. Does not make the
    /// result durable: that is `sync`.
    fn exec_before_sync(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError>;

    /// Runs one statement and returns its rows; a write needs a `RETURNING` clause.
    fn query(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<RowSet, SqlError>;

    fn in_transaction(&self) -> bool;

    /// Returns once everything committed is on disk. A failure is never retried: the kernel may
    /// have dropped the pages.
    fn sync(&mut self) -> Result<(), StorageFault>;

    /// Whether `sync_beside` will do.
    fn syncs_beside(&self) -> bool {
        false
    }

    /// As `sync` for what is committed so far, beside whoever goes on writing; none where only `sync`
    /// will do. After a failure the database must be closed.
    fn sync_beside(&mut self) -> Option<Syncing> {
        None
    }

    /// As `sync_beside`, in turn with others that wait for the disk; none when there are none, and `sync`
    /// is sooner done.
    fn sync_in_turn(&mut self) -> Option<Syncing> {
        None
    }

    fn meta(&mut self, key: Meta) -> Result<Option<String>, StorageFault>;

    /// Writes or removes one value; joins the guest's transaction when one is open.
    fn set_meta(&mut self, key: Meta, value: Option<&str>) -> Result<(), StorageFault>;

    /// Starts what an operator reads between two events: as `begin_event`, but without a bound on
    /// CPU. Statements also end once the operator has left.
    fn begin_inspection(&mut self, deadline: Instant, left: Left);

    /// Runs one statement that changes nothing, and returns its first rows.
    fn query_read_only(
        &mut self,
        sql: &str,
        params: Vec<SqlValue>,
        rows_max: usize,
    ) -> Result<SomeRows, SqlError>;

    /// Copies what is committed, all of one moment, to a file that is not there yet. It is no plain
    /// database before `Catalogue::finish_export`.
    fn export_to(&mut self, file: &Path) -> Result<(), StorageFault>;

    /// Gives back memory that only the next statement would use: no event has come for a while. True
    /// if nothing speaks against closing the database until the next one.
    fn rest(&mut self) -> bool;

    /// Moves the WAL into the database file and closes both.
    fn close(self: Box<Self>) -> Result<(), StorageFault>;

    /// Its commits, if they are captured.
    fn capturing(&mut self) -> Option<&mut dyn Capturing> {
        None
    }

    /// Closes a database that is captured, and says beside its file that this is exactly the state
    /// `head`: everything was captured and acknowledged there. Where that cannot be said any more
    /// the file is closed all the same, and not trusted.
    fn close_at(self: Box<Self>, head: Base) -> Result<(), StorageFault> {
        let _ = head;
        self.close()
    }
}
