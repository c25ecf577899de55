//! Removes what no later restore needs.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::replicas::Replicas;
use super::shared::Shared;
use crate::bucket::Again;
use crate::history::{
    Collection, Generation, ObjectKey, Position, Refused, collect, oldest_needed,
};
use crate::limits::{BUCKET_PAGE_KEYS_MAX, BUCKET_RECORD_WAIT, BUCKET_UPLOAD_WAIT, COLLECT_BATCH};
use crate::ownership::{AcquireError, FoundHistory, Holder};
use crate::ports::{BucketTime, DeleteError, ListError, Wait};
use crate::twin::{Twin, is_broken};

/// Why a collection ended before its end. What is left is garbage, which the next one takes.
#[derive(Debug, Error)]
enum NotCollected {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Bucket(#[from] AcquireError),
    #[error(transparent)]
    Delete(#[from] DeleteError),
    #[error("the record names no hold of this node")]
    NotOurs,
}

impl Replicas {
    /// Collects below a snapshot that was acknowledged to this hold. After a reset all goes at once,
    /// and is swept again when the last attempt of an earlier upload may have landed: what was deleted
    /// does not stay.
    pub(super) async fn collect_below(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        snapshot: Position,
        erases: bool,
    ) {
        self.collect_logged(shared, snapshot, erases).await;
        if erases {
            let (replicas, shared) = (Arc::clone(self), Arc::clone(shared));
            tokio::spawn(async move {
                replicas.parts.clock.sleep(BUCKET_UPLOAD_WAIT).await;
                if shared.right.is_valid() {
                    replicas.collect_logged(&shared, snapshot, erases).await;
                }
            });
        }
    }

    async fn collect_logged(&self, shared: &Shared, snapshot: Position, erases: bool) {
        match self.collected(shared, snapshot, erases).await {
            Ok(0) => {}
            Ok(objects) => {
                self.parts.metrics.collected(objects);
                tracing::debug!(actor = %shared.address, %snapshot, objects, "history collected");
            }
            Err(error) => {
                tracing::info!(actor = %shared.address, %snapshot, %error, "history not collected");
            }
        }
    }

    async fn collected(
        &self,
        shared: &Shared,
        snapshot: Position,
        erases: bool,
    ) -> Result<u64, NotCollected> {
        let found = self.listed(shared).await?;
        let oldest = if erases { Some(snapshot) } else { self.oldest(&found, snapshot) };
        let Some(oldest) = oldest else { return Ok(0) };
        let mut removed = 0;
        loop {
            let keys = self.may_go(shared, &found, oldest).await?;
            let batch = keys.iter().skip(removed).take(COLLECT_BATCH);
            let before = removed;
            for key in batch {
                if !shared.right.may_send() {
                    return Err(Refused::HoldEnded.into());
                }
                // Requests wait for an actor that leaves.
                if shared.leaves() && removed >= COLLECT_BATCH {
                    return Ok(removed as u64);
                }
                self.parts.bucket.delete(&shared.prefix.key(*key), Wait::Record).await?;
                removed += 1;
            }
            if removed == before {
                return Ok(removed as u64);
            }
        }
    }

    /// What may be removed by the rules, as of now: asked before each batch.
    async fn may_go(
        &self,
        shared: &Shared,
        found: &FoundHistory,
        snapshot: Position,
    ) -> Result<Vec<ObjectKey>, NotCollected> {
        let progress = shared.state().progress.clone();
        let record = if is_broken(Twin::CollectsWithoutRecord) {
            progress.generation()
        } else {
            self.recorded(shared).await?
        };
        let hold_is_valid = shared.right.is_valid();
        let collection = Collection { progress: &progress, snapshot, hold_is_valid, record };
        match collect(found.listing(), collection) {
            Err(Refused::FenceFirst) if is_broken(Twin::CollectsAtRestoredHead) => {
                Ok(found.listing().objects().filter(|key| key.at() < snapshot).collect())
            }
            may_go => Ok(may_go?),
        }
    }

    /// The generation in the record, if that is this hold's.
    async fn recorded(&self, shared: &Shared) -> Result<Generation, NotCollected> {
        let owners = &self.parts.owners;
        let record = owners.recorded(&shared.address).await?.ok_or(NotCollected::NotOurs)?;
        match record.holder {
            Holder::Held { node, session }
                if node == *owners.node() && session == shared.right.term().session() =>
            {
                Ok(record.generation)
            }
            _ => Err(NotCollected::NotOurs),
        }
    }

    /// The snapshot that the retention window's beginning rests on.
    fn oldest(&self, found: &FoundHistory, newest: Position) -> Option<Position> {
        if self.parts.retention.is_zero() {
            return Some(newest);
        }
        let BucketTime(now) = found.date()?;
        let snapshots = found.objects().filter_map(|(key, seen)| match (key, seen.modified) {
            (ObjectKey::Snapshot(at), Some(BucketTime(written))) if at <= newest => {
                Some((at, Duration::from_millis(now.saturating_sub(written))))
            }
            _ => None,
        });
        oldest_needed(snapshots, self.parts.retention)
    }

    async fn listed(&self, shared: &Shared) -> Result<FoundHistory, AcquireError> {
        let parts = &self.parts;
        let mut found = FoundHistory::new(&shared.address, parts.owners.app());
        let mut again = Again::within(BUCKET_RECORD_WAIT, &*parts.clock, &*parts.random);
        while !found.is_complete() {
            match found.more(&*parts.bucket, BUCKET_PAGE_KEYS_MAX).await {
                Ok(()) => {}
                Err(ListError::Denied(denial)) => return Err(AcquireError::Denied(denial)),
                Err(ListError::Unknown(doubt)) => {
                    if !again.pause().await {
                        return Err(AcquireError::Unknown(doubt));
                    }
                }
            }
        }
        Ok(found)
    }
}
