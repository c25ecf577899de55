//! What makes committed data survive a power cut, and what keeps the WAL short.
//!
//! A commit only appends to the WAL; nothing is synced. `make_durable` syncs the WAL, and once per
//! connection also the database file (SQLite discards a WAL beside an empty database) and the
//! directories that lead to it. A checkpoint syncs the WAL before it moves the pages, and the
//! database before it empties the WAL. A failed fsync is never tried again: the kernel may have
//! dropped the pages and would say that all is well, so the database is given up.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use wasmkeep_supervisors::ports::StorageFault;

use super::connection::LocalDatabase;
use super::failure::is_disk_full;
use super::off_runtime::{off_runtime, off_runtime_if};
use super::sqlite_file;
pub(super) use super::sqlite_file::File;

/// A WAL of so many pages (4 MiB) is moved into the database at the end of the event.
const WAL_PAGES_AFTER_EVENT: u32 = 1024;

/// A WAL of so many pages is moved into the database when it is closed. A shorter one is read
/// at the next opening, which costs less than the two fsyncs of a checkpoint.
const WAL_PAGES_AT_CLOSE: u32 = 64;

impl LocalDatabase {
    /// Returns once everything committed is on disk.
    pub(super) fn make_durable(&mut self) -> Result<(), StorageFault> {
        self.usable()?;
        let is_doubted = self.data_dir.is_doubted(&self.path);
        if !self.hooks.unsynced.get() && !is_doubted {
            return Ok(());
        }
        off_runtime(|| {
            if is_doubted {
                self.write_anew()?;
            }
            self.sync_files()
        })?;
        self.hooks.unsynced.set(false);
        Ok(())
    }

    /// What is read back now goes into the database file once more, as new writes, whose fsync
    /// tells the truth: a frame lost before this one would end the WAL there.
    fn write_anew(&mut self) -> Result<(), StorageFault> {
        self.checkpoint()?;
        if self.hooks.wal_frames.get() > 0 {
            let fault = self.fault("write anew", "the disk is full");
            return Err(self.give_up(fault));
        }
        self.data_dir.trust(&self.path);
        Ok(())
    }

    fn sync_files(&mut self) -> Result<(), StorageFault> {
        if !self.file_is_durable {
            self.sync_file(File::Main)?;
        }
        self.sync_file(File::Wal)?;
        if !self.file_is_durable {
            // After the WAL, whose own directory entry is in the same place.
            if let Err(cause) = self.data_dir.sync_entry(&self.path) {
                let fault = self.fault("sync the directory of", cause);
                return Err(self.give_up(fault));
            }
            self.file_is_durable = true;
        }
        Ok(())
    }

    fn sync_file(&mut self, file: File) -> Result<(), StorageFault> {
        sync_file(&self.connection, file).map_err(|cause| {
            self.data_dir.doubt(&self.path);
            let fault = self.fault("sync", cause);
            self.give_up(fault)
        })
    }

    pub(super) fn checkpoint_if_long(&mut self) -> Result<(), StorageFault> {
        if self.hooks.wal_frames.get() < WAL_PAGES_AFTER_EVENT {
            return Ok(());
        }
        if self.capture.is_some() {
            return self.checkpoint_captured().map(drop);
        }
        off_runtime(|| {
            self.checkpoint()?;
            // Old frames must not come back under the new ones: SQLite syncs the header of a
            // WAL that starts again, but not with `synchronous = OFF`.
            self.sync_file(File::Wal)
        })
    }

    /// Moves the whole WAL into the database file, both synced, and empties it.
    pub(super) fn checkpoint(&mut self) -> Result<(), StorageFault> {
        match self.hooks.as_host(|| checkpoint(&self.connection)) {
            Ok(()) => self.hooks.wal_frames.set(0),
            // The pages stay in the WAL until there is room; nothing is lost by that.
            Err(error) if is_disk_full(&error) => return Ok(()),
            Err(error) => {
                self.data_dir.doubt(&self.path);
                let fault = self.fault("checkpoint", error);
                return Err(self.give_up(fault));
            }
        }
        // The directories may still be unsynced, so `file_is_durable` stays.
        if self.file_is_durable {
            self.hooks.unsynced.set(false);
        }
        Ok(())
    }

    pub(super) fn roll_back(&mut self) -> Result<(), StorageFault> {
        let rolled_back = self.hooks.as_host(|| self.connection.execute_batch("ROLLBACK"));
        rolled_back.map_err(|error| {
            let fault = self.fault("roll back", error);
            self.give_up(fault)
        })
    }

    /// Closes the files, with no more beside the database than a short WAL.
    pub(super) fn close_files(mut self) -> Result<(), StorageFault> {
        self.usable()?;
        if !self.connection.is_autocommit() {
            self.roll_back()?;
        }
        // A file whose commits are captured and that is closed here is not trusted again.
        let is_long = self.capture.is_none() && self.hooks.wal_frames.get() >= WAL_PAGES_AT_CLOSE;
        off_runtime_if(is_long, || {
            if is_long {
                self.checkpoint()?;
            }
            let path = self.path.clone();
            drop(self);
            remove_empty_wal(&path)
        })
    }
}

pub(super) fn remove_empty_wal(database: &Path) -> Result<(), StorageFault> {
    let wal = wal_path(database);
    let removed = match std::fs::metadata(&wal) {
        Ok(found) if found.len() == 0 => std::fs::remove_file(&wal),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(|error| StorageFault {
        operation: "remove",
        path: wal.display().to_string(),
        cause: error.to_string(),
    })
}

pub(super) fn wal_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Moves the WAL into the database and truncates it, without a sync.
pub(super) fn checkpoint_unsynced(connection: &Connection) -> rusqlite::Result<()> {
    connection.wal_checkpoint_v2(Some(c"main"), CheckpointMode::TRUNCATE).map(drop)
}

/// Moves the WAL into the database and truncates it. The pragma makes SQLite sync the WAL before
/// and the database after.
fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    let moved = connection.wal_checkpoint_v2(Some(c"main"), CheckpointMode::TRUNCATE);
    connection.execute_batch("PRAGMA synchronous = OFF")?;
    moved.map(drop)
}

/// Frames in the WAL, as SQLite found them when it opened it.
pub(super) fn wal_frames(connection: &Connection) -> rusqlite::Result<u32> {
    let (frames, _) = connection.wal_checkpoint_v2(Some(c"main"), CheckpointMode::NOOP)?;
    Ok(u32::try_from(frames).unwrap_or_default())
}

/// Syncs one of a database's files through a descriptor of its own, beside whoever uses it.
pub(super) fn sync_path(path: &Path, file: File) -> Result<(), String> {
    #[cfg(test)]
    if let Some(result) = faults::on_sync(file) {
        return result;
    }
    #[cfg(not(test))]
    let _ = file;
    let synced = std::fs::File::open(path).and_then(|opened| opened.sync_data());
    synced.map_err(|error| error.to_string())
}

/// Syncs through SQLite's own descriptor, so an error of any write since it was opened is seen.
pub(super) fn sync_file(connection: &Connection, file: File) -> Result<(), String> {
    #[cfg(test)]
    if let Some(result) = faults::on_sync(file) {
        return result;
    }
    sqlite_file::sync(connection, file)
}

/// Failing fsyncs, and a count of those that were asked for, in the test's own thread.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;
    use std::io;

    use super::File;

    thread_local! {
        pub static FAIL: Cell<Option<File>> = const { Cell::new(None) };
        pub static FAIL_DIRECTORY: Cell<bool> = const { Cell::new(false) };
        pub static SYNCED: Cell<[u32; 3]> = const { Cell::new([0; 3]) };
    }

    fn count(what: usize) {
        let mut synced = SYNCED.get();
        synced[what] += 1;
        SYNCED.set(synced);
    }

    pub fn on_sync(file: File) -> Option<Result<(), String>> {
        count(if file == File::Main { 0 } else { 1 });
        (FAIL.get() == Some(file)).then(|| Err("the disk is on fire".into()))
    }

    pub fn on_sync_directory() -> Option<io::Result<()>> {
        count(2);
        FAIL_DIRECTORY.get().then(|| Err(io::Error::other("the disk is on fire")))
    }
}
