//! `ports::LocalFiles`: files that are copies of what the bucket has.
//!
//! ```text
//! <stem>.db            the database, and while it is open <stem>.db-wal
//! <stem>.pos           which state the closed file is, exactly (`history::Sidecar`)
//! <stem>.restore       an image on its way
//! <stem>.db.replaced   the file before that, and <stem>.db.replaced-wal
//! ```
//!
//! A file is trusted only from a close that ended well until the next opening. Everything that may
//! leave another file behind removes `.pos` first.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use wasmkeep_supervisors::address::Address;
use wasmkeep_supervisors::history::{
    Base, Files, PAGE_BYTES, Sidecar, SidecarError, Written, page_offset,
};
use wasmkeep_supervisors::ports::{LocalFiles, Restoring, StorageFault};

use super::connection::LocalDatabase;
use super::data_dir::DataDir;
use super::files::{LocalDatabases, fault, length, make_room, remove_file};
use super::off_runtime::off_runtime;
use super::sqlite_file::File as SqliteFile;
use super::sync::{remove_empty_wal, sync_file, wal_path};

/// A larger file is synced before it is trusted: downloading it again after a power cut costs more.
const SYNCED_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// The application id of a file that is, or was to be, a copy of what the bucket has: "WKC1". It is in
/// the file's first page from the first write on, so there is none without it that a capture began with.
const IS_COPY: u32 = 0x574b_4331;

/// SQLite's header, and where the application id is in it.
const HEADER_BYTES: usize = 100;
const APPLICATION_ID_AT: usize = 68;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl LocalFiles for LocalDatabases {
    fn trusted(&self, address: &Address) -> Result<Option<Base>, StorageFault> {
        let path = self.path(address);
        Ok(trusted(&path)?.and_then(|verdict| {
            verdict
                .inspect_err(|why| tracing::info!(path = %path.display(), %why, "file not trusted"))
                .ok()
        }))
    }

    fn adoptable(&self, address: &Address) -> Result<bool, StorageFault> {
        adoptable(&self.path(address))
    }

    fn restore(&self, address: &Address) -> Result<Box<dyn Restoring>, StorageFault> {
        let path = self.path(address);
        make_folder(&path)?;
        let image = beside(&path, "restore");
        // A task of a restore that was given up may still write there: it keeps a file without a name.
        remove_file(&image)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&image)
            .map_err(|error| fault("create", &image, &error))?;
        let data_dir = Arc::clone(&self.data_dir);
        Ok(Box::new(Image { file, image: Some(image), path, data_dir }))
    }

    fn set_aside(&self, address: &Address) -> Result<(), StorageFault> {
        set_aside(&self.data_dir, &self.path(address))
    }
}

/// Makes a new file a copy from its first page on. Before it is switched to a WAL: it costs no commit.
pub(super) fn begin_as_copy(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("PRAGMA application_id = {IS_COPY}"))
}

impl LocalDatabase {
    /// The history has what the file was adopted as.
    pub(super) fn become_copy(&mut self) -> Result<(), StorageFault> {
        self.usable()?;
        let set = self.hooks.as_host(|| begin_as_copy(&self.connection));
        set.map_err(|error| {
            let fault = self.fault("write", error);
            self.give_up(fault)
        })
    }

    /// This node has no bucket: what the file is from here on is nobody's copy. It is looked for in the
    /// file, so it does not stay in the log.
    pub(super) fn become_own(&mut self) -> Result<(), StorageFault> {
        let changed = self.hooks.as_host(|| {
            let id: u32 =
                self.connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
            if id == IS_COPY {
                self.connection.execute_batch("PRAGMA application_id = 0")?;
            }
            Ok(id == IS_COPY)
        });
        match changed.map_err(|error: rusqlite::Error| self.fault("write", error))? {
            true => off_runtime(|| self.checkpoint()),
            false => Ok(()),
        }
    }

    /// Closes the files, and says which state they are if nothing speaks against it.
    pub(super) fn close_trusted(mut self, head: Base) -> Result<(), StorageFault> {
        self.usable()?;
        if !self.connection.is_autocommit() {
            self.roll_back()?;
        }
        off_runtime(|| {
            if !self.checkpoint_captured()? {
                return self.close_files();
            }
            let path = self.path.clone();
            let is_synced = length(&path)?.is_some_and(|bytes| bytes > SYNCED_BYTES_MIN);
            if is_synced {
                let synced = sync_file(&self.connection, SqliteFile::Main);
                synced.map_err(|cause| self.fault("sync", cause))?;
            }
            drop(self);
            remove_empty_wal(&path)?;
            begin_trust(&path, head, is_synced)
        })
    }
}

/// What the sidecar says, or why it does not hold; none without one.
fn trusted(path: &Path) -> Result<Option<Result<Base, SidecarError>>, StorageFault> {
    let sidecar = beside(path, "pos");
    let bytes = match fs::read(&sidecar) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| fault("read", &sidecar, &error))?,
    };
    let Some(found) = fs::symlink_metadata(path).map(Some).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(None),
        _ => Err(fault("look at", path, &error)),
    })?
    else {
        return Ok(None);
    };
    let wal_bytes = length(&wal_path(path))?.unwrap_or_default();
    let files = Files { boot_id: boot_id()?, bytes: found.len(), inode: found.ino(), wal_bytes };
    Ok(Some(Sidecar::decode(&bytes).and_then(|sidecar| sidecar.trust(files))))
}

fn begin_trust(path: &Path, head: Base, is_synced: bool) -> Result<(), StorageFault> {
    let found = fs::symlink_metadata(path).map_err(|error| fault("look at", path, &error))?;
    let written = if is_synced { Written::Synced } else { Written::Under(boot_id()?.into()) };
    let sidecar = Sidecar { written, head, bytes: found.len(), inode: found.ino() };
    let unfinished = beside(path, "pos-new");
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(sidecar.encode().as_bytes())?;
        if is_synced {
            file.sync_data()?;
        }
        fs::rename(&unfinished, beside(path, "pos"))
    };
    write().map_err(|error| fault("write", &unfinished, &error))
}

/// Before a file is used: from here on nobody may take it for what it was. One that would be trusted
/// after a power cut as well must not come back with its sidecar then.
pub(super) fn end_trust(data_dir: &DataDir, path: &Path) -> Result<(), StorageFault> {
    let sidecar = beside(path, "pos");
    let bytes = match fs::read(&sidecar) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(());
        }
        read => read.map_err(|error| fault("read", &sidecar, &error))?,
    };
    remove_file(&sidecar)?;
    let outlives_a_boot =
        Sidecar::decode(&bytes).is_ok_and(|sidecar| sidecar.written == Written::Synced);
    match path.parent() {
        Some(folder) if outlives_a_boot => {
            off_runtime(|| data_dir.sync_folder(folder)).map_err(|cause| {
                // Without it the next opening would not know that the removal may be undone.
                let _ = fs::write(&sidecar, &bytes);
                StorageFault { operation: "sync", path: folder.display().to_string(), cause }
            })
        }
        _ => Ok(()),
    }
}

/// Removes what is beside a database that is removed itself.
pub(super) fn remove_beside(data_dir: &DataDir, path: &Path) -> Result<(), StorageFault> {
    end_trust(data_dir, path)?;
    let replaced = replaced(path);
    for file in [beside(path, "pos-new"), beside(path, "restore"), wal_path(&replaced), replaced] {
        remove_file(&file)?;
    }
    Ok(())
}

/// Moves the database, then its WAL. A crash in between leaves a WAL without a database, beside a kept
/// one without a WAL: those belong together, and the next call moves what is left.
fn set_aside(data_dir: &DataDir, path: &Path) -> Result<(), StorageFault> {
    end_trust(data_dir, path)?;
    let (replaced, wal) = (replaced(path), wal_path(path));
    let replaced_wal = wal_path(&replaced);
    if length(path)?.is_some() {
        // The WAL of the one before must not be taken for this one's.
        remove_file(&replaced_wal)?;
        rename(path, &replaced)?;
        tracing::info!(path = %path.display(), "file set aside");
    }
    let belongs_to_kept = length(&replaced)?.is_some() && length(&replaced_wal)?.is_none();
    if belongs_to_kept { rename(&wal, &replaced_wal) } else { remove_file(&wal) }
}

/// Whether a node without a bucket wrote the file last.
fn adoptable(path: &Path) -> Result<bool, StorageFault> {
    let file = match File::open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        opened => opened.map_err(|error| fault("open", path, &error))?,
    };
    let mut header = [0; HEADER_BYTES];
    match file.read_exact_at(&mut header, 0) {
        // It was made and never written.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        read => read.map_err(|error| fault("read", path, &error))?,
    }
    let mut id = [0; 4];
    id.copy_from_slice(&header[APPLICATION_ID_AT..][..4]);
    Ok(u32::from_be_bytes(id) != IS_COPY)
}

/// Moves a file that may not be there.
fn rename(from: &Path, to: &Path) -> Result<(), StorageFault> {
    match fs::rename(from, to) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(fault("move away", from, &error))
        }
        _ => Ok(()),
    }
}

fn make_folder(path: &Path) -> Result<(), StorageFault> {
    match path.parent() {
        Some(folder) if !folder.exists() => make_room(path),
        _ => Ok(()),
    }
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    path.with_extension(extension)
}

fn replaced(path: &Path) -> PathBuf {
    beside(path, "db.replaced")
}

/// The kernel's id of this run of it.
fn boot_id() -> Result<&'static str, StorageFault> {
    static READ: OnceLock<String> = OnceLock::new();
    if let Some(read) = READ.get() {
        return Ok(read);
    }
    let path = Path::new(BOOT_ID);
    let read = fs::read_to_string(path).map_err(|error| fault("read", path, &error))?;
    Ok(READ.get_or_init(|| read.trim().to_owned()))
}

/// A restored database that does not have its name yet.
struct Image {
    file: File,
    /// None once it has its place.
    image: Option<PathBuf>,
    path: PathBuf,
    data_dir: Arc<DataDir>,
}

impl Image {
    /// Whether its file still has that name.
    fn is_at(&self, path: &Path) -> bool {
        let named = fs::symlink_metadata(path).map(|found| found.ino());
        let own = self.file.metadata().map(|own| own.ino());
        matches!((named, own), (Ok(named), Ok(own)) if named == own)
    }
}

impl Restoring for Image {
    fn write(&mut self, page: u32, bytes: &[u8]) -> Result<(), StorageFault> {
        let written = self.file.write_all_at(bytes, page_offset(page));
        written.map_err(|error| fault("write", &self.path, &error))
    }

    fn finish(mut self: Box<Self>, db_pages: u32, head: Base) -> Result<(), StorageFault> {
        set_aside(&self.data_dir, &self.path)?;
        if db_pages == 0 {
            return Ok(());
        }
        let Some(image) = self.image.take().filter(|image| self.is_at(image)) else {
            return Err(StorageFault {
                operation: "finish",
                path: self.path.display().to_string(),
                cause: "another restore has taken the image's place".into(),
            });
        };
        let bytes = u64::from(db_pages) * PAGE_BYTES as u64;
        let placed = self.file.set_len(bytes).and_then(|()| fs::rename(&image, &self.path));
        if let Err(error) = placed {
            self.image = Some(image);
            return Err(fault("finish", &self.path, &error));
        }
        begin_trust(&self.path, head, false).or_else(|fault| {
            // It is restored again, should nobody open it.
            tracing::warn!(path = %self.path.display(), %fault, "restored file not trusted");
            Ok(())
        })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Some(image) = self.image.as_ref().filter(|image| self.is_at(image)) {
            // What stays is written over by the next restore.
            let _ = fs::remove_file(image);
        }
    }
}
