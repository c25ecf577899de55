//! Takes the pages that commits changed out of the WAL, for the bucket.
//!
//! The WAL has a frame for each page a commit wrote. The hook after a commit says how many frames
//! there are, so frames up to that number belong to whole commits: spilled ones of an open transaction
//! come after it, and are written over when that rolls back. Nothing moves out of the WAL before it is
//! captured, and after a checkpoint the WAL is empty, so frames are counted from 1 again.

use std::collections::BTreeMap;
use std::fs::File as PlainFile;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rusqlite::limits::Limit;
use wasmkeep_supervisors::history::{PAGE_BYTES, page_offset, whole_pages};
use wasmkeep_supervisors::ports::{Captured, Capturing, Database as _, Latched, StorageFault};

use super::connection::LocalDatabase;
use super::failure::{is_disk_full, is_unopenable};
use super::off_runtime::{off_runtime, off_runtime_if};
use super::sqlite_file::{self, File};
use super::sync;

pub(super) const WAL_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: usize = 24;
pub(super) const FRAME_BYTES: usize = FRAME_HEADER_BYTES + PAGE_BYTES;

/// A capture of at most so many frames (256 KiB) is read at once and kept. Of a larger one the frames'
/// heads are read, and each page when it is asked for.
const FRAMES_KEPT_MAX: u32 = 62;

/// A database is written anew when more than half of it is free, and that is more than 4 MiB.
const FREE_PAGES_MIN: u32 = 1024;

/// How far an open database is captured.
#[derive(Default)]
pub(super) struct Capture {
    /// Frames of the WAL that are captured.
    frames: u32,
    /// What tells the frames of this WAL from those of one before it.
    salts: Option<[u8; 8]>,
    last: Last,
    /// The next capture holds every page.
    whole_is_due: bool,
    /// Held by whoever reads the file for a snapshot as well: then it must not change.
    latch: Arc<()>,
}

/// Where the pages of the last capture are.
#[derive(Default)]
enum Last {
    #[default]
    Nowhere,
    /// Page to frame, and the frames' bytes from the first on if they were few.
    Wal { pages: BTreeMap<u32, u32>, first: u32, bytes: Vec<u8> },
    /// All in the database file, the WAL being empty.
    Main,
}

impl Capture {
    fn is_latched(&self) -> bool {
        Arc::strong_count(&self.latch) > 1
    }
}

impl Capturing for LocalDatabase {
    fn is_in_transaction(&self) -> bool {
        self.in_transaction()
    }

    fn capture(&mut self) -> Result<Option<Captured>, StorageFault> {
        self.usable()?;
        if self.hooks.wal_restarted.get() {
            let fault = self.fault("capture", "its log began anew before it was captured");
            return Err(self.give_up(fault));
        }
        let frames = self.hooks.wal_frames.get();
        let Some(capture) = &mut self.capture else { return Ok(None) };
        if capture.whole_is_due {
            return self.capture_every_page().map(Some);
        }
        capture.last = Last::Nowhere;
        if frames == capture.frames {
            return Ok(None);
        }
        let read = off_runtime_if(frames - capture.frames > FRAMES_KEPT_MAX, || {
            read_frames(&self.connection, capture, frames)
        });
        match read {
            Ok(captured) => Ok(Some(captured)),
            Err(cause) => {
                let fault = self.fault("read the log of", cause);
                Err(self.give_up(fault))
            }
        }
    }

    fn read_captured(&mut self, page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
        let last = self.capture.as_ref().map_or(&Last::Nowhere, |capture| &capture.last);
        let read = match last {
            Last::Nowhere => Err("nothing is captured".into()),
            Last::Main => sqlite_file::read(&self.connection, File::Main, page_offset(page), to),
            Last::Wal { pages, first, bytes } => match pages.get(&page) {
                None => Err(format!("page {page} is not captured")),
                Some(frame) => {
                    let kept = (frame - first) as usize * FRAME_BYTES + FRAME_HEADER_BYTES;
                    match bytes.get(kept..kept + PAGE_BYTES) {
                        Some(page) => {
                            to.copy_from_slice(page);
                            Ok(())
                        }
                        None => {
                            let offset = frame_offset(*frame) + FRAME_HEADER_BYTES as u64;
                            sqlite_file::read(&self.connection, File::Wal, offset, to)
                        }
                    }
                }
            },
        };
        read.map_err(|cause| {
            let fault = self.fault("read a page of", cause);
            self.give_up(fault)
        })
    }

    fn capture_whole(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.whole_is_due = true;
        }
    }

    fn adopted(&mut self) -> Result<(), StorageFault> {
        self.become_copy()
    }

    fn vacuum_if_sparse(&mut self) -> Result<bool, StorageFault> {
        self.usable()?;
        if !self.is_captured() || self.is_latched() {
            return Ok(false);
        }
        let sparse = self.hooks.as_host(|| {
            let pragma = |name: &str| {
                let sql = format!("PRAGMA {name}");
                self.connection.query_row(&sql, [], |row| row.get::<_, u32>(0))
            };
            Ok((pragma("freelist_count")?, pragma("page_count")?))
        });
        let (free, all) = sparse.map_err(|error: rusqlite::Error| {
            let fault = self.fault("read", error);
            self.give_up(fault)
        })?;
        if free <= FREE_PAGES_MIN || free <= all / 2 {
            return Ok(false);
        }
        match off_runtime(|| self.vacuum()) {
            Ok(()) => {
                self.capture_whole();
                Ok(true)
            }
            // It changed nothing: there is no room for the second copy, or nowhere to put it.
            Err(error) if is_disk_full(&error) || is_unopenable(&error) => Ok(false),
            Err(error) => {
                let fault = self.fault("vacuum", error);
                Err(self.give_up(fault))
            }
        }
    }

    fn latch(&mut self) -> Result<Option<Box<dyn Latched>>, StorageFault> {
        self.usable()?;
        if !self.checkpoint_captured()? {
            return Ok(None);
        }
        let Some(capture) = &self.capture else { return Ok(None) };
        let file = PlainFile::open(&self.path).map_err(|error| self.fault("open", error))?;
        let bytes = file.metadata().map_err(|error| self.fault("look at", error))?.len();
        let db_pages = u32::try_from(bytes / PAGE_BYTES as u64)
            .map_err(|_| self.fault("read", "it is too large"))?;
        let latch = Arc::clone(&capture.latch);
        Ok(Some(Box::new(LatchedFile { file, db_pages, path: self.path.clone(), _latch: latch })))
    }
}

impl LocalDatabase {
    /// Every commit has been captured.
    pub(super) fn is_captured(&self) -> bool {
        let frames = self.hooks.wal_frames.get();
        let is = |capture: &Capture| capture.frames == frames && !capture.whole_is_due;
        !self.hooks.wal_restarted.get() && self.capture.as_ref().is_some_and(is)
    }

    fn is_latched(&self) -> bool {
        self.capture.as_ref().is_some_and(Capture::is_latched)
    }

    /// Empties the WAL into the file, if all of it is captured and nobody reads the file. Returns
    /// whether the file is all there is.
    pub(super) fn checkpoint_captured(&mut self) -> Result<bool, StorageFault> {
        if !self.is_captured() || self.is_latched() {
            return Ok(false);
        }
        self.empty_wal()
    }

    fn empty_wal(&mut self) -> Result<bool, StorageFault> {
        if self.hooks.wal_frames.get() == 0 {
            return Ok(true);
        }
        let moved =
            off_runtime(|| self.hooks.as_host(|| sync::checkpoint_unsynced(&self.connection)));
        match moved {
            Ok(()) => {
                self.hooks.wal_frames.set(0);
                if let Some(capture) = &mut self.capture {
                    capture.frames = 0;
                    capture.salts = None;
                    capture.last = Last::Nowhere;
                }
                Ok(true)
            }
            Err(error) if is_disk_full(&error) => Ok(false),
            Err(error) => {
                let fault = self.fault("checkpoint", error);
                Err(self.give_up(fault))
            }
        }
    }

    /// The WAL goes into the file uncaptured: the file is captured as a whole.
    fn capture_every_page(&mut self) -> Result<Captured, StorageFault> {
        if self.is_latched() || !self.empty_wal()? {
            let cause = "its log cannot be emptied: a snapshot is under way, or the disk is full";
            let fault = self.fault("capture all of", cause);
            return Err(self.give_up(fault));
        }
        let pages = self.hooks.as_host(|| {
            self.connection.query_row("PRAGMA page_count", [], |row| row.get::<_, u32>(0))
        });
        let db_pages = pages.map_err(|error| {
            let fault = self.fault("read", error);
            self.give_up(fault)
        })?;
        if let Some(capture) = &mut self.capture {
            capture.whole_is_due = false;
            capture.last = Last::Main;
        }
        let changed = whole_pages(db_pages).collect();
        Ok(Captured { changed, db_pages, frames: 0, is_whole: true })
    }

    /// `VACUUM` attaches a database of its own, which may be as large as this one: not in memory.
    fn vacuum(&self) -> rusqlite::Result<()> {
        self.hooks.as_host(|| {
            let attached = self.connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)?;
            self.connection.execute_batch("PRAGMA temp_store = FILE")?;
            let done = self.connection.execute_batch("VACUUM");
            self.connection.execute_batch("PRAGMA temp_store = MEMORY")?;
            self.connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, attached)?;
            done
        })
    }
}

/// Reads the frames after those captured, up to `frames`, which ends a commit.
fn read_frames(
    connection: &rusqlite::Connection,
    capture: &mut Capture,
    frames: u32,
) -> Result<Captured, String> {
    let first = capture.frames + 1;
    let salts = match capture.salts {
        Some(salts) => salts,
        None => *capture.salts.insert(read_salts(connection)?),
    };
    let count = frames - capture.frames;
    let mut bytes = Vec::new();
    if count <= FRAMES_KEPT_MAX {
        bytes.resize(count as usize * FRAME_BYTES, 0);
        sqlite_file::read(connection, File::Wal, frame_offset(first), &mut bytes)?;
    }
    let mut pages = BTreeMap::new();
    let mut db_pages = 0;
    for frame in first..=frames {
        let kept = (frame - first) as usize * FRAME_BYTES;
        let mut head = [0; FRAME_HEADER_BYTES];
        match bytes.get(kept..kept + FRAME_HEADER_BYTES) {
            Some(kept) => head.copy_from_slice(kept),
            None => sqlite_file::read(connection, File::Wal, frame_offset(frame), &mut head)?,
        }
        if head[8..16] != salts {
            return Err(format!("frame {frame} is of another log"));
        }
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        pages.insert(word(0), frame);
        // Only the last frame of a commit says how large the database is after it.
        db_pages = word(4);
        if db_pages > 0 {
            pages.split_off(&(db_pages + 1));
        }
    }
    if db_pages == 0 || pages.is_empty() {
        return Err(format!("frame {frames} does not end a commit"));
    }
    capture.frames = frames;
    let changed = pages.keys().copied().collect();
    capture.last = Last::Wal { pages, first, bytes };
    Ok(Captured { changed, db_pages, frames: count, is_whole: false })
}

fn read_salts(connection: &rusqlite::Connection) -> Result<[u8; 8], String> {
    let mut header = [0; WAL_HEADER_BYTES as usize];
    sqlite_file::read(connection, File::Wal, 0, &mut header)?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if word(0) & !1 != 0x377f_0682 || word(8) as usize != PAGE_BYTES {
        return Err("its log has a strange head".into());
    }
    let mut salts = [0; 8];
    salts.copy_from_slice(&header[16..24]);
    Ok(salts)
}

/// Frames count from 1.
pub(super) fn frame_offset(frame: u32) -> u64 {
    WAL_HEADER_BYTES + u64::from(frame - 1) * FRAME_BYTES as u64
}

/// A database file that does not change while this is there: commits stay in the WAL.
struct LatchedFile {
    file: PlainFile,
    db_pages: u32,
    path: std::path::PathBuf,
    _latch: Arc<()>,
}

impl Latched for LatchedFile {
    fn db_pages(&self) -> u32 {
        self.db_pages
    }

    fn read(&self, page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
        self.file
            .read_exact_at(to, page_offset(page))
            .map_err(|error| super::files::fault("read", &self.path, &error))
    }
}
