//! Answers operators: on the socket of a running node, and for a data directory without one.

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use wasmkeep_supervisors::address::{App, Tenant};
use wasmkeep_supervisors::ports::Catalogue;
use wasmkeep_supervisors::tree::Tree;

use super::clock::ManualClock;
use crate::admin::{AdminServer, Advance, Operator, RunningNode};
use crate::database::{DataDir, DataDirError, DatabaseConfig, LocalDatabases};

#[derive(Debug, Error)]
pub enum OfflineError {
    /// Somebody else has the data directory: a node, which may answer itself.
    #[error("{0}")]
    InUse(DataDirError),
    #[error("{0}")]
    Unusable(DataDirError),
}

/// Opens a data directory that no node runs on. None starts while the operator is there.
pub fn offline(data_dir: &Path) -> Result<Operator, OfflineError> {
    let data_dir = DataDir::open_for_command(data_dir).map_err(|error| match error {
        DataDirError::InUse { .. } => OfflineError::InUse(error),
        error => OfflineError::Unusable(error),
    })?;
    Ok(operator(Arc::new(data_dir), None))
}

/// Answers for a node that runs.
pub fn of_node(
    data_dir: &Arc<DataDir>,
    tree: &Arc<Tree>,
    tenant: &Tenant,
    app: &App,
    clock: Option<Arc<ManualClock>>,
) -> Arc<Operator> {
    let node = RunningNode {
        tree: Arc::clone(tree),
        tenant: tenant.clone(),
        app: app.clone(),
        advance: clock.map(|clock| -> Advance { Box::new(move |by| clock.advance(by)) }),
    };
    Arc::new(operator(Arc::clone(data_dir), Some(node)))
}

/// Listens for commands on this machine. A node without that socket serves all the same.
pub fn listen(data_dir: &Arc<DataDir>, operator: Arc<Operator>) -> Option<AdminServer> {
    AdminServer::start(data_dir.path(), operator)
        .inspect_err(|error| {
            tracing::warn!(%error, "no admin socket: operators' commands find no running node");
        })
        .ok()
}

fn operator(data_dir: Arc<DataDir>, node: Option<RunningNode>) -> Operator {
    let catalogue = move |app: &App| -> Arc<dyn Catalogue> {
        let (data_dir, config) = (Arc::clone(&data_dir), DatabaseConfig::default());
        Arc::new(LocalDatabases::new(data_dir, app.clone(), config))
    };
    Operator::new(catalogue, node)
}
