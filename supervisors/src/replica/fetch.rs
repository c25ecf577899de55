//! Fetches the objects of one history, some ahead of when they are needed.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::error::HoldError;
use super::replicas::Replicas;
use crate::bucket::Again;
use crate::history::ObjectKey;
use crate::limits::{
    BUCKET_UPLOAD_WAIT, RESTORE_AHEAD_BYTES, RESTORE_FETCHES, RESTORE_LARGE_BYTES,
};
use crate::ownership::{AcquireError, FoundHistory, Right};
use crate::ports::{Bucket, GetError, Random, Steady, Wait};

type Got = Result<Option<Bytes>, GetError>;

/// What has been fetched and not used yet, and what is on its way.
pub(super) struct Fetches {
    from: From,
    arrived: HashMap<ObjectKey, Got>,
    /// With their bytes.
    coming: HashMap<ObjectKey, u64>,
    tasks: JoinSet<(ObjectKey, Got)>,
}

#[derive(Clone)]
struct From {
    bucket: Arc<dyn Bucket>,
    clock: Arc<dyn Steady>,
    random: Arc<dyn Random>,
    right: Right,
}

impl Fetches {
    pub fn new(replicas: &Replicas, right: &Right) -> Self {
        let parts = &replicas.parts;
        let from = From {
            bucket: Arc::clone(&parts.bucket),
            clock: Arc::clone(&parts.clock),
            random: Arc::clone(&parts.random),
            right: right.clone(),
        };
        let tasks = JoinSet::new();
        Self { from, arrived: HashMap::new(), coming: HashMap::new(), tasks }
    }

    /// The object under `key`; none when it is gone. Begins to fetch those of `ahead` as well, as far
    /// as memory allows, and lets go of all others.
    pub async fn get(
        &mut self,
        key: ObjectKey,
        ahead: &[ObjectKey],
        found: &FoundHistory,
    ) -> Result<Option<Bytes>, HoldError> {
        self.arrived.retain(|arrived, _| *arrived == key || ahead.contains(arrived));
        self.begin(key, found);
        for next in ahead {
            let bytes = found.seen(*next).map_or(0, |seen| seen.bytes);
            let has_room = self.bytes() + bytes <= RESTORE_AHEAD_BYTES;
            if self.coming.len() < RESTORE_FETCHES && has_room {
                self.begin(*next, found);
            }
        }
        loop {
            if let Some(got) = self.arrived.remove(&key) {
                return got.map_err(|error| AcquireError::from(error).into());
            }
            match self.tasks.join_next().await {
                Some(Ok((arrived, got))) => {
                    self.coming.remove(&arrived);
                    self.arrived.insert(arrived, got);
                }
                Some(Err(failed)) if failed.is_panic() => {
                    std::panic::resume_unwind(failed.into_panic())
                }
                Some(Err(_)) | None => return Err(AcquireError::NotLive.into()),
            }
        }
    }

    /// Keeps one that was fetched and is wanted again.
    pub fn keep(&mut self, key: ObjectKey, bytes: Bytes) {
        self.arrived.insert(key, Ok(Some(bytes)));
    }

    fn begin(&mut self, key: ObjectKey, found: &FoundHistory) {
        if self.arrived.contains_key(&key) || self.coming.contains_key(&key) {
            return;
        }
        let bytes = found.seen(key).map_or(0, |seen| seen.bytes);
        let wait = if bytes > RESTORE_LARGE_BYTES { Wait::Upload } else { Wait::Record };
        self.coming.insert(key, bytes);
        let (from, whole) = (self.from.clone(), found.prefix().key(key));
        self.tasks.spawn(async move { (key, from.get(&whole, wait).await) });
    }

    fn bytes(&self) -> u64 {
        let arrived = self.arrived.values().flatten().flatten().map(|bytes| bytes.len() as u64);
        arrived.sum::<u64>() + self.coming.values().sum::<u64>()
    }
}

impl From {
    async fn get(&self, key: &str, wait: Wait) -> Got {
        let mut again = Again::within(BUCKET_UPLOAD_WAIT, &*self.clock, &*self.random);
        loop {
            match self.bucket.get(key, wait).await {
                Ok(object) => return Ok(Some(object.body)),
                Err(GetError::Missing) => return Ok(None),
                Err(GetError::Unknown(_)) if self.right.is_valid() && again.pause().await => {}
                Err(error) => return Err(error),
            }
        }
    }
}
