//! The node's index of alarms: when which actor's is due, so that a start opens no database to find
//! out, and the timer reads only what is due.
//!
//! The truth is in the actors' databases; `supervisors::alarm` says how the two stay together.

use rusqlite::{OptionalExtension, params};
use wasmkeep_supervisors::address::{ActorName, Address, App, Class, Tenant};
use wasmkeep_supervisors::ports::StorageFault;
use wasmkeep_supervisors::time::Timestamp;

use super::index::Index;

const GET: &str = "SELECT due FROM alarms \
                   WHERE tenant = ?1 AND app = ?2 AND class = ?3 AND name = ?4";
const SET: &str = "INSERT INTO alarms VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT DO UPDATE SET due = excluded.due";
const REMOVE: &str = "DELETE FROM alarms \
                      WHERE tenant = ?1 AND app = ?2 AND class = ?3 AND name = ?4";
const DUE: &str = "SELECT due, name FROM alarms \
                   WHERE tenant = ?1 AND app = ?2 AND class = ?3 AND due <= ?4 \
                   ORDER BY due LIMIT ?5";
const NEXT: &str = "SELECT min(due) FROM alarms \
                    WHERE tenant = ?1 AND app = ?2 AND class = ?3 AND due > ?4";

impl Index {
    pub(super) fn alarm(&self, of: &Address, app: &App) -> Result<Option<Timestamp>, StorageFault> {
        self.with("read", |open| {
            let key =
                params![of.tenant.as_str(), app.as_str(), of.class.as_str(), of.name.as_str()];
            let mut get = open.connection.prepare_cached(GET)?;
            let due: Option<i64> = get.query_row(key, |row| row.get(0)).optional()?;
            Ok(due.map(time_out))
        })
    }

    pub(super) fn set_alarm(
        &self,
        of: &Address,
        app: &App,
        due: Option<Timestamp>,
    ) -> Result<(), StorageFault> {
        self.with("write", |open| {
            let (tenant, class, name) = (of.tenant.as_str(), of.class.as_str(), of.name.as_str());
            let changed = match due {
                Some(due) => {
                    let row = params![tenant, app.as_str(), class, name, time_in(due)];
                    open.connection.prepare_cached(SET)?.execute(row)?
                }
                None => {
                    let key = params![tenant, app.as_str(), class, name];
                    open.connection.prepare_cached(REMOVE)?.execute(key)?
                }
            };
            if changed > 0 { open.wrote() } else { Ok(()) }
        })
    }

    pub(super) fn alarms_due(
        &self,
        app: &App,
        tenant: &Tenant,
        class: &Class,
        by: Timestamp,
        most: usize,
    ) -> Result<Vec<(Timestamp, Address)>, StorageFault> {
        self.with("read", |open| {
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let range = params![tenant.as_str(), app.as_str(), class.as_str(), time_in(by), most];
            let mut due = open.connection.prepare_cached(DUE)?;
            let rows =
                due.query_map(range, |row| Ok((time_out(row.get(0)?), row.get::<_, String>(1)?)))?;
            let mut found = Vec::new();
            for row in rows {
                let (due, name) = row?;
                // Only legal names are written here.
                let Ok(name) = ActorName::parse(&name) else { continue };
                let (tenant, class) = (tenant.clone(), class.clone());
                found.push((due, Address { tenant, class, name }));
            }
            Ok(found)
        })
    }

    pub(super) fn next_alarm(
        &self,
        app: &App,
        tenant: &Tenant,
        class: &Class,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StorageFault> {
        self.with("read", |open| {
            let range = params![tenant.as_str(), app.as_str(), class.as_str(), time_in(after)];
            let mut next = open.connection.prepare_cached(NEXT)?;
            let due: Option<i64> = next.query_row(range, |row| row.get(0))?;
            Ok(due.map(time_out))
        })
    }
}

/// Beyond what SQLite holds it is some 290 million years off: early by then.
fn time_in(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

pub(super) fn time_out(time: i64) -> Timestamp {
    Timestamp(u64::try_from(time).unwrap_or(0))
}
