//! Tests on real files, through the port.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;
use wasmkeep_supervisors::address::{ActorName, Address, App, Class, Tenant};
use wasmkeep_supervisors::ports::{Database, SqlError, SqlValue};

use super::connection::LocalDatabase;
use super::{DataDir, DatabaseConfig, LocalDatabases};

mod budgets;
mod capture;
mod captured_crash;
mod copies;
mod costs;
mod crash;
mod durability;
mod files;
mod functions;
mod held;
mod history;
mod inspect;
mod random_sql;
mod sandbox;
mod settings;
mod statements;
mod workload;

/// A small generator: rounds must differ, and a failure must be repeatable by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A data directory that goes with the test.
struct Node {
    databases: LocalDatabases,
    directory: TempDir,
}

impl Node {
    fn new() -> Self {
        Self::with(patient())
    }

    fn with(config: DatabaseConfig) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let databases = databases(&directory.path().join("data"), config);
        Self { databases, directory }
    }

    /// As after a stop and a start of the server.
    fn restart(self) -> Self {
        let Self { databases, directory } = self;
        drop(databases);
        let databases = self::databases(&directory.path().join("data"), patient());
        Self { databases, directory }
    }

    fn open(&self, name: &str) -> LocalDatabase {
        let mut database = self.databases.open_file(&address(name)).expect("the database opens");
        database.begin_event(in_30_s());
        database
    }

    fn path(&self, name: &str) -> PathBuf {
        self.databases.path(&address(name))
    }

    fn wal(&self, name: &str) -> PathBuf {
        super::sync::wal_path(&self.path(name))
    }
}

fn databases(path: &std::path::Path, config: DatabaseConfig) -> LocalDatabases {
    let data_dir = DataDir::open(path).expect("the data directory opens");
    LocalDatabases::new(Arc::new(data_dir), App::default_app(), config)
}

/// The default, but for the CPU of SQL: what a slow machine takes for megabytes is a test's business
/// only where it sets the budget itself.
fn patient() -> DatabaseConfig {
    DatabaseConfig { sql_cpu_budget: Duration::from_secs(120), ..DatabaseConfig::default() }
}

fn address(name: &str) -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("counter").expect("a legal class"),
        name: ActorName::parse(name).expect("a legal name"),
    }
}

fn in_30_s() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// Short forms for statements without parameters.
impl LocalDatabase {
    fn run_ok(&mut self, sql: &str) -> u64 {
        self.exec(sql, vec![]).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn run_err(&mut self, sql: &str) -> SqlError {
        self.exec(sql, vec![]).err().unwrap_or_else(|| panic!("{sql}: it ran"))
    }

    fn rows(&mut self, sql: &str) -> Vec<Vec<SqlValue>> {
        self.query(sql, vec![]).unwrap_or_else(|error| panic!("{sql}: {error}")).rows
    }

    fn integer(&mut self, sql: &str) -> i64 {
        match self.rows(sql).as_slice() {
            [row] => match row.as_slice() {
                [SqlValue::Integer(value)] => *value,
                other => panic!("{sql}: {other:?}"),
            },
            other => panic!("{sql}: {} rows", other.len()),
        }
    }

    fn text(&mut self, sql: &str) -> String {
        match self.rows(sql).as_slice() {
            [row] => match row.as_slice() {
                [SqlValue::Text(value)] => value.clone(),
                other => panic!("{sql}: {other:?}"),
            },
            other => panic!("{sql}: {} rows", other.len()),
        }
    }
}

fn is_quota(error: &SqlError) -> bool {
    matches!(error, SqlError::QuotaExceeded(_))
}

fn is_refused(error: &SqlError) -> bool {
    matches!(error, SqlError::NotAllowed(_))
}
