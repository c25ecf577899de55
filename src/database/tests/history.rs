//! A bucket and one holder, as small as they can be, for tests that tie captures to histories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use wasmkeep_supervisors::history::{self, *};
use wasmkeep_supervisors::ports::{Captured, Database, Latched, LocalFiles};

use super::*;

/// What one holder knows, and every object of the actor.
pub(super) struct History {
    prefix: HistoryPrefix,
    pub objects: BTreeMap<String, Vec<u8>>,
    /// Where objects are kept as well, to outlive the process.
    folder: Option<PathBuf>,
    pub progress: Progress,
    /// Pages that segments of this hold changed since the last merged object, and what the first of
    /// those applies on.
    unmerged: PageSet,
    unmerged_base: Option<Base>,
    unmerged_from: u64,
}

/// A database that is captured.
pub(super) fn captured() -> DatabaseConfig {
    DatabaseConfig { captured: true, ..patient() }
}

/// Nothing can go wrong with a page.
type Sure<T> = Result<T, std::convert::Infallible>;

impl History {
    pub fn new() -> Self {
        Self::of(BTreeMap::new(), None)
    }

    /// The objects that files of a folder hold, for a new hold.
    pub fn in_folder(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let mut objects = BTreeMap::new();
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name");
            if let Some(key) = name.strip_suffix(".object") {
                objects
                    .insert(key.replace('~', "/"), std::fs::read(entry.path()).expect("an object"));
            }
        }
        Self::of(objects, Some(folder.to_owned()))
    }

    fn of(objects: BTreeMap<String, Vec<u8>>, folder: Option<PathBuf>) -> Self {
        let prefix = HistoryPrefix::new(&address("a"), &App::default_app());
        let mut history = Self {
            prefix,
            objects,
            folder,
            progress: Progress::new(Generation::FIRST, None, None),
            unmerged: PageSet::default(),
            unmerged_base: None,
            unmerged_from: 1,
        };
        history.next_hold();
        history
    }

    /// Acquires the actor anew; the state is what the bucket has.
    pub fn next_hold(&mut self) {
        let listing = self.listing();
        let above = history::highest_generation_in_bucket(&listing);
        let generation = above.map_or(Some(Generation::FIRST), Generation::next);
        let head = listing.head().map(|head| self.walk(head).0);
        self.progress = Progress::new(generation.expect("few holds"), head, None);
        self.begin_run();
    }

    fn begin_run(&mut self) {
        let (at, base) = self.progress.next().expect("nothing is under way");
        self.unmerged = PageSet::default();
        self.unmerged_base = base;
        self.unmerged_from = at.seq();
    }

    pub fn listing(&self) -> Listing {
        let mut listing = Listing::default();
        self.objects.keys().for_each(|key| listing.add(&self.prefix, key));
        listing.complete();
        listing
    }

    fn put(&mut self, description: &Description, bytes: Vec<u8>) {
        let key = self.prefix.key(description.key());
        if let Some(folder) = &self.folder {
            let name = format!("{}.object", key.replace('/', "~"));
            let unfinished = folder.join("unfinished");
            std::fs::write(&unfinished, &bytes).expect("it writes");
            std::fs::rename(unfinished, folder.join(name)).expect("it moves");
        }
        assert!(self.objects.insert(key, bytes).is_none(), "no key is written twice");
    }

    /// Captures and ships what was committed; acknowledged at once.
    pub fn ship(&mut self, database: &mut LocalDatabase) -> Option<Captured> {
        let capturing = database.capturing().expect("a captured database");
        let captured = capturing.capture().expect("it captures")?;
        let (at, base) = self.progress.next().expect("nothing is under way");
        let Captured { db_pages, frames, .. } = captured;
        let description = match captured.is_whole {
            true => full(at, base, db_pages, self.progress.reset()),
            false => delta(at, base, db_pages, frames),
        };
        let mut bytes = Vec::new();
        let read = |page: u32, to: &mut [u8]| capturing.read_captured(page, to);
        let hash = encode(&description, captured.changed.iter().copied(), read, &mut bytes)
            .expect("it encodes");
        self.progress.sent(hash, false);
        self.put(&description, bytes);
        self.progress.landed();
        self.unmerged.extend(captured.changed.iter().copied());
        if captured.is_whole {
            self.begin_run();
        }
        Some(captured)
    }

    /// Writes the snapshot at `head`, whose pages were latched.
    pub fn snapshot(&mut self, head: Base, latched: &dyn Latched) {
        if self.listing().contains(ObjectKey::Snapshot(head.at)) {
            return;
        }
        let description = snapshot(head, latched.db_pages(), self.progress.reset());
        let mut bytes = Vec::new();
        let read = |page: u32, to: &mut [u8]| latched.read(page, to);
        encode(&description, whole_pages(latched.db_pages()), read, &mut bytes)
            .expect("it encodes");
        self.put(&description, bytes);
    }

    /// Writes the merged object of this hold's last segments, from the pages as they are now.
    pub fn merge(&mut self, latched: &dyn Latched) {
        let Some(head) = self.progress.head() else { return };
        let pages: Vec<u32> =
            self.unmerged.iter().filter(|page| *page <= latched.db_pages()).collect();
        let is_own = head.at.generation() == self.progress.generation();
        if !is_own || self.unmerged_from >= head.at.seq() || pages.is_empty() {
            return;
        }
        let (from, base) = (self.unmerged_from, self.unmerged_base);
        let description = merged(head, from, base, latched.db_pages(), None);
        let mut bytes = Vec::new();
        let read = |page: u32, to: &mut [u8]| latched.read(page, to);
        encode(&description, pages.into_iter(), read, &mut bytes).expect("it encodes");
        self.put(&description, bytes);
        self.begin_run();
    }

    /// Removes what the snapshot at `head` makes superfluous.
    pub fn collect(&mut self, head: Base) {
        let progress = &self.progress;
        let record = progress.generation();
        let collection = Collection { progress, snapshot: head.at, hold_is_valid: true, record };
        for key in collect(&self.listing(), collection).unwrap_or_default() {
            self.objects.remove(&self.prefix.key(key));
        }
    }

    /// The objects of a chain, newest first.
    fn walk(&self, from: Position) -> (Base, Vec<(Object, &[u8])>) {
        let (listing, mut walk) = (self.listing(), Walk::from(from));
        let mut found = Vec::new();
        loop {
            let wanted = walk.wanted(&listing).expect("a whole chain").expect("a complete listing");
            let Some(key) = wanted.first().copied() else { break };
            let bytes = &self.objects[&self.prefix.key(key)];
            let object = Object::check_bytes(bytes).expect("a whole object");
            if walk.offer(&listing, key, &object) == Offered::Apply {
                found.push((object, bytes.as_slice()));
            }
        }
        (walk.head().expect("the walk is over"), found)
    }

    /// The state after a segment, as a file's bytes, put together by the pure rules.
    pub fn image(&self, from: Position) -> Vec<u8> {
        let (_, objects) = self.walk(from);
        let (mut assembly, mut image) = (Assembly::default(), Vec::new());
        for (object, bytes) in objects {
            let write = |page: u32, bytes: &[u8]| -> Sure<()> {
                let start = page_offset(page) as usize;
                image.resize(image.len().max(start + PAGE_BYTES), 0);
                image[start..start + PAGE_BYTES].copy_from_slice(bytes);
                Ok(())
            };
            apply(&mut assembly, &object, bytes, write);
        }
        let pages = assembly.finish().expect("every page");
        assert_eq!(image.len(), pages as usize * PAGE_BYTES);
        image
    }

    /// Restores the state after a segment to the actor's file.
    pub fn restore(&self, from: Position, files: &dyn LocalFiles) -> Base {
        let (head, objects) = self.walk(from);
        let mut image = files.restore(&address("a")).expect("an image begins");
        let mut assembly = Assembly::default();
        for (object, bytes) in objects {
            apply(&mut assembly, &object, bytes, |page, bytes| image.write(page, bytes));
        }
        image.finish(assembly.finish().expect("every page"), head).expect("it finishes");
        head
    }
}

fn apply<E: std::fmt::Display>(
    assembly: &mut Assembly,
    object: &Object,
    bytes: &[u8],
    write: impl FnMut(u32, &[u8]) -> Result<(), E>,
) {
    let body = object.body();
    let body = &bytes[body.start as usize..body.end as usize];
    assembly.apply(object, body, write).unwrap_or_else(|error| panic!("{error}"));
}

/// The database's file as it is after a checkpoint, by another SQLite on copies of its files.
pub(super) fn checkpointed(path: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.db");
    std::fs::copy(path, &copy).expect("a copy");
    let wal = super::super::sync::wal_path(path);
    if wal.exists() {
        std::fs::copy(&wal, super::super::sync::wal_path(&copy)).expect("a copy");
    }
    let plain = Connection::open(&copy).expect("a connection");
    let done = plain.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, u32>(0));
    assert_eq!(done, Ok(0));
    plain.close().expect("it closes");
    std::fs::read(copy).expect("it reads")
}

/// Whether a file is a sound database.
pub(super) fn is_sound(image: &[u8]) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.db");
    std::fs::write(&copy, image).expect("a copy");
    let plain = Connection::open(&copy).expect("a connection");
    let found = plain.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    found.is_ok_and(|found| found == "ok")
}
