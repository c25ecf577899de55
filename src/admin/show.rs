//! What is known of one actor.

use std::time::Duration;

use tokio::time::timeout;
use wasmkeep_supervisors::address::{Address, App};
use wasmkeep_supervisors::alarm::record::Alarm;
use wasmkeep_supervisors::ports::{Database, Meta, SqlValue, StorageFault};

use super::operator::Operator;
use super::outlook::outlook;
use super::protocol::{ActorRequest, Facts, Failure, FailureKind, NodeFacts};

/// A running event is waited for so long; what stands in the database is left out then.
const WAIT: Duration = Duration::from_secs(2);

const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' \
                      AND name NOT LIKE '\\_wk\\_%' ESCAPE '\\' \
                      AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";

/// What the host's own rows say.
struct Contents {
    tables: Option<u64>,
    initialised_by: Option<String>,
    alarm: Option<Alarm>,
}

impl Operator {
    pub(super) async fn show(&self, request: &ActorRequest) -> Result<Facts, Failure> {
        let (address, app) = request.parse()?;
        let catalogue = self.catalogue(&app);
        let sizes = catalogue.file_sizes(&address).map_err(Failure::failed)?;
        let mut facts = Facts {
            tenant: address.tenant.to_string(),
            app: app.to_string(),
            class: address.class.to_string(),
            name: address.name.to_string(),
            node: self.node_facts(&address, &app),
            ..Facts::default()
        };
        let due = catalogue.indexed_alarm(&address).map_err(Failure::failed)?;
        facts.alarm_ms = due.map(|due| due.0);
        match sizes {
            Some(sizes) => {
                facts.exists = true;
                facts.file = Some(catalogue.file(&address).display().to_string());
                (facts.database_bytes, facts.wal_bytes) = (sizes.database, sizes.wal);
                self.add_contents(&address, &app, &mut facts).await;
            }
            None => {
                facts.initialised_by =
                    catalogue.fileless_init(&address).map_err(Failure::failed)?;
                facts.exists = facts.initialised_by.is_some();
            }
        }
        facts.next_event = outlook(&facts);
        Ok(facts)
    }

    fn node_facts(&self, address: &Address, app: &App) -> NodeFacts {
        let Some(node) = &self.node else { return NodeFacts::default() };
        if !node.has(&address.tenant, app) {
            return NodeFacts { is_running: true, ..NodeFacts::default() };
        }
        let standing = node.tree.standing(address);
        let (component, access) = match standing.served {
            Some(served) => (Some(served.component), Some(served.access.to_string())),
            None => (None, None),
        };
        let quarantined = standing.quarantined.map(|left| left.as_millis());
        NodeFacts {
            is_running: true,
            is_stopping: standing.node_is_stopping,
            component,
            access,
            resident: standing.queue.is_some(),
            is_busy: standing.queue.is_some_and(|queue| queue.is_running),
            queued: standing.queue.map_or(0, |queue| queue.waiting),
            sockets: standing.sockets as u64,
            quarantined_ms: quarantined.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        }
    }

    async fn add_contents(&self, address: &Address, app: &App, facts: &mut Facts) {
        let reading = timeout(WAIT, self.read(address, app, contents)).await;
        let contents = match reading {
            Ok(Ok(Some(Ok(contents)))) => contents,
            // Deleted a moment ago.
            Ok(Ok(None)) => return,
            Ok(Ok(Some(Err(fault)))) => return facts.unread = Some(Failure::failed(fault)),
            Ok(Err(failure)) => return facts.unread = Some(failure),
            Err(_) => {
                let why = format!("busy: an event runs for more than {} s", WAIT.as_secs());
                return facts.unread = Some(Failure::new(FailureKind::Refused, why));
            }
        };
        facts.tables = contents.tables;
        facts.initialised_by = contents.initialised_by;
        facts.alarm_ms = contents.alarm.map(|alarm| alarm.due.0);
        facts.failed_attempts = contents.alarm.map(|alarm| alarm.failures);
    }
}

fn contents(database: &mut dyn Database) -> Result<Contents, StorageFault> {
    let initialised_by = database.meta(Meta::InitComponent)?;
    let alarm = database.meta(Meta::Alarm)?.and_then(|text| Alarm::from_text(&text));
    let counted = database.query_read_only(TABLES, Vec::new(), 1).ok();
    let tables = counted.and_then(|rows| match rows.set.rows.first()?.first()? {
        SqlValue::Integer(count) => u64::try_from(*count).ok(),
        _ => None,
    });
    Ok(Contents { tables, initialised_by, alarm })
}
