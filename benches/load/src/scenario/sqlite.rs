//! SQLite in a loop, without anything around it: the limit of what actors can write.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;

use super::{Measured, Stage};
use crate::client::Seen;
use crate::target::Kind;

const ROWS: u64 = 100;

/// What the write of an actor does, on so many databases in turns, if that is what is measured.
pub fn instead(stage: &Stage, databases: u64) -> Result<Option<Measured>> {
    let synchronous = match stage.kind {
        Kind::RawSqlite => "NORMAL",
        Kind::RawSqliteFull => "FULL",
        _ => return Ok(None),
    };
    let folder = stage.places.folder()?;
    let open = |number| open(&folder.path().join(format!("{number}.db")), synchronous);
    let connections = (0..databases).map(open).collect::<Result<Vec<_>>>()?;
    timed(stage, |number| write(&connections[(number % databases) as usize], number)).map(Some)
}

/// A file copied from a template that has the table, opened and written to.
pub fn create(stage: &Stage) -> Result<Measured> {
    let folder = stage.places.folder()?;
    let template = folder.path().join("template.db");
    open(&template, "NORMAL")?.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    timed(stage, |number| {
        let path = folder.path().join(format!("{number}.db"));
        std::fs::copy(&template, &path)?;
        write(&open(&path, "NORMAL")?, number)
    })
}

fn open(path: &Path, synchronous: &str) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
         CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v INTEGER NOT NULL)"
    ))?;
    Ok(connection)
}

fn write(connection: &Connection, number: u64) -> Result<()> {
    let row = (number % ROWS) as i64;
    let write = "INSERT INTO t VALUES (?, 1) ON CONFLICT (k) DO UPDATE SET v = v + 1";
    connection.prepare_cached(write)?.execute([row])?;
    let read = "SELECT v FROM t WHERE k = ?";
    connection.prepare_cached(read)?.query_row([row], |row| row.get::<_, i64>(0))?;
    Ok(())
}

fn timed(stage: &Stage, mut work: impl FnMut(u64) -> Result<()>) -> Result<Measured> {
    let own = || crate::process::cpu(std::process::id());
    let (mut seen, before, began) = (Seen::nothing(), own()?, Instant::now());
    for number in 0.. {
        if began.elapsed() >= stage.time {
            break;
        }
        let at = Instant::now();
        work(number)?;
        seen.note(at.elapsed());
    }
    seen.took = began.elapsed();
    let cpu: Duration = own()?.saturating_sub(before);
    Ok(Measured::new(Some(seen.rate()), seen.count(), seen.latencies, Some(cpu)))
}
