use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use sha2::{Digest, Sha256};

#[derive(Clone)]
pub struct Stored {
    pub body: Bytes,
    /// Without quotes; of the body alone, as in the stores there are.
    pub etag: String,
    pub modified: SystemTime,
}

/// All objects, under one lock.
#[derive(Default)]
pub struct Objects(Mutex<State>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Stored>,
    /// Keys that are being written now, and by how many.
    writers: HashMap<String, u32>,
}

impl Objects {
    pub fn get(&self, key: &str) -> Option<Stored> {
        self.state().objects.get(key).cloned()
    }

    /// Writes if `check` lets it, at one moment.
    pub fn put<E>(
        &self,
        key: &str,
        body: Bytes,
        check: impl FnOnce(Option<&Stored>) -> Result<(), E>,
    ) -> Result<Stored, E> {
        let mut state = self.state();
        check(state.objects.get(key))?;
        let hash = Sha256::digest(&body);
        let etag = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let stored = Stored { body, etag, modified: SystemTime::now() };
        state.objects.insert(key.to_owned(), stored.clone());
        Ok(stored)
    }

    pub fn remove<E>(
        &self,
        key: &str,
        check: impl FnOnce(Option<&Stored>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = self.state();
        check(state.objects.get(key))?;
        state.objects.remove(key);
        Ok(())
    }

    /// Up to `most` objects after a key, and whether there are more.
    pub fn page(&self, prefix: &str, after: &str, most: usize) -> (Vec<(String, Stored)>, bool) {
        let state = self.state();
        let start = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let mut found = state
            .objects
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        let page = found.by_ref().take(most);
        let page = page.map(|(key, stored)| (key.clone(), stored.clone())).collect();
        (page, found.next().is_some())
    }

    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    /// Marks a write of the key as begun; how many are under way.
    pub fn begin_write(&self, key: &str) -> u32 {
        let mut state = self.state();
        let writers = state.writers.entry(key.to_owned()).or_default();
        *writers += 1;
        *writers
    }

    /// How many writes of the key were under way, this one included, when it ends.
    pub fn end_write(&self, key: &str) -> u32 {
        let mut state = self.state();
        let Some(writers) = state.writers.get_mut(key) else { return 0 };
        let were = *writers;
        *writers -= 1;
        if were == 1 {
            state.writers.remove(key);
        }
        were
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
