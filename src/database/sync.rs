//! Making committed data durable: the WAL, and once per connection the database file, whose header
//! no transaction has synced yet. SQLite discards a WAL beside an empty database file.

use std::ffi::c_int;
use std::ptr;

use rusqlite::{Connection, ffi};

/// Syncs the database file.
pub fn sync_main(connection: &Connection) -> Result<(), c_int> {
    sync_file(connection, ffi::SQLITE_FCNTL_FILE_POINTER)
}

/// Syncs the write-ahead log, and on its first sync its directory entry.
pub fn sync_wal(connection: &Connection) -> Result<(), c_int> {
    sync_file(connection, ffi::SQLITE_FCNTL_JOURNAL_POINTER)
}

fn sync_file(connection: &Connection, which: c_int) -> Result<(), c_int> {
    let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
    // SAFETY: the handle lives as long as `connection`; these two operations store a pointer to
    // the connection's own file object, which lives as long, into a variable of that type; its
    // method table is SQLite's and is null only while the file is not open.
    unsafe {
        let code = ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            which,
            (&raw mut file).cast(),
        );
        if code != ffi::SQLITE_OK {
            return Err(code);
        }
        let Some(methods) = file.as_ref().and_then(|file| file.pMethods.as_ref()) else {
            return Ok(());
        };
        match methods.xSync.map(|sync| sync(file, ffi::SQLITE_SYNC_NORMAL)) {
            None | Some(ffi::SQLITE_OK) => Ok(()),
            Some(code) => Err(code),
        }
    }
}

/// Bytes this connection has written to its files' pages, each rewrite counted.
pub fn pages_written(handle: *mut ffi::sqlite3) -> u64 {
    let (mut now, mut highest) = (0, 0);
    // SAFETY: `handle` is an open connection of this thread's caller; both out-parameters live
    // until the call returns, and reading a status changes nothing.
    unsafe {
        ffi::sqlite3_db_status(
            handle,
            ffi::SQLITE_DBSTATUS_CACHE_WRITE,
            &raw mut now,
            &raw mut highest,
            0,
        );
    }
    u64::from(now.unsigned_abs())
}
