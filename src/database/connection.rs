//! One open database: how its connection is set up, and the port it implements.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, ffi};
use tokio::time::Instant;
use wasmkeep_supervisors::history::Base;
use wasmkeep_supervisors::limits::{STATEMENT_BYTES_MAX, VALUE_BYTES_MAX};
use wasmkeep_supervisors::ports::{
    Capturing, Database, Left, Meta, OpenError, RowSet, SomeRows, SqlError, SqlValue, StorageFault,
    Syncing,
};

use super::budget::Budget;
use super::capture::Capture;
use super::catalogue::OpenLongName;
use super::copies;
use super::data_dir::DataDir;
use super::failure::is_damage;
use super::files::DatabaseConfig;
use super::functions;
use super::hooks::Hooks;
use super::meta::Identity;
use super::prepared::StatementCache;
use super::statement::Purpose;
use super::{sync, sync_threads};

pub(super) const PAGE_BYTES: u64 = 4096;

/// Pages that the host may write beyond the guest's limit, so that a full actor's alarm can still
/// be set or cleared.
pub(super) const HOST_PAGES: u64 = 16;

/// SQLite's files without locks: the one lock of the data directory stands for all of them, and
/// a second descriptor of a file may be closed without losing anything.
pub(super) const VFS: &std::ffi::CStr = c"unix-none";

/// Before the database is read: without locks there is no shared memory, and so the WAL can only
/// be opened in exclusive mode. Nothing is synced here: a new database costs no fsync, and
/// `sync` makes the file durable before it first says so.
const BEFORE_READING: &str = "
    PRAGMA page_size = 4096;
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA synchronous = OFF;";

/// A journal in memory for the one step before the WAL, which writes the header of a new file.
const NO_JOURNAL_FILE: &str = "PRAGMA journal_mode = MEMORY;";

const SETTINGS: &str = "
    PRAGMA cache_size = -1024;
    PRAGMA temp_store = MEMORY;
    PRAGMA mmap_size = 0;
    PRAGMA auto_vacuum = NONE;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA foreign_keys = ON;
    PRAGMA threads = 0;";

const CONFIG: [(DbConfig, bool); 10] = [
    (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
    (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
    // The checkpoint at the end is ours, to see it fail.
    (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true),
];

const LIMITS: [(Limit, i32); 12] = [
    // A row holds a value of the greatest size and something beside it.
    (Limit::SQLITE_LIMIT_LENGTH, (VALUE_BYTES_MAX + 64 * 1024) as i32),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, STATEMENT_BYTES_MAX as i32),
    (Limit::SQLITE_LIMIT_COLUMN, 500),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    // LIKE and GLOB take time in proportion to text and pattern, and no budget stops them: with
    // this a value of 16 MiB costs seconds at most.
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 32_766),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 32),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// An actor's open database. Dropping it closes the files as they are, WAL included.
pub struct LocalDatabase {
    // In the order in which they must go: statements, connection, hooks.
    pub(super) statements: StatementCache,
    pub(super) connection: Connection,
    pub(super) hooks: Hooks,
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    pub(super) config: DatabaseConfig,
    pub(super) data_dir: Arc<DataDir>,
    /// The database file and its directory entry are known to be on disk.
    pub(super) file_is_durable: bool,
    /// The WAL once more, for fsyncs beside whoever writes.
    pub(super) wal_beside: Option<Arc<std::fs::File>>,
    /// Of those, the ones that have not ended well: until they have, what they are about is not synced.
    pub(super) syncs_beside: Arc<AtomicU32>,
    /// What the host keeps in the database, as read when it was opened; nothing once the host
    /// has written there.
    pub(super) meta: Option<Vec<(String, String)>>,
    /// How far its commits are captured, if they are.
    pub(super) capture: Option<Capture>,
    /// Why the database must not be used any more.
    pub(super) given_up: Option<StorageFault>,
    /// Dropped last: from then on others may look into the file.
    pub(super) long_name: Option<OpenLongName>,
}

/// What was on disk before a database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub file: bool,
    /// The server did not close the database: what it committed last is still in the WAL.
    pub wal: bool,
}

impl LocalDatabase {
    /// Opens the file at `path`, or creates it.
    pub(super) fn open(
        path: PathBuf,
        found: Found,
        identity: Identity,
        config: &DatabaseConfig,
        data_dir: Arc<DataDir>,
    ) -> Result<Self, OpenError> {
        let failed = |error: rusqlite::Error| open_error(&path, &error);
        let connection = connect(&path).map_err(failed)?;
        configure(&connection, found.file, config).map_err(failed)?;
        let budget = Budget::new(config, &connection);
        let hooks = Hooks::new(budget);
        hooks.install(&connection);
        if found.wal {
            let frames = sync::wal_frames(&connection).map_err(failed)?;
            hooks.wal_frames.set(frames);
            hooks.unsynced.set(frames > 0);
        }
        Ok(Self {
            statements: StatementCache::default(),
            connection,
            hooks,
            path,
            identity,
            config: config.clone(),
            data_dir,
            file_is_durable: false,
            wal_beside: None,
            syncs_beside: Arc::default(),
            meta: None,
            capture: config.captured.then(Capture::default),
            given_up: None,
            long_name: None,
        })
    }
}

/// A connection to the file, with nothing read yet.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    connect_with(path, OpenFlags::SQLITE_OPEN_CREATE)
}

/// As `connect`, to a file that must be there.
pub(super) fn connect_existing(path: &Path) -> rusqlite::Result<Connection> {
    connect_with(path, OpenFlags::empty())
}

fn connect_with(path: &Path, more: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = more
        | OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags_and_vfs(path, flags, VFS)
}

fn configure(
    connection: &Connection,
    file_existed: bool,
    of: &DatabaseConfig,
) -> rusqlite::Result<()> {
    connection.execute_batch(BEFORE_READING)?;
    if !file_existed {
        connection.execute_batch(NO_JOURNAL_FILE)?;
        if of.captured {
            copies::begin_as_copy(connection)?;
        }
    }
    to_wal(connection)?;
    connection.execute_batch(SETTINGS)?;
    set_pages_max(connection, of.pages_max())?;
    for (config, on) in CONFIG {
        connection.set_db_config(config, on)?;
    }
    for (limit, value) in LIMITS {
        connection.set_limit(limit, value)?;
    }
    functions::install(connection)
}

pub(super) fn to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    let why = Some(format!("no WAL: the journal mode stays {mode}"));
    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), why))
}

pub(super) fn set_pages_max(connection: &Connection, pages: u64) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("PRAGMA max_page_count = {pages}"))
}

pub(super) fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    if is_damage(error) {
        damaged(path, error)
    } else {
        OpenError::Failed(StorageFault {
            operation: "open",
            path: path.display().to_string(),
            cause: error.to_string(),
        })
    }
}

pub(super) fn damaged(path: &Path, cause: impl Display) -> OpenError {
    OpenError::Damaged { path: path.display().to_string(), cause: cause.to_string() }
}

impl Database for LocalDatabase {
    fn begin_event(&mut self, deadline: Instant) {
        self.hooks.budget.begin_event(deadline.into_std());
    }

    fn end_event(&mut self) -> Result<bool, StorageFault> {
        self.usable()?;
        let was_open = self.in_transaction();
        if was_open {
            self.roll_back()?;
        }
        self.checkpoint_if_long()?;
        Ok(was_open)
    }

    fn exec(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError> {
        self.run(sql, &params, Purpose::Exec).map(|answer| answer.changed)
    }

    fn exec_before_sync(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError> {
        self.run(sql, &params, Purpose::ExecBeforeSync).map(|answer| answer.changed)
    }

    fn query(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<RowSet, SqlError> {
        self.run(sql, &params, Purpose::Query).map(|answer| answer.rows)
    }

    fn in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    fn sync(&mut self) -> Result<(), StorageFault> {
        self.make_durable()
    }

    fn syncs_beside(&self) -> bool {
        self.syncs_wal_alone()
    }

    fn sync_beside(&mut self) -> Option<Syncing> {
        self.sync_wal_beside()
    }

    fn sync_in_turn(&mut self) -> Option<Syncing> {
        if sync_threads::is_busy() { self.sync_wal_beside() } else { None }
    }

    fn meta(&mut self, key: Meta) -> Result<Option<String>, StorageFault> {
        self.read_meta(key)
    }

    fn set_meta(&mut self, key: Meta, value: Option<&str>) -> Result<(), StorageFault> {
        self.write_meta(key, value)
    }

    fn begin_inspection(&mut self, deadline: Instant, left: Left) {
        self.hooks.budget.begin_inspection(deadline.into_std(), left);
    }

    fn query_read_only(
        &mut self,
        sql: &str,
        params: Vec<SqlValue>,
        rows_max: usize,
    ) -> Result<SomeRows, SqlError> {
        self.run_read_only(sql, &params, rows_max)
    }

    fn export_to(&mut self, file: &Path) -> Result<(), StorageFault> {
        self.copy_to(file)
    }

    fn rest(&mut self) -> bool {
        // The pages are in the kernel's cache, where the next statement finds them. Nothing hangs on
        // whether it succeeds.
        let _ = self.connection.release_memory();
        self.may_be_closed()
    }

    fn close(self: Box<Self>) -> Result<(), StorageFault> {
        self.close_files()
    }

    fn capturing(&mut self) -> Option<&mut dyn Capturing> {
        if self.capture.is_some() { Some(self) } else { None }
    }

    fn close_at(self: Box<Self>, head: Base) -> Result<(), StorageFault> {
        self.close_trusted(head)
    }
}
