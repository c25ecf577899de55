//! An actor's history as far as it has been listed, and where to go on.

use std::collections::BTreeMap;

use crate::address::{Address, App};
use crate::history::{HistoryPrefix, Listing, ObjectKey};
use crate::ports::{Bucket, BucketTime, Doubt, ListError, ListFrom, Wait};

/// What a listing says of an object beside its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub bytes: u64,
    pub modified: Option<BucketTime>,
}

#[derive(Debug, Clone)]
pub struct FoundHistory {
    prefix: HistoryPrefix,
    listing: Listing,
    seen: BTreeMap<ObjectKey, Seen>,
    /// The last key of the pages so far; none before the first.
    after: Option<String>,
    is_complete: bool,
    /// The bucket's clock at the first page.
    date: Option<BucketTime>,
}

impl FoundHistory {
    /// Nothing of it has been listed yet.
    pub fn new(address: &Address, app: &App) -> Self {
        Self {
            prefix: HistoryPrefix::new(address, app),
            listing: Listing::default(),
            seen: BTreeMap::new(),
            after: None,
            is_complete: false,
            date: None,
        }
    }

    /// Lists one page more, older than those before.
    pub async fn more(&mut self, bucket: &dyn Bucket, keys_max: u16) -> Result<(), ListError> {
        let prefix = self.prefix.as_str();
        let from = ListFrom { prefix, after: self.after.as_deref(), keys_max };
        let page = bucket.list(from, Wait::Record).await?;
        let last = page.objects.last().map(|last| last.key.as_str());
        if page.has_more && last <= self.after.as_deref() {
            // The next page would be this one again.
            let cause = "a page that is not the last has no further keys".to_owned();
            return Err(ListError::Unknown(Doubt::Unreadable(cause)));
        }
        self.date = self.date.or(page.date);
        for listed in &page.objects {
            self.listing.add(&self.prefix, &listed.key);
            if let Some(key) = self.prefix.object(&listed.key) {
                let seen = Seen { bytes: listed.bytes, modified: listed.modified };
                self.seen.insert(key, seen);
            }
        }
        self.after = page.objects.last().map(|last| last.key.clone()).or(self.after.take());
        if !page.has_more {
            self.listing.complete();
            self.is_complete = true;
        }
        Ok(())
    }

    pub fn prefix(&self) -> &HistoryPrefix {
        &self.prefix
    }

    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The objects listed so far, newest first.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectKey, Seen)> + '_ {
        self.seen.iter().map(|(key, seen)| (*key, *seen))
    }

    pub fn seen(&self, key: ObjectKey) -> Option<Seen> {
        self.seen.get(&key).copied()
    }

    pub fn date(&self) -> Option<BucketTime> {
        self.date
    }
}
