//! What a node remembers of actors that it released, so that waking one costs one write.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::shared::State;
use crate::address::Address;
use crate::limits::RELEASES_KEPT_MAX;
use crate::ownership::Released;

pub(super) struct Kept {
    pub released: Released,
    /// Of the hold that was released.
    pub state: State,
}

#[derive(Default)]
pub(super) struct Releases(Mutex<BTreeMap<Address, Kept>>);

impl Releases {
    pub fn keep(&self, address: Address, kept: Kept) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= RELEASES_KEPT_MAX {
            // Any will do: without it the history is listed.
            all.pop_first();
        }
        all.insert(address, kept);
    }

    pub fn take(&self, address: &Address) -> Option<Kept> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(address)
    }
}
