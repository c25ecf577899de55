//! Brings the data of a node that was on its own into the bucket, before other nodes start. An actor is
//! acquired by the node that is asked for it, and one that never saw its file would begin it anew.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use wasmkeep_supervisors::address::{Address, Tenant};
use wasmkeep_supervisors::ports::{Catalogue, KnownName, LocalFiles};
use wasmkeep_supervisors::tree::Tree;

use crate::database::LocalDatabases;

/// Has the bucket hold every actor that only this node has. Nobody else serves the app meanwhile.
pub async fn adopt_all(
    databases: &Arc<LocalDatabases>,
    tree: &Arc<Tree>,
    tenant: &Tenant,
) -> Result<()> {
    let own = tokio::task::spawn_blocking({
        let (databases, tree, tenant) = (Arc::clone(databases), Arc::clone(tree), tenant.clone());
        move || adoptable(&databases, &tree, &tenant)
    });
    let own = own.await.context("look for data that is not in the bucket")??;
    for address in &own {
        // Opening it is enough: it is adopted before anything is read.
        let adopted = tree.inspect(address, |_| ()).await;
        adopted.with_context(|| format!("bring the data of {address} into the bucket"))?;
    }
    if !own.is_empty() {
        tracing::info!(actors = own.len(), "data of this node alone is in the bucket");
    }
    Ok(())
}

fn adoptable(databases: &LocalDatabases, tree: &Tree, tenant: &Tenant) -> Result<Vec<Address>> {
    let mut own = Vec::new();
    for class in databases.classes(tenant).context("list the classes that have data")? {
        // Nobody reaches those that are not served; a later start brings them.
        if !tree.serves(&class) {
            continue;
        }
        let known = databases.actors(tenant, &class);
        for actor in known.with_context(|| format!("list the actors of the class {class}"))? {
            if !actor.has_file {
                continue;
            }
            let name = match actor.name {
                KnownName::Name(name) => name,
                KnownName::Stem(stem) => bail!(
                    "the file {stem}.db of the class {class} does not tell whose it is: move it out \
                     of the data directory"
                ),
            };
            let address = Address { tenant: tenant.clone(), class: class.clone(), name };
            let is_own = databases.adoptable(&address);
            if is_own.with_context(|| format!("look at the file of {address}"))? {
                own.push(address);
            }
        }
    }
    Ok(own)
}
