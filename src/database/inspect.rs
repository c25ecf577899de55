//! What an operator reads of one actor's database: a statement that changes nothing, and a copy of
//! the whole as a plain SQLite file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use wasmkeep_supervisors::limits::RESULT_BYTES_MAX;
use wasmkeep_supervisors::ports::{RowSet, SomeRows, SqlError, SqlValue, StorageFault};

use super::connection::{LocalDatabase, connect_existing};
use super::off_runtime::off_runtime;
use super::prepared::Prepared;
use super::statement::{Stop, VALUE_OVERHEAD_BYTES, check_params, check_sizes};

/// The copy says that it has a WAL, as its original does; without locks such a file opens in
/// exclusive mode only. Nothing else knows of it yet, so it needs no journal on disk.
const BEFORE_READING: &str = "
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA synchronous = OFF;
    PRAGMA trusted_schema = OFF;
    PRAGMA foreign_keys = OFF;";
/// In exclusive mode a journal's file would be kept. Bytes of what is dropped must not stay behind
/// in free pages.
const BEFORE_DROPPING: &str = "
    PRAGMA journal_mode = DELETE;
    PRAGMA locking_mode = NORMAL;
    SELECT count(*) FROM sqlite_schema;
    PRAGMA journal_mode = MEMORY;
    PRAGMA secure_delete = ON;";
const HOSTS_TABLES: &str = "SELECT name FROM sqlite_schema \
                            WHERE type = 'table' AND name LIKE '\\_wk\\_%' ESCAPE '\\'";

impl LocalDatabase {
    /// Runs one statement with a guest's rights, if it changes nothing.
    pub(super) fn run_read_only(
        &mut self,
        sql: &str,
        params: &[SqlValue],
        rows_max: usize,
    ) -> Result<SomeRows, SqlError> {
        self.usable().map_err(|fault| SqlError::Internal(fault.to_string()))?;
        check_sizes(sql, params)?;
        self.hooks.budget.admit()?;
        off_runtime(|| {
            self.charged(|database| {
                let mut prepared = database.compile(sql)?;
                let control = database.hooks.gate.traits().control;
                if !prepared.is_readonly() || (control.is_some() && !prepared.is_explain()) {
                    let why = "only statements that change nothing are run here";
                    return Err(SqlError::NotAllowed(why.into()).into());
                }
                check_params(&prepared, params)?;
                first_rows(&mut prepared, params, rows_max)
            })
        })
    }

    /// Copies everything committed to a new file.
    pub(super) fn copy_to(&mut self, file: &Path) -> Result<(), StorageFault> {
        self.usable()?;
        off_runtime(|| copy(&self.connection, file)).map_err(|cause| export_fault(file, cause))
    }
}

fn first_rows(
    prepared: &mut Prepared,
    params: &[SqlValue],
    rows_max: usize,
) -> Result<SomeRows, Stop> {
    let mut run = prepared.run(params)?;
    // The first step may compile the statement anew, and so change its columns.
    let mut on_row = run.step()?;
    let width = run.columns();
    let columns = (0..width).map(|column| run.column_name(column)).collect();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while on_row && rows.len() < rows_max {
        bytes += (0..width).map(|at| VALUE_OVERHEAD_BYTES + run.value_bytes(at)).sum::<usize>();
        if bytes > RESULT_BYTES_MAX {
            break;
        }
        rows.push((0..width).map(|column| run.value(column)).collect::<Result<Vec<_>, _>>()?);
        on_row = run.step()?;
    }
    Ok(SomeRows { set: RowSet { columns, rows }, cut: on_row })
}

fn copy(from: &Connection, file: &Path) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .map_err(|error| error.to_string())?;
    let mut to = connect_existing(file).map_err(text)?;
    to.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;").map_err(text)?;
    let backup = Backup::new(from, &mut to).map_err(text)?;
    // In one step: nobody writes meanwhile, for nobody else has the actor's turn.
    match backup.step(-1).map_err(text)? {
        StepResult::Done => Ok(()),
        other => Err(format!("the copy was not finished: {other:?}")),
    }
}

/// Makes a plain SQLite file of a copy.
pub(super) fn finish(file: &Path) -> Result<(), StorageFault> {
    off_runtime(|| {
        to_plain(file).map_err(|error| error.to_string())?;
        File::open(file).and_then(|file| file.sync_all()).map_err(|error| error.to_string())
    })
    .map_err(|cause| export_fault(file, cause))
}

fn to_plain(file: &Path) -> rusqlite::Result<()> {
    let connection = connect_existing(file)?;
    connection.execute_batch(BEFORE_READING)?;
    connection.execute_batch(BEFORE_DROPPING)?;
    let tables = connection
        .prepare(HOSTS_TABLES)?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    for table in tables {
        connection.execute_batch(&format!("DROP TABLE \"{}\"", table.replace('"', "\"\"")))?;
    }
    connection.execute_batch("PRAGMA application_id = 0")?;
    let check: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if check != "ok" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(code, Some(check)));
    }
    connection.close().map_err(|(_, error)| error)
}

fn export_fault(file: &Path, cause: String) -> StorageFault {
    StorageFault { operation: "export to", path: file.display().to_string(), cause }
}
