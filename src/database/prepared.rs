//! Compiled statements of guests, and the cache of them.
//!
//! Not rusqlite's: it compiles the rest of a text that holds several statements by recursion, one
//! frame each, so a guest's megabyte of `;1;1` would end the process; and it copies each bound
//! value. Guests' statements also must never share a cache with the host's, which were compiled
//! with the host's rights.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use rusqlite::{Connection, ffi};
use wasmkeep_supervisors::limits::STATEMENTS_CACHED;
use wasmkeep_supervisors::ports::SqlValue;

use super::hooks::Traits;

/// A text longer than this is compiled anew each time.
const CACHED_TEXT_BYTES_MAX: usize = 16 * 1024;
/// Memory of all cached statements of a database.
const CACHED_BYTES_MAX: usize = 256 * 1024;

/// What SQLite answered instead of doing it.
#[derive(Debug)]
pub struct Failure {
    /// SQLite's extended result code.
    pub code: c_int,
    pub message: String,
}

impl Failure {
    /// The error SQLite reported last on the connection that `code` came from.
    fn last(db: *mut ffi::sqlite3, code: c_int) -> Self {
        // SAFETY: `db` is open; the message is copied before another call can change it.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(db)) };
        Self { code, message: message.to_string_lossy().into_owned() }
    }

    fn of_memory() -> Self {
        Self { code: ffi::SQLITE_NOMEM, message: "out of memory".into() }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_extended_error_code().unwrap_or(ffi::SQLITE_ERROR);
        Self { code, message: error.to_string() }
    }
}

#[derive(Debug)]
pub enum CompileError {
    /// Nothing but blanks and comments.
    Empty,
    /// More than one statement.
    Several,
    Refused(Failure),
}

pub struct Prepared(NonNull<ffi::sqlite3_stmt>);

// SAFETY: the connection is opened without a mutex and moves between threads together with its
// statements; one thread at a time uses them.
unsafe impl Send for Prepared {}

impl Prepared {
    /// Compiles the one statement in `sql`, which holds no NUL. Finalised when dropped, which
    /// must come before the connection is closed.
    pub fn compile(connection: &Connection, sql: &str) -> Result<Self, CompileError> {
        // SAFETY: the handle is used during this call only.
        let db = unsafe { connection.handle() };
        let start = sql.as_ptr().cast::<c_char>();
        let length = c_int::try_from(sql.len()).map_err(|_| CompileError::Several)?;
        let (mut statement, mut rest) = (ptr::null_mut(), ptr::null());
        // SAFETY: `start` has `length` bytes; both results are written by SQLite, and `rest`
        // points into those bytes.
        let (code, used) = unsafe {
            let flags = ffi::SQLITE_PREPARE_PERSISTENT;
            let code = ffi::sqlite3_prepare_v3(
                db,
                start,
                length,
                flags,
                &raw mut statement,
                &raw mut rest,
            );
            (code, if rest.is_null() { sql.len() } else { rest.offset_from_unsigned(start) })
        };
        if code != ffi::SQLITE_OK {
            return Err(CompileError::Refused(Failure::last(db, code)));
        }
        let prepared = Self(NonNull::new(statement).ok_or(CompileError::Empty)?);
        if is_blank(&sql.as_bytes()[used..]) { Ok(prepared) } else { Err(CompileError::Several) }
    }

    pub fn is_readonly(&self) -> bool {
        // An EXPLAIN reports the answer of the statement it explains, and changes nothing.
        // SAFETY: the statement is alive.
        unsafe {
            ffi::sqlite3_stmt_readonly(self.0.as_ptr()) != 0
                || ffi::sqlite3_stmt_isexplain(self.0.as_ptr()) != 0
        }
    }

    pub fn is_explain(&self) -> bool {
        // SAFETY: the statement is alive.
        unsafe { ffi::sqlite3_stmt_isexplain(self.0.as_ptr()) != 0 }
    }

    pub fn parameters(&self) -> usize {
        // SAFETY: the statement is alive.
        let count = unsafe { ffi::sqlite3_bind_parameter_count(self.0.as_ptr()) };
        usize::try_from(count).unwrap_or_default()
    }

    pub fn columns(&self) -> usize {
        // SAFETY: the statement is alive.
        let count = unsafe { ffi::sqlite3_column_count(self.0.as_ptr()) };
        usize::try_from(count).unwrap_or_default()
    }

    /// Binds `params` and makes ready to step.
    pub fn run<'a>(&'a mut self, params: &'a [SqlValue]) -> Result<Run<'a>, Failure> {
        let run = Run { prepared: self, _params: PhantomData };
        for (index, value) in (1..).zip(params) {
            run.bind(index, value)?;
        }
        Ok(run)
    }

    fn memory_used(&self) -> usize {
        // SAFETY: the statement is alive.
        let bytes =
            unsafe { ffi::sqlite3_stmt_status(self.0.as_ptr(), ffi::SQLITE_STMTSTATUS_MEMUSED, 0) };
        usize::try_from(bytes).unwrap_or_default()
    }

    fn db(&self) -> *mut ffi::sqlite3 {
        // SAFETY: the statement is alive, so its connection is.
        unsafe { ffi::sqlite3_db_handle(self.0.as_ptr()) }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: owned, and not used after this.
        unsafe { ffi::sqlite3_finalize(self.0.as_ptr()) };
    }
}

/// A statement in the middle of its rows. Resets it when dropped, which undoes nothing.
pub struct Run<'a> {
    prepared: &'a Prepared,
    _params: PhantomData<&'a [SqlValue]>,
}

impl Run<'_> {
    /// SQLite keeps the address of a text or blob; it lives until `drop` unbinds it.
    fn bind(&self, index: c_int, value: &SqlValue) -> Result<(), Failure> {
        let statement = self.prepared.0.as_ptr();
        // SAFETY: the statement is alive, and every pointer has the length given beside it and
        // outlives the binding.
        let code = unsafe {
            match value {
                SqlValue::Null => ffi::sqlite3_bind_null(statement, index),
                SqlValue::Integer(number) => ffi::sqlite3_bind_int64(statement, index, *number),
                SqlValue::Real(number) => ffi::sqlite3_bind_double(statement, index, *number),
                SqlValue::Text(text) => ffi::sqlite3_bind_text64(
                    statement,
                    index,
                    text.as_ptr().cast::<c_char>(),
                    text.len() as u64,
                    ffi::SQLITE_STATIC(),
                    ffi::SQLITE_UTF8 as u8,
                ),
                // The pointer of an empty blob is not null, so this is no NULL.
                SqlValue::Blob(bytes) => ffi::sqlite3_bind_blob64(
                    statement,
                    index,
                    bytes.as_ptr().cast::<c_void>(),
                    bytes.len() as u64,
                    ffi::SQLITE_STATIC(),
                ),
            }
        };
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(Failure::last(self.prepared.db(), code)) }
    }

    /// Goes to the next row; false when there is none.
    pub fn step(&mut self) -> Result<bool, Failure> {
        // SAFETY: the statement is alive.
        match unsafe { ffi::sqlite3_step(self.prepared.0.as_ptr()) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => Err(Failure::last(self.prepared.db(), code)),
        }
    }

    pub fn columns(&self) -> usize {
        self.prepared.columns()
    }

    pub fn column_name(&self, column: usize) -> String {
        // SAFETY: the statement is alive; null only without memory. Copied before another call.
        unsafe {
            let name = ffi::sqlite3_column_name(self.prepared.0.as_ptr(), column as c_int);
            if name.is_null() {
                return String::new();
            }
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    /// Bytes of the value in `column` of this row.
    pub fn value_bytes(&self, column: usize) -> usize {
        let (statement, column) = (self.prepared.0.as_ptr(), column as c_int);
        // SAFETY: the statement is alive and on a row.
        unsafe {
            match ffi::sqlite3_column_type(statement, column) {
                ffi::SQLITE_NULL => 0,
                ffi::SQLITE_TEXT | ffi::SQLITE_BLOB => {
                    usize::try_from(ffi::sqlite3_column_bytes(statement, column))
                        .unwrap_or_default()
                }
                _ => 8,
            }
        }
    }

    /// The value in `column` of this row. Text that is not UTF-8, which SQL can make by a cast,
    /// comes as a blob: nothing of it is lost.
    pub fn value(&self, column: usize) -> Result<SqlValue, Failure> {
        let (statement, column) = (self.prepared.0.as_ptr(), column as c_int);
        // SAFETY: the statement is alive and on a row; each pointer has the length asked for
        // after it, and is copied before another call.
        unsafe {
            Ok(match ffi::sqlite3_column_type(statement, column) {
                ffi::SQLITE_INTEGER => {
                    SqlValue::Integer(ffi::sqlite3_column_int64(statement, column))
                }
                ffi::SQLITE_FLOAT => SqlValue::Real(ffi::sqlite3_column_double(statement, column)),
                ffi::SQLITE_NULL => SqlValue::Null,
                ffi::SQLITE_TEXT => {
                    let text = ffi::sqlite3_column_text(statement, column);
                    let bytes = copy(text, ffi::sqlite3_column_bytes(statement, column))?;
                    String::from_utf8(bytes)
                        .map_or_else(|error| SqlValue::Blob(error.into_bytes()), SqlValue::Text)
                }
                _ => {
                    let blob = ffi::sqlite3_column_blob(statement, column).cast::<u8>();
                    SqlValue::Blob(copy(blob, ffi::sqlite3_column_bytes(statement, column))?)
                }
            })
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is alive. Unbinding comes before the params can go.
        unsafe {
            ffi::sqlite3_reset(self.prepared.0.as_ptr());
            ffi::sqlite3_clear_bindings(self.prepared.0.as_ptr());
        }
    }
}

/// A null pointer to bytes means SQLite had no memory for them.
unsafe fn copy(bytes: *const u8, length: c_int) -> Result<Vec<u8>, Failure> {
    match usize::try_from(length) {
        Ok(0) | Err(_) => Ok(Vec::new()),
        Ok(_) if bytes.is_null() => Err(Failure::of_memory()),
        // SAFETY: the caller's promise.
        Ok(length) => Ok(unsafe { std::slice::from_raw_parts(bytes, length) }.to_vec()),
    }
}

/// Whether nothing but blanks, comments and semicolons is left, as SQLite reads them.
fn is_blank(mut sql: &[u8]) -> bool {
    loop {
        sql = match sql {
            [] => return true,
            [b' ' | b'\t' | b'\n' | b'\x0c' | b'\r' | b';', rest @ ..] => rest,
            // A byte order mark.
            [0xef, 0xbb, 0xbf, rest @ ..] => rest,
            [b'-', b'-', rest @ ..] => {
                let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                &rest[end..]
            }
            [b'/', b'*', rest @ ..] => {
                let end = rest.windows(2).position(|pair| pair == b"*/");
                end.map_or(&[][..], |end| &rest[end + 2..])
            }
            _ => return false,
        }
    }
}

/// A statement that waits to be run again.
pub struct Cached {
    hash: u64,
    sql: Box<str>,
    pub prepared: Prepared,
    pub traits: Traits,
    bytes: usize,
    used_at: u64,
}

/// The statements an open database ran last.
#[derive(Default)]
pub struct StatementCache {
    kept: Vec<Cached>,
    clock: u64,
}

impl StatementCache {
    /// Takes the statement out, to be put back after its run.
    pub fn take(&mut self, hash: u64, sql: &str) -> Option<Cached> {
        let at = self.kept.iter().position(|kept| kept.hash == hash && *kept.sql == *sql)?;
        Some(self.kept.swap_remove(at))
    }

    /// Keeps a new statement.
    pub fn add(&mut self, hash: u64, sql: &str, prepared: Prepared, traits: Traits) {
        // What changes the schema runs once.
        if sql.len() > CACHED_TEXT_BYTES_MAX || traits.changes_schema {
            return;
        }
        let bytes = prepared.memory_used() + sql.len();
        let used_at = self.clock;
        self.put(Cached { hash, sql: sql.into(), prepared, traits, bytes, used_at });
    }

    /// Puts a statement back, and drops those unused longest to make room.
    pub fn put(&mut self, mut cached: Cached) {
        self.clock += 1;
        cached.used_at = self.clock;
        self.kept.push(cached);
        while self.kept.len() > STATEMENTS_CACHED
            || self.kept.iter().map(|kept| kept.bytes).sum::<usize>() > CACHED_BYTES_MAX
        {
            let oldest = (0..self.kept.len()).min_by_key(|at| self.kept[*at].used_at);
            self.kept.swap_remove(oldest.expect("not empty: it is over a limit"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_semicolons_may_follow_a_statement() {
        for blank in ["", " ;\n;", "-- done", "-- a\n;/* b */ -- c", "/* open", "\u{feff}", "/**/;"]
        {
            assert!(is_blank(blank.as_bytes()), "{blank:?}");
        }
        for more in ["x", "; SELECT 1", "-- a\nSELECT 1", "/* a */ b", "-", "/", "\0", "\u{a0}"] {
            assert!(!is_blank(more.as_bytes()), "{more:?}");
        }
    }
}
