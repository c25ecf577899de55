//! SQLite's own handles of an open database's two files: the one place that calls what is below its
//! SQL.
//!
//! Through them an error of any write since the file was opened is seen, and the log is read without
//! a descriptor more.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use rusqlite::{Connection, ffi};

/// One of the two files behind a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    Main,
    Wal,
}

/// Has the kernel put the file on disk.
pub(super) fn sync(connection: &Connection, file: File) -> Result<(), String> {
    let (handle, methods) = open_file(connection, file)?;
    let sync = methods.xSync.ok_or_else(|| result_text(ffi::SQLITE_MISUSE))?;
    // SAFETY: SQLite's own method on its own open file (`open_file`), called the way SQLite does.
    done(unsafe { sync(handle.as_ptr(), ffi::SQLITE_SYNC_NORMAL) })
}

/// Fills `to` with the file's bytes from `offset` on.
pub(super) fn read(
    connection: &Connection,
    file: File,
    offset: u64,
    to: &mut [u8],
) -> Result<(), String> {
    let (handle, methods) = open_file(connection, file)?;
    let read = methods.xRead.ok_or_else(|| result_text(ffi::SQLITE_MISUSE))?;
    let length = c_int::try_from(to.len()).map_err(|_| "too much at once".to_owned())?;
    let offset = i64::try_from(offset).map_err(|_| "an offset past any file".to_owned())?;
    // SAFETY: SQLite's own method on its own open file (`open_file`); it writes `length` bytes, which
    // is how long `to` is, and zeroes what the file does not have.
    done(unsafe { read(handle.as_ptr(), to.as_mut_ptr().cast::<c_void>(), length, offset) })
}

/// Writes `bytes` over what the file has at `offset`.
pub(super) fn write(
    connection: &Connection,
    file: File,
    offset: u64,
    bytes: &[u8],
) -> Result<(), String> {
    let (handle, methods) = open_file(connection, file)?;
    let write = methods.xWrite.ok_or_else(|| result_text(ffi::SQLITE_MISUSE))?;
    let length = c_int::try_from(bytes.len()).map_err(|_| "too much at once".to_owned())?;
    let offset = i64::try_from(offset).map_err(|_| "an offset past any file".to_owned())?;
    // SAFETY: SQLite's own method on its own open file (`open_file`); it reads `length` bytes, which
    // is how many there are.
    done(unsafe { write(handle.as_ptr(), bytes.as_ptr().cast::<c_void>(), length, offset) })
}

/// The handle of a file, which SQLite has open, and what can be done with it. Both are good until the
/// connection is used for anything else.
fn open_file(
    connection: &Connection,
    file: File,
) -> Result<(NonNull<ffi::sqlite3_file>, &ffi::sqlite3_io_methods), String> {
    let what = match file {
        File::Main => ffi::SQLITE_FCNTL_FILE_POINTER,
        File::Wal => ffi::SQLITE_FCNTL_JOURNAL_POINTER,
    };
    let mut handle: *mut ffi::sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open and used by this thread only. With these two codes SQLite writes
    // one pointer, to a file it owns.
    done(unsafe {
        let result: *mut *mut ffi::sqlite3_file = &raw mut handle;
        let main = c"main".as_ptr();
        ffi::sqlite3_file_control(connection.handle(), main, what, result.cast::<c_void>())
    })?;
    let handle = NonNull::new(handle).ok_or_else(|| result_text(ffi::SQLITE_MISUSE))?;
    // SAFETY: not null, so a file of SQLite's; its methods are null when it is not open, else static.
    let methods = unsafe { handle.as_ref().pMethods.as_ref() };
    methods.map(|methods| (handle, methods)).ok_or_else(|| result_text(ffi::SQLITE_MISUSE))
}

fn done(code: c_int) -> Result<(), String> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(result_text(code)) }
}

fn result_text(code: c_int) -> String {
    let cause = std::io::Error::last_os_error();
    format!("{} ({cause})", ffi::code_to_str(code))
}
