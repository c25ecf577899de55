//! The ownership records of one actor that landed, and which may follow which.

use std::collections::BTreeMap;

use wasmkeep_supervisors::address::{Address, App, NodeId};
use wasmkeep_supervisors::history::Generation;
use wasmkeep_supervisors::lease::Session;
use wasmkeep_supervisors::ownership::{Holder, OwnerRecord, owner_key};

pub struct Records {
    key: String,
    last: Option<OwnerRecord>,
    holders: BTreeMap<Generation, (NodeId, Session)>,
}

impl Records {
    pub fn new(address: &Address, app: &App) -> Self {
        Self { key: owner_key(address, app), last: None, holders: BTreeMap::new() }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether another node's hold was taken.
    pub fn landed(&mut self, body: &[u8]) -> Result<bool, String> {
        let next = OwnerRecord::decode(body).map_err(|error| format!("{}: {error}", self.key))?;
        let last = self.last.replace(next.clone());
        let before = last.as_ref().map(|last| last.generation);
        match &next.holder {
            Holder::Held { node, session } => {
                if before.is_some_and(|before| next.generation <= before) {
                    return Err(format!("generation {} follows {before:?}", next.generation));
                }
                let holder = (node.clone(), *session);
                if let Some(other) = self.holders.insert(next.generation, holder) {
                    return Err(format!(
                        "generation {} is given twice: {other:?}",
                        next.generation
                    ));
                }
                let is_taken = |last: OwnerRecord| match last.holder {
                    Holder::Held { node: of, .. } => of != *node,
                    Holder::Free { .. } => false,
                };
                Ok(last.is_some_and(is_taken))
            }
            Holder::Free { .. } => match last.map(|last| (last.generation, last.holder)) {
                Some((of, Holder::Held { .. })) if of == next.generation => Ok(false),
                other => Err(format!("free in {} follows {other:?}", next.generation)),
            },
        }
    }
}
