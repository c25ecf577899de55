//! Opens an actor's database as a sandboxed, budgeted connection, and closes it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, OptionalExtension, ffi};
use tokio::time::Instant;
use wasmkeep_supervisors::address::Address;
use wasmkeep_supervisors::limits::{
    STATEMENT_BYTES_MAX, STATEMENTS_CACHED, VALUE_BYTES_MAX,
};
use wasmkeep_supervisors::ports::{Database, Meta, OpenError, RowSet, SqlError, SqlValue, StorageFault};

use super::budget::Budget;
use super::files::DatabaseConfig;
use super::sync::{pages_written, sync_main, sync_wal};
use super::{off_worker, sandbox};

pub const PAGE_BYTES: u64 = 4096;
/// Pages the host may use beyond a guest's limit, so that a full actor still keeps its state.
const HOST_PAGES: u64 = 16;
/// A larger WAL is moved into the database at the end of an event.
const WAL_PAGES_AFTER_EVENT: u32 = 1024;
/// A larger WAL is moved into the database when it is closed; a smaller one is read at the next
/// opening, which is cheaper than the syncs of a checkpoint.
const WAL_PAGES_AT_CLOSE: u32 = 64;
/// Virtual-machine steps between two looks at the budgets.
const STEPS_PER_LOOK: i32 = 4000;
const FORMAT: &str = "1";
/// No file locks: the data directory's lock already keeps others out.
const VFS: &str = "unix-none";

/// What the connection's hooks and its owner share.
pub struct Hooks {
    /// The host's own statement is running: the sandbox does not apply.
    pub host: AtomicBool,
    /// Why the sandbox refused the last statement it refused.
    pub refused: Mutex<Option<String>>,
    /// Pages in the WAL after the last commit.
    wal_pages: AtomicU32,
    pub budget: Budget,
}

pub struct LocalDatabase {
    pub connection: Connection,
    pub hooks: Arc<Hooks>,
    path: PathBuf,
    pages_max: u64,
    main_synced: bool,
    /// The files failed: nothing more is asked of them.
    pub failed: bool,
}

impl LocalDatabase {
    /// Opens the file, or makes a new database of this actor.
    pub fn open(
        path: PathBuf,
        address: &Address,
        config: &DatabaseConfig,
    ) -> Result<Self, OpenError> {
        let connection = connect(&path).map_err(|error| open_error(&path, &error))?;
        let pages_max = config.bytes_max as u64 / PAGE_BYTES;
        let written_max = config.event_written_bytes_max as u64;
        let hooks = Arc::new(Hooks {
            host: AtomicBool::new(true),
            refused: Mutex::default(),
            wal_pages: AtomicU32::new(0),
            budget: Budget::new(config.sql_cpu_budget, written_max),
        });
        let mut database =
            Self { connection, hooks, path, pages_max, main_synced: false, failed: false };
        database
            .set_up()
            .and_then(|()| database.host(|connection| identify(connection, address)))
            .map_err(|error| open_error(&database.path, &error))?
            .map_err(|cause| OpenError::Damaged {
                path: database.path.display().to_string(),
                cause,
            })?;
        Ok(database)
    }

    fn set_up(&mut self) -> rusqlite::Result<()> {
        self.limit_pages(self.pages_max)?;
        let hooks = Arc::clone(&self.hooks);
        self.connection.authorizer(Some(move |context: AuthContext<'_>| {
            if hooks.host.load(Ordering::Relaxed) {
                return Authorization::Allow;
            }
            match sandbox::refusal(&context) {
                None => Authorization::Allow,
                Some(why) => {
                    *hooks.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                    Authorization::Deny
                }
            }
        }))?;
        let hooks = Arc::clone(&self.hooks);
        self.connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            hooks.wal_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        let hooks = Arc::clone(&self.hooks);
        let handle = self.raw();
        self.connection.progress_handler(
            STEPS_PER_LOOK,
            Some(move || hooks.budget.is_spent(handle.bytes_written())),
        )
    }

    fn raw(&self) -> Raw {
        // SAFETY: the handle is used by hooks of this connection only, which end with it.
        Raw(unsafe { self.connection.handle() })
    }

    pub fn bytes_written(&self) -> u64 {
        self.raw().bytes_written()
    }

    fn limit_pages(&self, pages: u64) -> rusqlite::Result<()> {
        self.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
    }

    /// Runs the host's own statements, with some room beyond the guest's limit.
    fn host<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.hooks.host.store(true, Ordering::Relaxed);
        let result = self
            .limit_pages(self.pages_max + HOST_PAGES)
            .and_then(|()| work(&self.connection))
            .and_then(|value| self.limit_pages(self.pages_max).map(|()| value));
        self.hooks.host.store(false, Ordering::Relaxed);
        result
    }

    /// Moves the WAL into the database file and empties it.
    fn checkpoint(&mut self) -> Result<(), StorageFault> {
        let moved = off_worker(|| {
            self.hooks.host.store(true, Ordering::Relaxed);
            let moved = self
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
            self.hooks.host.store(false, Ordering::Relaxed);
            moved
        });
        match moved {
            Ok(0) => {
                self.hooks.wal_pages.store(0, Ordering::Relaxed);
                Ok(())
            }
            // A reader of ours would have to be open: then the WAL simply stays.
            Ok(_) => Ok(()),
            Err(error) => Err(self.fault("checkpointing", &error)),
        }
    }

    pub fn fault(&mut self, operation: &'static str, cause: &dyn std::fmt::Display) -> StorageFault {
        self.failed = true;
        StorageFault { operation, path: self.path.display().to_string(), cause: cause.to_string() }
    }

    fn wal_pages(&self) -> u32 {
        self.hooks.wal_pages.load(Ordering::Relaxed)
    }
}

/// A connection's handle, for hooks that run inside its own calls.
#[derive(Clone, Copy)]
struct Raw(*mut ffi::sqlite3);

// SAFETY: hooks run on whichever thread is inside a call of the connection, one at a time.
unsafe impl Send for Raw {}

impl Raw {
    fn bytes_written(self) -> u64 {
        pages_written(self.0) * PAGE_BYTES
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags_and_vfs(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_EXRESCODE
            | OpenFlags::SQLITE_OPEN_NOFOLLOW,
        VFS,
    )?;
    // The order matters: the page size before the first write, exclusive locking before WAL (the
    // WAL's index is then kept on the heap, with no -shm file), and no sync for the switch to
    // WAL itself: `sync` sees to the file's first one.
    connection.execute_batch(
        "PRAGMA page_size = 4096;
         PRAGMA locking_mode = EXCLUSIVE;
         PRAGMA synchronous = OFF;
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA cache_size = -1024;
         PRAGMA temp_store = MEMORY;
         PRAGMA mmap_size = 0;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA foreign_keys = ON;",
    )?;
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
    ] {
        connection.set_db_config(config, on)?;
    }
    let bytes = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    for (limit, most) in [
        // Room for the record around a value of the largest size.
        (Limit::SQLITE_LIMIT_LENGTH, bytes(VALUE_BYTES_MAX) + 64 * 1024),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, bytes(STATEMENT_BYTES_MAX)),
        (Limit::SQLITE_LIMIT_COLUMN, 500),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
        (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 32_766),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 32),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok(connection)
}

/// Checks that the file is this actor's, or makes a new one so. The inner error says why not.
fn identify(connection: &Connection, address: &Address) -> rusqlite::Result<Result<(), String>> {
    let expected = [
        ("format", FORMAT),
        ("tenant", address.tenant.as_str()),
        ("class", address.class.as_str()),
        ("name", address.name.as_str()),
    ];
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        connection.execute_batch(
            "BEGIN; CREATE TABLE _wk_meta (k TEXT PRIMARY KEY, v TEXT NOT NULL) WITHOUT ROWID;",
        )?;
        for (key, value) in expected {
            connection.execute("INSERT INTO _wk_meta VALUES (?, ?)", [key, value])?;
        }
        connection.execute_batch("COMMIT")?;
        return Ok(Ok(()));
    }
    for (key, value) in expected {
        let found = connection
            .query_row("SELECT v FROM _wk_meta WHERE k = ?", [key], |row| row.get::<_, String>(0))
            .optional();
        match found {
            Ok(Some(found)) if found == value => {}
            Ok(Some(found)) => return Ok(Err(format!("its {key} is {found:?}, not {value:?}"))),
            Ok(None) => return Ok(Err(format!("it does not say its {key}"))),
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::Unknown) => {
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(()))
}

fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode;
    let (path, cause) = (path.display().to_string(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            OpenError::Damaged { path, cause }
        }
        _ => OpenError::Failed(StorageFault { operation: "opening", path, cause }),
    }
}

impl Database for LocalDatabase {
    fn begin_event(&mut self, deadline: Instant) {
        self.hooks.budget.begin_event(deadline.into_std(), self.bytes_written());
    }

    fn end_event(&mut self) -> Result<bool, StorageFault> {
        if self.failed {
            return Err(self.fault("using", &"it failed earlier in this event"));
        }
        let open = self.in_transaction();
        if open && let Err(error) = self.host(|connection| connection.execute_batch("ROLLBACK")) {
            return Err(self.fault("rolling back", &error));
        }
        if self.wal_pages() >= WAL_PAGES_AFTER_EVENT {
            self.checkpoint()?;
        }
        Ok(open)
    }

    fn exec(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError> {
        self.run_exec(sql, params)
    }

    fn exec_before_sync(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError> {
        if self.in_transaction() && sandbox::kind(sql) != sandbox::Kind::Commit {
            return Err(SqlError::NotAllowed(
                "inside a transaction exec-durable takes only COMMIT or END: run the other \
                 statements with exec"
                    .into(),
            ));
        }
        self.run_exec(sql, params)
    }

    fn query(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<RowSet, SqlError> {
        self.run_query(sql, params)
    }

    fn in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    fn sync(&mut self) -> Result<(), StorageFault> {
        let main_synced = self.main_synced;
        let connection = &self.connection;
        let synced = off_worker(|| {
            if !main_synced {
                sync_main(connection)?;
            }
            sync_wal(connection)
        });
        match synced {
            Ok(()) => {
                self.main_synced = true;
                Ok(())
            }
            Err(code) => Err(self.fault("syncing", &ffi::code_to_str(code))),
        }
    }

    fn meta(&mut self, key: Meta) -> Result<Option<String>, StorageFault> {
        let read = self.host(|connection| {
            connection
                .prepare_cached("SELECT v FROM _wk_meta WHERE k = ?")?
                .query_row([key.key()], |row| row.get(0))
                .optional()
        });
        read.map_err(|error| self.fault("reading", &error))
    }

    fn set_meta(&mut self, key: Meta, value: &str) -> Result<(), StorageFault> {
        let written = self.host(|connection| {
            connection
                .prepare_cached("INSERT OR REPLACE INTO _wk_meta VALUES (?, ?)")?
                .execute([key.key(), value])
        });
        written.map(|_| ()).map_err(|error| self.fault("writing", &error))
    }

    fn close(mut self: Box<Self>) -> Result<(), StorageFault> {
        if self.failed {
            return Ok(());
        }
        if self.wal_pages() >= WAL_PAGES_AT_CLOSE {
            self.checkpoint()?;
        }
        Ok(())
    }
}
