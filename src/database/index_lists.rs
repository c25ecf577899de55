//! The index from one end to the other, a page at a time: between two pages whoever else needs the
//! index gets it.

use rusqlite::params;
use wasmkeep_supervisors::address::{ActorName, App, Class, Tenant};
use wasmkeep_supervisors::ports::StorageFault;
use wasmkeep_supervisors::time::Timestamp;

use super::alarm_index::time_out;
use super::index::Index;

const ROWS_OF_A_PAGE: usize = 1_000;

const CLASSES: &str = "SELECT DISTINCT class FROM fileless WHERE tenant = ?1 AND app = ?2 \
                       UNION SELECT DISTINCT class FROM alarms WHERE tenant = ?1 AND app = ?2";
const FILELESS: &str = "SELECT name, 0 FROM fileless \
                        WHERE tenant = ?1 AND app = ?2 AND class = ?3 AND name > ?4 \
                        ORDER BY name LIMIT ?5";
const ALARMS: &str = "SELECT name, due FROM alarms \
                      WHERE tenant = ?1 AND app = ?2 AND class = ?3 AND name > ?4 \
                      ORDER BY name LIMIT ?5";

impl Index {
    pub(super) fn classes(&self, tenant: &Tenant, app: &App) -> Result<Vec<Class>, StorageFault> {
        self.with("read", |open| {
            let mut classes = open.connection.prepare_cached(CLASSES)?;
            let rows = classes.query_map([tenant.as_str(), app.as_str()], |row| row.get(0))?;
            let classes = rows.collect::<rusqlite::Result<Vec<String>>>()?;
            Ok(classes.iter().filter_map(|class| Class::parse(class).ok()).collect())
        })
    }

    pub(super) fn each_fileless(
        &self,
        tenant: &Tenant,
        app: &App,
        class: &Class,
        mut each: impl FnMut(ActorName),
    ) -> Result<(), StorageFault> {
        self.each(FILELESS, [tenant.as_str(), app.as_str(), class.as_str()], |name, _| each(name))
    }

    pub(super) fn each_alarm(
        &self,
        tenant: &Tenant,
        app: &App,
        class: &Class,
        mut each: impl FnMut(ActorName, Timestamp),
    ) -> Result<(), StorageFault> {
        let of = [tenant.as_str(), app.as_str(), class.as_str()];
        self.each(ALARMS, of, |name, due| each(name, time_out(due)))
    }

    fn each(
        &self,
        sql: &str,
        [tenant, app, class]: [&str; 3],
        mut each: impl FnMut(ActorName, i64),
    ) -> Result<(), StorageFault> {
        let mut last = String::new();
        loop {
            let page: Vec<(String, i64)> = self.with("read", |open| {
                let mut page = open.connection.prepare_cached(sql)?;
                let range = params![tenant, app, class, last, ROWS_OF_A_PAGE as i64];
                page.query_map(range, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })?;
            let is_last = page.len() < ROWS_OF_A_PAGE;
            for (name, value) in page {
                // Only legal names are written here.
                if let Ok(name) = ActorName::parse(&name) {
                    each(name, value);
                }
                last = name;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}
