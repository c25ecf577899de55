//! A bucket in memory that does what the port promises. Its versions are hashes of bodies, so that a
//! body written twice has one version, as in the buckets there are.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::ManualClock;
use crate::limits::BUCKET_PAGE_KEYS_MAX;
use crate::ports::{
    Bucket, BucketFuture, BucketTime, Clock, Cond, DeleteError, Denial, ETag, GetError, ListError,
    ListFrom, Listed, Object, Page, PutError, Wait, Written,
};

/// Clones are the same bucket.
#[derive(Clone)]
pub struct MemoryBucket(Arc<Shared>);

struct Shared {
    clock: ManualClock,
    objects: Mutex<BTreeMap<String, Stored>>,
}

struct Stored {
    body: Bytes,
    etag: ETag,
    modified: BucketTime,
}

impl MemoryBucket {
    /// With this clock, of which it tells whole seconds.
    pub fn new(clock: ManualClock) -> Self {
        Self(Arc::new(Shared { clock, objects: Mutex::default() }))
    }

    pub fn keys(&self) -> Vec<String> {
        self.objects().keys().cloned().collect()
    }

    pub fn body(&self, key: &str) -> Option<Bytes> {
        self.objects().get(key).map(|stored| stored.body.clone())
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        self.0.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> BucketTime {
        BucketTime(self.0.clock.now().0 / 1000 * 1000)
    }

    pub(super) fn read(&self, key: &str) -> Result<Object, GetError> {
        check(key).map_err(GetError::Denied)?;
        let objects = self.objects();
        let Stored { body, etag, modified } = objects.get(key).ok_or(GetError::Missing)?;
        let (body, etag) = (body.clone(), etag.clone());
        Ok(Object { body, etag, modified: Some(*modified), date: Some(self.now()) })
    }

    pub(super) fn write(&self, key: &str, body: Bytes, cond: &Cond) -> Result<Written, PutError> {
        check(key).map_err(PutError::Denied)?;
        let mut objects = self.objects();
        match (cond, objects.get(key)) {
            (Cond::Absent, Some(_)) => return Err(PutError::Mismatch),
            (Cond::Match(_), None) => return Err(PutError::Missing),
            (Cond::Match(etag), Some(stored)) if *etag != stored.etag => {
                return Err(PutError::Mismatch);
            }
            _ => {}
        }
        let etag = version_of(&body);
        let modified = self.now();
        objects.insert(key.to_owned(), Stored { body, etag: etag.clone(), modified });
        Ok(Written { etag, date: Some(modified) })
    }

    pub(super) fn page(&self, from: &ListFrom<'_>) -> Page {
        let objects = self.objects();
        let start = match from.after {
            Some(after) if after >= from.prefix => Bound::Excluded(after),
            _ => Bound::Included(from.prefix),
        };
        let mut found = objects
            .range::<str, _>((start, Bound::Unbounded))
            .skip_while(|(key, _)| key.as_str() < from.prefix)
            .take_while(|(key, _)| key.starts_with(from.prefix));
        let keys_max = usize::from(from.keys_max.min(BUCKET_PAGE_KEYS_MAX));
        let objects = found.by_ref().take(keys_max).map(|(key, stored)| Listed {
            key: key.clone(),
            etag: stored.etag.clone(),
            bytes: stored.body.len() as u64,
            modified: Some(stored.modified),
        });
        let objects: Vec<Listed> = objects.collect();
        // A page of no keys has nothing to go on from.
        let has_more = !objects.is_empty() && found.next().is_some();
        Page { objects, has_more, date: Some(self.now()) }
    }

    pub(super) fn remove(&self, key: &str) -> Result<(), DeleteError> {
        check(key).map_err(DeleteError::Denied)?;
        self.objects().remove(key);
        Ok(())
    }
}

fn version_of(body: &[u8]) -> ETag {
    let hash = Sha256::digest(body);
    let text: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    ETag::new(text).expect("digits")
}

fn check(key: &str) -> Result<(), Denial> {
    crate::bucket::check_key(key).map_err(|error| Denial {
        status: 0,
        code: "InvalidKey".into(),
        message: error.to_string(),
    })
}

impl Bucket for MemoryBucket {
    fn get<'a>(&'a self, key: &'a str, _: Wait) -> BucketFuture<'a, Result<Object, GetError>> {
        Box::pin(async move { self.read(key) })
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a str,
        etag: &'a ETag,
        _: Wait,
    ) -> BucketFuture<'a, Result<Option<Object>, GetError>> {
        Box::pin(async move { Ok(Some(self.read(key)?).filter(|object| object.etag != *etag)) })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        body: Bytes,
        cond: Cond,
        _: Wait,
    ) -> BucketFuture<'a, Result<Written, PutError>> {
        Box::pin(async move { self.write(key, body, &cond) })
    }

    fn list<'a>(
        &'a self,
        from: ListFrom<'a>,
        _: Wait,
    ) -> BucketFuture<'a, Result<Page, ListError>> {
        Box::pin(async move { Ok(self.page(&from)) })
    }

    fn delete<'a>(&'a self, key: &'a str, _: Wait) -> BucketFuture<'a, Result<(), DeleteError>> {
        Box::pin(async move { self.remove(key) })
    }
}
