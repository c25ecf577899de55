//! `ports::Catalogue`: what is in the data directory, read from names of files and from the index.
//!
//! Databases stay closed, but for those whose actor's name was too long for a file's name: that
//! stands inside. Such a file is opened here only while nobody else has it open, and whoever wants
//! to open it waits (`LongNames`): without locks, two connections would not know of each other.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{OptionalExtension, config::DbConfig};
use wasmkeep_supervisors::address::{ActorName, Address, Class, Tenant};
use wasmkeep_supervisors::ports::{Catalogue, FileSizes, KnownActor, KnownName, StorageFault};

use super::connection::connect_existing;
use super::data_dir::{EXPORT, UNFINISHED};
use super::files::{LocalDatabases, fault, length};
use super::inspect;
use super::sync::{remove_empty_wal, wal_path};

const SUFFIX: &str = ".db";
const NAME: &str = "SELECT v FROM _wk_meta WHERE k = 'name'";

/// The files that are open now and whose names are shortened, with the actors' whole names.
#[derive(Debug, Default)]
pub(super) struct LongNames(Mutex<HashMap<PathBuf, ActorName>>);

/// A file stands in `LongNames` until this is dropped.
#[derive(Debug)]
pub(super) struct OpenLongName {
    names: Arc<LongNames>,
    path: PathBuf,
}

impl LongNames {
    /// Says that a file is about to be opened, if its name is shortened.
    pub(super) fn open(self: &Arc<Self>, path: &Path, name: &ActorName) -> Option<OpenLongName> {
        if !ActorName::is_shortened(&name.stem()) {
            return None;
        }
        self.lock().insert(path.to_owned(), name.clone());
        Some(OpenLongName { names: Arc::clone(self), path: path.to_owned() })
    }

    /// The name of the actor whose file this is.
    fn read(&self, path: &Path) -> Option<ActorName> {
        let open = self.lock();
        if let Some(name) = open.get(path) {
            return Some(name.clone());
        }
        // Under the lock, so that nobody opens it meanwhile.
        let read = read_name(path);
        drop(open);
        match read {
            Ok(text) => text.and_then(|text| ActorName::parse(&text).ok()),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "name not read");
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, ActorName>> {
        // One insertion or removal at a time: whole after a panic anywhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenLongName {
    fn drop(&mut self) {
        self.names.lock().remove(&self.path);
    }
}

fn read_name(path: &Path) -> rusqlite::Result<Option<String>> {
    let connection = connect_existing(path)?;
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA query_only = ON;")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let name = connection.query_row(NAME, [], |row| row.get(0)).optional();
    drop(connection);
    // What stays is opened with the database, and removed then.
    let _ = remove_empty_wal(path);
    name
}

impl Catalogue for LocalDatabases {
    fn classes(&self, tenant: &Tenant) -> Result<Vec<Class>, StorageFault> {
        let folder = self.folder(tenant);
        let mut classes = self.data_dir.index().classes(tenant, &self.app)?;
        classes.extend(names_in(&folder)?.iter().filter_map(|name| Class::parse(name).ok()));
        classes.sort();
        classes.dedup();
        Ok(classes)
    }

    fn actors(&self, tenant: &Tenant, class: &Class) -> Result<Vec<KnownActor>, StorageFault> {
        let mut found = self.files_of(tenant, class)?;
        let index = self.data_dir.index();
        index.each_fileless(tenant, &self.app, class, |name| {
            found.entry(KnownName::Name(name)).or_default();
        })?;
        index.each_alarm(tenant, &self.app, class, |name, due| {
            let found = found.entry(KnownName::Name(name)).or_default();
            // Those that are to look for themselves (`index_trust`) may have none.
            found.alarm = Some(due).filter(|due| due.0 > 0);
        })?;
        let known = found.into_iter().map(|(name, Found { has_file, alarm })| KnownActor {
            name,
            has_file,
            alarm,
        });
        Ok(known.collect())
    }

    fn file_sizes(&self, address: &Address) -> Result<Option<FileSizes>, StorageFault> {
        let path = self.path(address);
        let Some(database) = length(&path)? else { return Ok(None) };
        let wal = length(&wal_path(&path))?.unwrap_or_default();
        Ok(Some(FileSizes { database, wal }))
    }

    fn file(&self, address: &Address) -> PathBuf {
        self.path(address)
    }

    fn new_export(&self) -> PathBuf {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        self.data_dir.path().join(format!("{EXPORT}{process}-{made}.{UNFINISHED}"))
    }

    fn finish_export(&self, file: &Path) -> Result<(), StorageFault> {
        inspect::finish(file)
    }
}

/// What is gathered of an actor.
#[derive(Default)]
struct Found {
    has_file: bool,
    alarm: Option<wasmkeep_supervisors::time::Timestamp>,
}

impl LocalDatabases {
    /// `state/<tenant>/<app>`
    fn folder(&self, tenant: &Tenant) -> PathBuf {
        self.data_dir.state().join(tenant.as_str()).join(self.app.as_str())
    }

    fn files_of(
        &self,
        tenant: &Tenant,
        class: &Class,
    ) -> Result<BTreeMap<KnownName, Found>, StorageFault> {
        let folder = self.folder(tenant).join(class.as_str());
        let mut found = BTreeMap::new();
        for shard in names_in(&folder)? {
            let shard = folder.join(shard);
            for file in names_in(&shard)? {
                let Some(stem) = file.strip_suffix(SUFFIX) else { continue };
                let name = self.name_of(&shard.join(&file), stem);
                found.insert(name, Found { has_file: true, alarm: None });
            }
        }
        Ok(found)
    }

    fn name_of(&self, path: &Path, stem: &str) -> KnownName {
        let name = ActorName::from_stem(stem).or_else(|| {
            let shortened = ActorName::is_shortened(stem);
            let name = shortened.then(|| self.data_dir.long_names().read(path)).flatten();
            name.filter(|name| name.stem() == stem)
        });
        name.map_or_else(|| KnownName::Stem(stem.to_owned()), KnownName::Name)
    }
}

/// The names in a folder, none when it is not there. What is not UTF-8 is not ours.
fn names_in(folder: &Path) -> Result<Vec<String>, StorageFault> {
    let names = || -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    };
    match names() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        names => names.map_err(|error| fault("list", folder, &error)),
    }
}
