//! What makes committed data survive a power cut, and what keeps the WAL short.
//!
//! A commit only appends to the WAL; nothing is synced. `make_durable` syncs the WAL, and once per
//! connection also the database file (SQLite discards a WAL beside an empty database) and the
//! directories that lead to it. A checkpoint syncs the WAL before it moves the pages, and the
//! database before it empties the WAL. A failed fsync is never tried again: the kernel may have
//! dropped the pages and would say that all is well, so the database is given up.
//!
//! A WAL that is emptied while the database stays open keeps its length, as a file that does not
//! grow is synced in half the time: its header is blanked, and that is on disk before any frame is
//! written over. Otherwise a power cut could leave the old header with some of the old frames, and
//! pages older than the database would come back (ADR 0003, ADR 0021).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ffi};
use wasmkeep_supervisors::ports::{StorageFault, Syncing};

use super::capture::{FRAME_BYTES, WAL_HEADER_BYTES, frame_offset};
use super::connection::LocalDatabase;
use super::failure::is_disk_full;
use super::files::length;
use super::off_runtime::{off_runtime, off_runtime_if};
use super::sqlite_file;
pub(super) use super::sqlite_file::File;
use super::sync_threads;

/// A WAL of so many pages (4 MiB) is moved into the database at the end of the event.
const WAL_PAGES_AFTER_EVENT: u32 = 1024;

/// A longer WAL is cut when it is emptied: one large event must not hold the disk for good.
const WAL_PAGES_KEPT_MAX: u32 = 2 * WAL_PAGES_AFTER_EVENT;

/// A WAL of so many pages is moved into the database when it is closed. A shorter one is read
/// at the next opening, which costs less than the two fsyncs of a checkpoint.
const WAL_PAGES_AT_CLOSE: u32 = 64;

impl LocalDatabase {
    /// Returns once everything committed is on disk.
    pub(super) fn make_durable(&mut self) -> Result<(), StorageFault> {
        self.usable()?;
        let is_doubted = self.data_dir.is_doubted(&self.path);
        let is_synced =
            !self.hooks.unsynced.get() && self.syncs_beside.load(Ordering::Acquire) == 0;
        if is_synced && !is_doubted {
            return Ok(());
        }
        let _busy = sync_threads::Busy::begin();
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

    /// A sync is one of the WAL, and no more.
    pub(super) fn syncs_wal_alone(&self) -> bool {
        self.file_is_durable && self.given_up.is_none() && !self.data_dir.is_doubted(&self.path)
    }

    /// Syncs the WAL on another thread, as far as it is written. None where a sync is more than that.
    pub(super) fn sync_wal_beside(&mut self) -> Option<Syncing> {
        // A failure is told to each descriptor once: two syncs of one must not share it.
        if !self.syncs_wal_alone() || self.syncs_beside.load(Ordering::Acquire) > 0 {
            return None;
        }
        let wal = self.wal_beside()?;
        self.hooks.unsynced.set(false);
        self.syncs_beside.fetch_add(1, Ordering::Relaxed);
        let (beside, data_dir) = (Arc::clone(&self.syncs_beside), Arc::clone(&self.data_dir));
        let (path, of) = (self.path.clone(), Arc::clone(&self.data_dir));
        let doubted = path.clone();
        let synced = sync_threads::sync(wal, move |synced| match synced {
            Ok(()) => drop(beside.fetch_sub(1, Ordering::Release)),
            Err(_) => data_dir.doubt(&doubted),
        });
        Some(Box::pin(async move {
            let synced = match synced.await {
                Ok(()) if of.is_doubted(&path) => Err("an fsync of it failed before".to_owned()),
                synced => synced,
            };
            let path = path.display().to_string();
            synced.map_err(|cause| StorageFault { operation: "sync", path, cause })
        }))
    }

    /// A descriptor that meets every failed write by itself, as SQLite's own does: each is told to each
    /// descriptor once. Opened before what it is to sync is written, or at least not synced.
    fn wal_beside(&mut self) -> Option<Arc<std::fs::File>> {
        if self.wal_beside.is_none() {
            self.wal_beside = std::fs::File::open(wal_path(&self.path)).ok().map(Arc::new);
        }
        self.wal_beside.clone()
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
            if self.hooks.wal_frames.get() > WAL_PAGES_KEPT_MAX {
                self.checkpoint()?;
            } else if self.move_pages(CheckpointMode::RESTART)? {
                self.blank_wal()?;
            }
            // Old frames must not come back under the new ones: SQLite syncs the header of a
            // WAL that starts again, but not with `synchronous = OFF`.
            self.sync_file(File::Wal)
        })
    }

    /// Moves the whole WAL into the database file, both synced, and cuts it to nothing.
    pub(super) fn checkpoint(&mut self) -> Result<(), StorageFault> {
        self.move_pages(CheckpointMode::TRUNCATE).map(drop)
    }

    /// Moves the whole WAL into the database file, both synced; false while the disk is full.
    fn move_pages(&mut self, mode: CheckpointMode) -> Result<bool, StorageFault> {
        match self.hooks.as_host(|| checkpoint(&self.connection, mode)) {
            Ok(()) => self.hooks.wal_frames.set(0),
            // The pages stay in the WAL until there is room; nothing is lost by that.
            Err(error) if is_disk_full(&error) => return Ok(false),
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
        Ok(true)
    }

    /// Makes an empty WAL of one whose frames are all in the database file. Not synced.
    fn blank_wal(&mut self) -> Result<(), StorageFault> {
        let blank = [0; WAL_HEADER_BYTES as usize];
        sqlite_file::write(&self.connection, File::Wal, 0, &blank).map_err(|cause| {
            self.data_dir.doubt(&self.path);
            let fault = self.fault("blank the log of", cause);
            self.give_up(fault)
        })
    }

    pub(super) fn roll_back(&mut self) -> Result<(), StorageFault> {
        let rolled_back = self.hooks.as_host(|| self.connection.execute_batch("ROLLBACK"));
        rolled_back.map_err(|error| {
            let fault = self.fault("roll back", error);
            self.give_up(fault)
        })
    }

    /// Whether the next event may as well open the files again. A captured database stays open: its
    /// commits are taken from the log that this connection writes. So does that of an actor which
    /// writes much: the length of its log makes its fsyncs fast.
    pub(super) fn may_be_closed(&self) -> bool {
        let is_short = |bytes: Option<u64>| {
            bytes.unwrap_or_default() < FRAME_BYTES as u64 * u64::from(WAL_PAGES_AFTER_EVENT)
        };
        self.capture.is_none()
            && self.given_up.is_none()
            && self.connection.is_autocommit()
            && length(&wal_path(&self.path)).is_ok_and(is_short)
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
            let (path, frames) = (self.path.clone(), self.hooks.wal_frames.get());
            let is_captured = self.capture.is_some();
            drop(self);
            if is_captured { remove_empty_wal(&path) } else { cut_wal(&path, frames) }
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
    removed.map_err(|error| wal_fault("remove", &wal, &error))
}

/// Cuts what a WAL of `frames` frames has behind them; one that has none goes.
fn cut_wal(database: &Path, frames: u32) -> Result<(), StorageFault> {
    let wal = wal_path(database);
    let length = frame_offset(frames + 1);
    let cut = match std::fs::metadata(&wal) {
        Ok(_) if frames == 0 => std::fs::remove_file(&wal),
        Ok(found) if found.len() > length => {
            std::fs::File::options().write(true).open(&wal).and_then(|file| file.set_len(length))
        }
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    cut.map_err(|error| wal_fault("cut", &wal, &error))
}

fn wal_fault(operation: &'static str, wal: &Path, error: &std::io::Error) -> StorageFault {
    StorageFault { operation, path: wal.display().to_string(), cause: error.to_string() }
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

/// Moves the WAL into the database. The pragma makes SQLite sync the WAL before and the database
/// after.
fn checkpoint(connection: &Connection, mode: CheckpointMode) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    let moved = connection.wal_checkpoint_v2(Some(c"main"), mode);
    connection.execute_batch("PRAGMA synchronous = OFF")?;
    let (frames, moved) = moved?;
    if frames == moved { Ok(()) } else { Err(busy()) }
}

/// A checkpoint that left frames behind, which nobody else's reading can make it do here.
fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None)
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
