//! A folder of this machine as the bucket of nodes that run on it, for `wasmkeep dev`.
//!
//! ```text
//! format     "wasmkeep bucket 1"
//! lock       held with flock while something is written, deleted or listed
//! coming/    objects that are not whole yet
//! objects/   an object a file (object.rs), under its key (key.rs)
//! ```
//!
//! It promises what the port does, to all who have the folder open, in one process or in several. An
//! object is there whole or not at all, also after a power cut; one that was written right before that
//! may be missing. It is for one machine: on a file system of the network the lock may hold nobody off.

mod key;
mod object;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;
use wasmkeep_supervisors::bucket::{Nonce, check_key};
use wasmkeep_supervisors::limits::{BUCKET_OBJECT_BYTES_MAX, BUCKET_PAGE_KEYS_MAX};
use wasmkeep_supervisors::ports::{
    Bucket, BucketFuture, BucketTime, Cond, DeleteError, Denial, Doubt, ETag, GetError, ListError,
    ListFrom, Listed, Object, Page, PutError, Wait, Written,
};

use self::key::{Entry, entry, file_of, folder_of};
use self::object::{etag_of, header, open, time};
use super::random::SystemRandom;
use super::s3::Trouble;

const FORMAT: &str = "wasmkeep bucket 1\n";

/// A write takes seconds. What is on its way for longer was left by a process that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Error)]
pub enum FolderError {
    #[error(
        "{path} is no bucket of this wasmkeep: its file \"format\" is missing or another's. Move \
         the folder away, or run the wasmkeep that made it"
    )]
    Foreign { path: PathBuf },
    #[error("the bucket {path} cannot be used: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Clones take turns; others that have the folder open have a lock of their own.
#[derive(Clone)]
pub struct FolderBucket(Arc<Folder>);

struct Folder {
    objects: PathBuf,
    coming: PathBuf,
    /// flock holds off other openings of the file, the mutex those who share this one.
    lock: Mutex<File>,
}

impl FolderBucket {
    /// Opens the bucket in a folder, and makes it when there is none.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let unusable = |source| FolderError::Io { path: path.to_owned(), source };
        let folder = Folder::at(path).map_err(unusable)?;
        let is_bucket = folder.locked(|| check_format(path)).map_err(unusable)?;
        if !is_bucket {
            return Err(FolderError::Foreign { path: path.to_owned() });
        }
        folder.begin().map_err(unusable)?;
        Ok(Self(Arc::new(folder)))
    }

    /// Runs an operation on a thread that may wait for the disk. It goes on when nobody waits any more.
    async fn run<T, E>(
        &self,
        wait: Wait,
        act: impl FnOnce(&Folder) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Trouble> + Send + 'static,
    {
        let folder = Arc::clone(&self.0);
        let acting = tokio::task::spawn_blocking(move || act(&folder));
        let doubt = match tokio::time::timeout(wait.longest(), acting).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(error)) => Doubt::Connection(error.to_string()),
            Err(_) => Doubt::TimedOut(wait.longest()),
        };
        Err(Trouble::Unknown(doubt).into())
    }
}

impl Folder {
    fn at(path: &Path) -> io::Result<Self> {
        make_private(path)?;
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = Mutex::new(options.open(path.join("lock"))?);
        Ok(Self { objects: path.join("objects"), coming: path.join("coming"), lock })
    }

    fn begin(&self) -> io::Result<()> {
        make_private(&self.objects)?;
        make_private(&self.coming)?;
        for entry in fs::read_dir(&self.coming)? {
            let entry = entry?;
            // Another node may have finished it meanwhile.
            let Ok(written) = entry.metadata().and_then(|found| found.modified()) else { continue };
            if written.elapsed().is_ok_and(|age| age > LEFT_BEHIND) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Runs `act` while nobody else writes, deletes or lists.
    fn locked<T, E: From<io::Error>>(&self, act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // The file says nothing: it is whole after a panic anywhere.
        let file = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let flocked = Flocked::new(&file)?;
        let outcome = act();
        drop(flocked);
        outcome
    }

    fn get(&self, key: &str, unless: Option<&ETag>) -> Result<Option<Object>, GetError> {
        let path = self.objects.join(file_of(checked(key)?));
        let opened = open(&path).map_err(|error| trouble(&path, &error))?;
        let opened = opened.ok_or(GetError::Missing)?;
        if unless == Some(&opened.etag) {
            return Ok(None);
        }
        let (etag, modified) = (opened.etag.clone(), Some(opened.modified));
        let body = opened.body().map_err(|error| trouble(&path, &error))?;
        Ok(Some(Object { body, etag, modified, date: Some(now()) }))
    }

    fn put(&self, key: &str, body: &[u8], cond: &Cond) -> Result<Written, PutError> {
        let path = self.objects.join(file_of(checked(key)?));
        if body.len() > BUCKET_OBJECT_BYTES_MAX {
            return Err(denied("EntityTooLarge", "the object is too large").into());
        }
        let etag = etag_of(body);
        let coming = self.coming.join(Nonce::draw(&SystemRandom).to_string());
        let placed = write(&coming, &etag, body)
            .map_err(|error| PlaceError::Io(coming.clone(), error))
            .and_then(|()| self.place(&coming, &path, cond));
        if let Err(error) = placed {
            // What is left of it is removed by a later start.
            let _ = fs::remove_file(&coming);
            return Err(error.into());
        }
        Ok(Written { etag, date: Some(now()) })
    }

    /// Makes a whole file the key's, if the condition holds.
    fn place(&self, coming: &Path, path: &Path, cond: &Cond) -> Result<(), PlaceError> {
        self.locked(|| {
            let at = |error| PlaceError::Io(path.to_owned(), error);
            let present = open(path).map_err(at)?.map(|opened| opened.etag);
            match (cond, present) {
                (Cond::Any, _) | (Cond::Absent, None) => {}
                (Cond::Match(expected), Some(present)) if *expected == present => {}
                (Cond::Match(_), None) => return Err(PlaceError::Missing),
                (Cond::Absent | Cond::Match(_), Some(_)) => return Err(PlaceError::Mismatch),
            }
            path.parent().map_or(Ok(()), make_private).map_err(at)?;
            fs::rename(coming, path).map_err(at)
        })
    }

    fn list(&self, prefix: &str, after: Option<&str>, keys_max: u16) -> Result<Page, ListError> {
        let keys_max = usize::from(keys_max.min(BUCKET_PAGE_KEYS_MAX));
        // A walk that others write beside may miss what is replaced.
        let listed = self.locked(|| {
            let (folder, rest) = folder_of(prefix);
            let so_far = prefix[..prefix.len() - rest.len()].to_owned();
            let mut found = Vec::new();
            walk(&self.objects.join(folder), so_far, &Wanted { prefix, after }, &mut found)?;
            found.sort_unstable();
            let has_more = found.len() > keys_max;
            found.truncate(keys_max);
            let objects = found.into_iter().filter_map(|key| self.listed(key).transpose());
            io::Result::Ok((objects.collect::<io::Result<Vec<_>>>()?, has_more))
        });
        let (objects, has_more) = listed.map_err(|error| trouble(&self.objects, &error))?;
        Ok(Page { objects, has_more, date: Some(now()) })
    }

    fn listed(&self, key: String) -> io::Result<Option<Listed>> {
        let opened = open(&self.objects.join(file_of(&key)))?;
        Ok(opened.map(|opened| Listed {
            key,
            bytes: opened.bytes,
            modified: Some(opened.modified),
            etag: opened.etag,
        }))
    }

    fn delete(&self, key: &str) -> Result<(), DeleteError> {
        let path = self.objects.join(file_of(checked(key)?));
        let deleted = self.locked(|| match fs::remove_file(&path) {
            Err(error) if !is_absent(&error) => Err(error),
            _ => {
                self.remove_empty(&path);
                Ok(())
            }
        });
        deleted.map_err(|error| trouble(&path, &error).into())
    }

    /// Removes the folders that only this file was in.
    fn remove_empty(&self, file: &Path) {
        let folders = file.ancestors().skip(1);
        for folder in folders.take_while(|folder| *folder != self.objects) {
            // It is not empty, or there is none.
            if fs::remove_dir(folder).is_err_and(|error| !is_absent(&error)) {
                return;
            }
        }
    }
}

/// The lock, until this is dropped.
struct Flocked<'a>(&'a File);

impl<'a> Flocked<'a> {
    fn new(file: &'a File) -> io::Result<Self> {
        loop {
            match flock(file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Flocked<'_> {
    fn drop(&mut self) {
        // It fails for a descriptor that is none, and this is one.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// Why a whole file did not become the key's.
enum PlaceError {
    Mismatch,
    Missing,
    Io(PathBuf, io::Error),
}

impl From<io::Error> for PlaceError {
    fn from(error: io::Error) -> Self {
        Self::Io("lock".into(), error)
    }
}

impl From<PlaceError> for PutError {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Mismatch => Self::Mismatch,
            PlaceError::Missing => Self::Missing,
            PlaceError::Io(path, error) => trouble(&path, &error).into(),
        }
    }
}

/// Writes a file that nobody looks at yet, down to the disk.
fn write(coming: &Path, etag: &ETag, body: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(coming)?;
    file.write_all(header(etag).as_bytes())?;
    file.write_all(body)?;
    file.sync_all()
}

/// Which keys are listed.
struct Wanted<'a> {
    prefix: &'a str,
    after: Option<&'a str>,
}

impl Wanted<'_> {
    fn has(&self, key: &str) -> bool {
        key.starts_with(self.prefix) && self.after.is_none_or(|after| key > after)
    }

    /// Whether some key that begins so may be wanted.
    fn may_have(&self, so_far: &str) -> bool {
        let is_below = so_far.starts_with(self.prefix) || self.prefix.starts_with(so_far);
        is_below && self.after.is_none_or(|after| so_far > after || after.starts_with(so_far))
    }
}

fn walk(
    folder: &Path,
    so_far: String,
    wanted: &Wanted<'_>,
    found: &mut Vec<String>,
) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if is_absent(&error) => return Ok(()),
        entries => entries?,
    };
    for found_here in entries {
        let name = found_here?.file_name();
        match entry(&so_far, Path::new(&name)) {
            Some(Entry::Object(key)) if wanted.has(&key) => found.push(key),
            Some(Entry::Folder(keys)) if wanted.may_have(&keys) => {
                walk(&folder.join(name), keys, wanted, found)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a folder is a bucket. An empty one becomes one.
fn check_format(path: &Path) -> io::Result<bool> {
    let file = path.join("format");
    match fs::read_to_string(&file) {
        Ok(found) => return Ok(found == FORMAT),
        Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(false),
        Err(error) if !is_absent(&error) => return Err(error),
        Err(_) => {}
    }
    let unfinished = path.join("format.tmp");
    for entry in fs::read_dir(path)? {
        if !["lock", "format.tmp"]
            .iter()
            .any(|ours| entry.as_ref().is_ok_and(|e| e.file_name() == *ours))
        {
            return Ok(false);
        }
    }
    let mut written = File::create(&unfinished)?;
    written.write_all(FORMAT.as_bytes())?;
    written.sync_all()?;
    fs::rename(unfinished, file)?;
    Ok(true)
}

fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(folder)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn now() -> BucketTime {
    time(SystemTime::now())
}

fn checked(key: &str) -> Result<&str, Trouble> {
    check_key(key).map_err(|error| denied("InvalidKey", &error.to_string()))?;
    Ok(key)
}

fn denied(code: &str, message: &str) -> Trouble {
    Trouble::Denied(Denial { status: 0, code: code.to_owned(), message: message.to_owned() })
}

/// Whatever the disk says, it may say another thing the next time.
fn trouble(path: &Path, error: &io::Error) -> Trouble {
    let text = format!("{}: {error}", path.display());
    Trouble::Unknown(match error.kind() {
        ErrorKind::InvalidData => Doubt::Unreadable(text),
        _ => Doubt::Connection(text),
    })
}

impl Bucket for FolderBucket {
    fn get<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<Object, GetError>> {
        let of = key.to_owned();
        Box::pin(self.run(wait, move |folder| folder.get(&of, None)?.ok_or(GetError::Missing)))
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a str,
        etag: &'a ETag,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Option<Object>, GetError>> {
        let (of, etag) = (key.to_owned(), etag.clone());
        Box::pin(self.run(wait, move |folder| folder.get(&of, Some(&etag))))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        body: Bytes,
        cond: Cond,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Written, PutError>> {
        let of = key.to_owned();
        Box::pin(self.run(wait, move |folder| folder.put(&of, &body, &cond)))
    }

    fn list<'a>(
        &'a self,
        from: ListFrom<'a>,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Page, ListError>> {
        let (prefix, after) = (from.prefix.to_owned(), from.after.map(str::to_owned));
        let keys_max = from.keys_max;
        Box::pin(self.run(wait, move |folder| folder.list(&prefix, after.as_deref(), keys_max)))
    }

    fn delete<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<(), DeleteError>> {
        let of = key.to_owned();
        Box::pin(self.run(wait, move |folder| folder.delete(&of)))
    }
}
