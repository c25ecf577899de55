//! A lost index: what is pending is read again from the actors' databases, where the truth is. What
//! the index alone knew, actors without a database, is lost.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use wasmkeep_supervisors::address::{ActorName, Address, App, Class, Tenant};
use wasmkeep_supervisors::alarm::record::Alarm;
use wasmkeep_supervisors::time::Timestamp;

use super::connection::connect;
use super::index::Index;
use super::sync::wal_path;

const META: &str = "SELECT v FROM _wk_meta WHERE k = ?1";
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_wk_meta')";

/// Opens the index at `path`, made first if it is missing while `state` holds databases. It gets its
/// name once it is whole: a crash meanwhile leaves none, and the next start begins anew.
pub(super) fn open_or_rebuild(path: &Path, state: &Path) -> Result<Index, String> {
    if fs::symlink_metadata(path).is_ok() {
        return Index::open(path);
    }
    let databases = databases_below(state).map_err(|error| error.to_string())?;
    let is_whole = databases.is_empty() || rebuild(path, &databases)?;
    let index = Index::open(path)?;
    if is_whole {
        index.trust().map_err(|fault| fault.to_string())?;
    }
    Ok(index)
}

/// Whether all databases could be read. The actors of those that could not look for themselves
/// (`index_trust`).
fn rebuild(path: &Path, databases: &[PathBuf]) -> Result<bool, String> {
    let unfinished = path.with_extension("tmp");
    // Each without its database is nothing, and would be read as the new one's.
    for left in [wal_path(path), wal_path(&unfinished)] {
        remove(&left).map_err(|error| error.to_string())?;
    }
    let (alarms, unread) = fill(&unfinished, databases)?;
    remove(&wal_path(&unfinished))
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(|error| format!("the index made anew could not be put in its place: {error}"))?;
    let databases = databases.len();
    tracing::warn!(
        databases,
        alarms,
        unread,
        "the index was missing: alarms were read again from the databases; actors without one are \
         taken for new"
    );
    Ok(unread == 0)
}

/// How many alarms were found, and how many databases could not be read.
fn fill(unfinished: &Path, databases: &[PathBuf]) -> Result<(usize, usize), String> {
    let index = Index::open(unfinished)?;
    let (mut alarms, mut unread) = (0, 0);
    for file in databases {
        match pending(file) {
            Ok(None) => {}
            Ok(Some((address, app, due))) => {
                alarms += 1;
                index.set_alarm(&address, &app, Some(due)).map_err(|fault| fault.to_string())?;
            }
            Err(error) => {
                unread += 1;
                tracing::error!(file = %file.display(), %error, "alarm not read");
            }
        }
    }
    index.into_one_file()?;
    Ok((alarms, unread))
}

/// Whose database it is and when its alarm is due, if one is pending.
fn pending(file: &Path) -> rusqlite::Result<Option<(Address, App, Timestamp)>> {
    let connection = connect(file)?;
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    // Only read: what is to be synced before it moves is the actor's business.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    if !connection.query_row(EXISTS, [], |row| row.get(0))? {
        return Ok(None);
    }
    let mut statement = connection.prepare(META)?;
    let mut value = |key: &str| -> rusqlite::Result<Option<String>> {
        statement.query([key])?.next()?.map(|row| row.get(0)).transpose()
    };
    let Some(alarm) = value("alarm")? else { return Ok(None) };
    let address = (|| {
        let tenant = Tenant::parse(&value("tenant").ok()??).ok()?;
        let class = Class::parse(&value("class").ok()??).ok()?;
        let name = ActorName::parse(&value("name").ok()??).ok()?;
        let app = App::parse(&value("app").ok()??).ok()?;
        Some((Address { tenant, class, name }, app))
    })();
    // As the actor takes it: a form nobody knows is due.
    let due = Alarm::from_text(&alarm).map_or(Timestamp(0), |alarm| alarm.due);
    Ok(address.map(|(address, app)| (address, app, due)))
}

fn databases_below(state: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![state.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "db") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
