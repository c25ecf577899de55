//! Runs one guest statement under the sandbox and the budgets, and says what became of it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Error, ErrorCode, Row, ToSql, ffi};
use wasmkeep_supervisors::limits::{RESULT_BYTES_MAX, VALUE_BYTES_MAX};
use wasmkeep_supervisors::ports::{ConstraintKind, RowSet, SqlError, SqlValue};

use super::budget::Spent;
use super::connection::LocalDatabase;
use super::off_worker;
use super::sandbox::{Kind, kind};

/// A statement that once took longer is run off the worker from then on.
const SLOW: Duration = Duration::from_millis(2);
/// Marks of slow statements, by a hash of their text; a collision costs microseconds.
const SLOW_MARKS: usize = 8192;
static SLOW_STATEMENTS: [AtomicBool; SLOW_MARKS] = [const { AtomicBool::new(false) }; SLOW_MARKS];
/// What a value counts for beside its text or blob.
const VALUE_OVERHEAD_BYTES: usize = 8;

impl LocalDatabase {
    pub fn run_exec(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<u64, SqlError> {
        self.run(sql, params, |database, statement| {
            let before = database.connection.total_changes();
            let mut rows = statement.raw_query();
            while rows.next()?.is_some() {}
            drop(rows);
            // `changes` keeps the number of the last write, so it counts only if there was one.
            let changed = database.connection.total_changes() != before;
            Ok(if changed { database.connection.changes() } else { 0 })
        })
    }

    pub fn run_query(&mut self, sql: &str, params: Vec<SqlValue>) -> Result<RowSet, SqlError> {
        if kind(sql) != Kind::Ordinary {
            return Err(SqlError::NotAllowed(
                "query does not control transactions: run this statement with exec".into(),
            ));
        }
        self.run(sql, params, |_, statement| {
            if !statement.readonly() && statement.column_count() == 0 {
                return Err(Stopped::Refused(SqlError::NotAllowed(
                    "query takes reads, and writes with a RETURNING clause: run this statement \
                     with exec"
                        .into(),
                )));
            }
            let columns: Vec<String> =
                statement.column_names().into_iter().map(str::to_owned).collect();
            let mut bytes: usize = columns.iter().map(String::len).sum();
            let mut set = RowSet { columns, rows: Vec::new() };
            let width = set.columns.len();
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                set.rows.push(read_row(row, width, &mut bytes)?);
            }
            Ok(set)
        })
    }

    /// What both share: checks, budgets, and the meaning of failures.
    fn run<T>(
        &mut self,
        sql: &str,
        params: Vec<SqlValue>,
        work: impl FnOnce(&Self, &mut CachedStatement<'_>) -> Result<T, Stopped>,
    ) -> Result<T, SqlError> {
        if self.failed {
            return Err(SqlError::Internal("the database failed earlier in this event".into()));
        }
        self.check_budget(sql)?;
        check_params(&params)?;
        let mark = &SLOW_STATEMENTS[hash(sql) % SLOW_MARKS];
        let began = Instant::now();
        self.hooks.budget.begin_statement();
        let execute = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let expected = statement.parameter_count();
            if expected != params.len() {
                return Err(Stopped::Refused(SqlError::Invalid(format!(
                    "the statement has {expected} parameters, and {} values were given",
                    params.len()
                ))));
            }
            for (at, value) in params.iter().enumerate() {
                statement.raw_bind_parameter(at + 1, Bound(value))?;
            }
            work(self, &mut statement)
        };
        let result = if mark.load(Ordering::Relaxed) { off_worker(execute) } else { execute() };
        self.hooks.budget.end_statement(self.bytes_written());
        if began.elapsed() > SLOW {
            mark.store(true, Ordering::Relaxed);
        }
        result.map_err(|stopped| match stopped {
            Stopped::Refused(error) => error,
            Stopped::Failed(error) => self.meaning(&error),
        })
    }

    /// An event that has used up a budget runs no more statements it would count against. What it
    /// wrote within the budget may still be committed, and anything may be rolled back.
    fn check_budget(&self, sql: &str) -> Result<(), SqlError> {
        match self.hooks.budget.spent() {
            None => Ok(()),
            Some(_) if kind(sql) != Kind::Ordinary => Ok(()),
            // Reads still work; a write that follows is told by the statement itself.
            Some(Spent::Written) if self.is_read(sql) => Ok(()),
            Some(spent) => Err(quota(spent)),
        }
    }

    fn is_read(&self, sql: &str) -> bool {
        self.connection.prepare_cached(sql).is_ok_and(|statement| statement.readonly())
    }

    /// What a failure of SQLite means for the guest.
    fn meaning(&mut self, error: &Error) -> SqlError {
        let (code, message) = match error {
            Error::SqliteFailure(code, message) => {
                (*code, message.clone().unwrap_or_else(|| code.to_string()))
            }
            Error::SqlInputError { error, msg, .. } => (*error, msg.clone()),
            Error::MultipleStatement => {
                return SqlError::Invalid("one call runs one statement; several were given".into());
            }
            Error::Empty => return SqlError::Invalid("there is no statement".into()),
            other => return SqlError::Invalid(other.to_string()),
        };
        match code.code {
            ErrorCode::ConstraintViolation => {
                SqlError::Constraint { kind: constraint(code.extended_code), message }
            }
            ErrorCode::OperationInterrupted => match self.hooks.budget.spent() {
                Some(spent) => quota(spent),
                None => SqlError::QuotaExceeded("the statement was stopped".into()),
            },
            ErrorCode::AuthorizationForStatementDenied => SqlError::NotAllowed(
                self.hooks
                    .refused
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take()
                    .unwrap_or(message),
            ),
            ErrorCode::TooBig => SqlError::QuotaExceeded(
                "a value is larger than 16 MiB, or the statement's text than 1 MiB".into(),
            ),
            ErrorCode::DiskFull if !self.disk_is_full() => {
                SqlError::QuotaExceeded("the database has reached its size limit (1 GiB)".into())
            }
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::ReadOnly => {
                tracing::error!(%error, "database failed");
                self.failed = true;
                SqlError::Internal("the database failed; see the server's log".into())
            }
            _ => SqlError::Invalid(message),
        }
    }

    fn disk_is_full(&self) -> bool {
        // SAFETY: the handle lives as long as the connection, and this only reads a number.
        unsafe { ffi::sqlite3_system_errno(self.connection.handle()) == libc::ENOSPC }
    }
}

/// Why a statement did not run to its end.
enum Stopped {
    Refused(SqlError),
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn read_row(row: &Row<'_>, width: usize, bytes: &mut usize) -> Result<Vec<SqlValue>, Stopped> {
    let mut values = Vec::with_capacity(width);
    for column in 0..width {
        let value = row.get_ref(column)?;
        *bytes += VALUE_OVERHEAD_BYTES
            + match value {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
                _ => 0,
            };
        if *bytes > RESULT_BYTES_MAX {
            return Err(Stopped::Refused(SqlError::QuotaExceeded(
                "the result is larger than 16 MiB: read it in pages".into(),
            )));
        }
        values.push(match value {
            ValueRef::Null => SqlValue::Null,
            ValueRef::Integer(integer) => SqlValue::Integer(integer),
            ValueRef::Real(real) => SqlValue::Real(real),
            // SQLite keeps any bytes as text (`CAST(x'ff' AS TEXT)`); WIT strings are UTF-8, so
            // what is not comes out as the blob it is.
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => SqlValue::Text(text.to_owned()),
                Err(_) => SqlValue::Blob(bytes.to_vec()),
            },
            ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
        });
    }
    Ok(values)
}

struct Bound<'a>(&'a SqlValue);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Integer(integer) => ValueRef::Integer(*integer),
            SqlValue::Real(real) => ValueRef::Real(*real),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}

fn check_params(params: &[SqlValue]) -> Result<(), SqlError> {
    let too_large = |value: &SqlValue| match value {
        SqlValue::Text(text) => text.len() > VALUE_BYTES_MAX,
        SqlValue::Blob(blob) => blob.len() > VALUE_BYTES_MAX,
        _ => false,
    };
    match params.iter().position(too_large) {
        None => Ok(()),
        Some(at) => Err(SqlError::QuotaExceeded(format!(
            "parameter {} is larger than 16 MiB",
            at + 1
        ))),
    }
}

fn quota(spent: Spent) -> SqlError {
    SqlError::QuotaExceeded(
        match spent {
            Spent::Cpu => "this event's SQL has used up its CPU budget (--sql-cpu-budget-ms)",
            Spent::Wall => "this event has used up its wall time",
            Spent::Written => "this event has written 256 MiB, the most one event may",
        }
        .into(),
    )
}

fn constraint(extended: i32) -> ConstraintKind {
    match extended {
        ffi::SQLITE_CONSTRAINT_UNIQUE => ConstraintKind::Unique,
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
            ConstraintKind::PrimaryKey
        }
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ConstraintKind::ForeignKey,
        ffi::SQLITE_CONSTRAINT_NOTNULL => ConstraintKind::NotNull,
        ffi::SQLITE_CONSTRAINT_CHECK => ConstraintKind::Check,
        _ => ConstraintKind::Other,
    }
}

fn hash(sql: &str) -> usize {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(sql) as usize
}
