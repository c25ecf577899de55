//! Reads what an operator asked for, from the data directory or, where a process owns a database,
//! by a turn in its queue.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use wasmkeep_supervisors::actor::InspectError;
use wasmkeep_supervisors::address::{Address, App, Class, Tenant};
use wasmkeep_supervisors::limits::WALL_BUDGET;
use wasmkeep_supervisors::ports::{
    Catalogue, Database, KnownActor, KnownName, Left, SomeRows, SqlError, SqlValue,
};
use wasmkeep_supervisors::time::Timestamp;
use wasmkeep_supervisors::tree::Tree;

use super::protocol::{ActorRequest, Failure, FailureKind, ListRequest, ListedActor, SqlRequest};

/// A command that works on a stopped node's data ends when its operator ends it.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The databases of an app.
type Catalogues = Box<dyn Fn(&App) -> Arc<dyn Catalogue> + Send + Sync>;

/// Answers operators, for a node or for a data directory that no node runs on.
pub struct Operator {
    catalogues: Catalogues,
    pub(super) node: Option<RunningNode>,
    /// Databases that no process can have open are opened here, one at a time.
    direct: Mutex<()>,
}

/// A node that runs, and whose actors it has.
pub struct RunningNode {
    pub tree: Arc<Tree>,
    pub tenant: Tenant,
    pub app: App,
    /// Moves the node's clock on, if that is one that stands; what it shows then.
    pub advance: Option<Advance>,
}

pub type Advance = Box<dyn Fn(Duration) -> Timestamp + Send + Sync>;

impl RunningNode {
    /// Whether the actor may have a process of this node.
    fn serves(&self, address: &Address, app: &App) -> bool {
        self.has(&address.tenant, app) && self.tree.serves(&address.class)
    }

    pub(super) fn has(&self, tenant: &Tenant, app: &App) -> bool {
        self.tenant == *tenant && self.app == *app
    }
}

impl Operator {
    pub fn new(
        catalogues: impl Fn(&App) -> Arc<dyn Catalogue> + Send + Sync + 'static,
        node: Option<RunningNode>,
    ) -> Self {
        Self { catalogues: Box::new(catalogues), node, direct: Mutex::new(()) }
    }

    pub(super) fn catalogue(&self, app: &App) -> Arc<dyn Catalogue> {
        (self.catalogues)(app)
    }

    /// Runs `read` on the actor's database; none when it has none.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        address: &Address,
        app: &App,
        read: impl FnOnce(&mut dyn Database) -> T + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        if let Some(node) = &self.node
            && node.serves(address, app)
        {
            return node.tree.inspect(address, read).await.map_err(|error| not_read(&error));
        }
        let catalogue = self.catalogue(app);
        let _alone = self.direct.lock().await;
        if !catalogue.has_file(address) {
            return Ok(None);
        }
        let mut database = catalogue.open(address).map_err(Failure::failed)?;
        let time = if self.node.is_some() { WALL_BUDGET } else { NO_DEADLINE };
        database.begin_inspection(Instant::now() + time, Left::default());
        let answer = read(&mut *database);
        if let Err(fault) = database.close() {
            // What was committed is in the WAL beside the file, and is read from there.
            tracing::warn!(actor = %address, error = %fault, "close failed");
        }
        Ok(Some(answer))
    }

    /// Has an actor leave memory, if it is idle.
    pub(super) async fn hibernate(&self, request: &ActorRequest) -> Result<(), Failure> {
        let (address, app) = request.parse()?;
        let Some(node) = self.node.as_ref().filter(|node| node.serves(&address, &app)) else {
            return Ok(());
        };
        if node.tree.hibernate(&address).await {
            return Ok(());
        }
        Err(Failure::new(FailureKind::Refused, "the actor has events: it sleeps when it is idle"))
    }

    /// Moves the node's clock on, and lets what follows from that begin.
    pub(super) async fn advance(&self, by: Duration) -> Result<Timestamp, Failure> {
        let advanced = self.node.as_ref().and_then(|node| Some((node, node.advance.as_ref()?)));
        let Some((node, advance)) = advanced else {
            return Err(Failure::new(
                FailureKind::Refused,
                "no node with a clock that can be moved runs here: start it with --clock manual",
            ));
        };
        let now = advance(by);
        node.tree.clock_moved(by).await;
        Ok(now)
    }

    /// Hands the actors that were asked for to `each`, sorted by class and name, until it has
    /// enough. Blocks on the disk.
    pub(super) fn list(
        &self,
        request: &ListRequest,
        mut each: impl FnMut(ListedActor) -> bool,
    ) -> Result<(), Failure> {
        let (tenant, app) = request.which.parse()?;
        let catalogue = self.catalogue(&app);
        let classes = match &request.class {
            Some(class) => vec![Class::parse(class).map_err(Failure::bad_request)?],
            None => catalogue.classes(&tenant).map_err(Failure::failed)?,
        };
        for class in classes {
            for known in catalogue.actors(&tenant, &class).map_err(Failure::failed)? {
                if !is_wanted(&known, request) {
                    continue;
                }
                let listed = self.listed(&*catalogue, (&tenant, &app, &class), known)?;
                let is_large = listed.database_bytes + listed.wal_bytes >= request.min_bytes;
                if is_large && !each(listed) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn listed(
        &self,
        catalogue: &dyn Catalogue,
        (tenant, app, class): (&Tenant, &App, &Class),
        KnownActor { name, has_file, alarm }: KnownActor,
    ) -> Result<ListedActor, Failure> {
        let mut listed = ListedActor {
            class: class.to_string(),
            name: None,
            stem: None,
            has_file,
            database_bytes: 0,
            wal_bytes: 0,
            alarm_ms: alarm.map(|due| due.0),
            resident: self.node.as_ref().map(|_| false),
            sockets: self.node.as_ref().map(|_| 0),
        };
        let name = match name {
            KnownName::Name(name) => name,
            KnownName::Stem(stem) => return Ok(ListedActor { stem: Some(stem), ..listed }),
        };
        listed.name = Some(name.to_string());
        let address = Address { tenant: tenant.clone(), class: class.clone(), name };
        if has_file {
            let sizes = catalogue.file_sizes(&address).map_err(Failure::failed)?;
            let sizes = sizes.unwrap_or_default();
            (listed.database_bytes, listed.wal_bytes) = (sizes.database, sizes.wal);
        }
        if let Some(node) = self.node.as_ref().filter(|node| node.has(tenant, app)) {
            listed.resident = Some(node.tree.is_resident(&address));
            listed.sockets = Some(node.tree.sockets_of(&address) as u64);
        }
        Ok(listed)
    }

    pub(super) async fn sql(&self, request: SqlRequest) -> Result<SomeRows, Failure> {
        let (address, app) = request.actor.parse()?;
        let SqlRequest { sql, params, rows_max, .. } = request;
        let params =
            params.into_iter().map(SqlValue::try_from).collect::<Result<Vec<_>, Failure>>()?;
        let rows = self
            .read(&address, &app, move |database| database.query_read_only(&sql, params, rows_max))
            .await?
            .ok_or_else(|| self.no_database(&address, &app))?;
        rows.map_err(|error| match error {
            SqlError::NotAllowed(why) => Failure::new(FailureKind::Refused, why),
            SqlError::Invalid(text) | SqlError::Internal(text) => Failure::failed(text),
            error => Failure::failed(error),
        })
    }

    /// A plain SQLite file of the actor's database, opened and without a name.
    pub(super) async fn export(&self, request: &ActorRequest) -> Result<File, Failure> {
        let (address, app) = request.parse()?;
        let catalogue = self.catalogue(&app);
        let path = catalogue.new_export();
        let _removed = Removed(&path);
        let to = path.clone();
        self.read(&address, &app, move |database| database.export_to(&to))
            .await?
            .ok_or_else(|| self.no_database(&address, &app))?
            .map_err(Failure::failed)?;
        catalogue.finish_export(&path).map_err(Failure::failed)?;
        File::open(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    }

    fn no_database(&self, address: &Address, app: &App) -> Failure {
        let known = self.catalogue(app).fileless_init(address);
        let why = if matches!(known, Ok(Some(_))) {
            "has no database: it never stored anything"
        } else {
            "does not exist"
        };
        let message = format!("the actor {} {why}", shown(address));
        Failure::new(FailureKind::NoSuchActor, message)
    }
}

/// `class/name`, the name as it is.
pub(super) fn shown(address: &Address) -> String {
    format!("{}/{}", address.class, address.name)
}

pub(super) fn not_read(error: &InspectError) -> Failure {
    match error {
        InspectError::Refused(refusal) => Failure::new(FailureKind::Refused, refusal.to_string()),
        InspectError::NotOpened(error) => Failure::failed(error),
    }
}

fn is_wanted(known: &KnownActor, request: &ListRequest) -> bool {
    if request.with_alarm && known.alarm.is_none() {
        return false;
    }
    match (&request.prefix, &known.name) {
        (None, _) => true,
        (Some(prefix), KnownName::Name(name)) => name.as_str().starts_with(prefix.as_str()),
        (Some(_), KnownName::Stem(_)) => false,
    }
}

/// The name of a file goes when its use is over, however that ends.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}
