//! Reads and writes of ownership records and of listings, as often as it takes.

use std::time::Duration;

use super::found::FoundHistory;
use super::owners::{AcquireError, Owners};
use super::record::{Holder, OwnerRecord};
use crate::address::{Address, NodeId};
use crate::bucket::{Again, Attempts, Expected, Nonce, SetError, compare_and_set};
use crate::history::Generation;
use crate::lease::Session;
use crate::limits::BUCKET_RECORD_WAIT;
use crate::node::PeersError;
use crate::ports::{BucketTime, ETag, GetError, ListError, Object, Wait, Written};
use crate::twin::{Twin, is_broken};

/// A record as it was read.
pub struct Seen {
    pub record: OwnerRecord,
    pub etag: ETag,
    /// How long ago it was written, by the bucket's clock, if it tells.
    pub age: Option<Duration>,
}

impl Owners {
    /// None when there is no record.
    pub(super) async fn read(&self, address: &Address) -> Result<Option<Seen>, AcquireError> {
        let key = self.key(address);
        let mut again = self.again();
        loop {
            match self.parts.bucket.get(&key, Wait::Record).await {
                Ok(object) => return seen(object).map(Some),
                Err(GetError::Missing) => return Ok(None),
                Err(GetError::Denied(denial)) => return Err(AcquireError::Denied(denial)),
                Err(GetError::Unknown(doubt)) => {
                    if !again.pause().await {
                        return Err(AcquireError::Unknown(doubt));
                    }
                }
            }
        }
    }

    pub(super) async fn is_void(
        &self,
        node: &NodeId,
        session: Session,
    ) -> Result<bool, AcquireError> {
        let mut again = self.again();
        loop {
            match self.parts.peers.is_void(node, session).await {
                Err(PeersError::Unknown(doubt)) => {
                    if !again.pause().await {
                        return Err(AcquireError::Unknown(doubt));
                    }
                }
                said => return Ok(said?),
            }
        }
    }

    pub(super) async fn set(
        &self,
        address: &Address,
        record: &OwnerRecord,
        expected: Expected,
        may_send: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Written, SetError> {
        let attempts = Attempts {
            wait: Wait::Record,
            deadline: self.parts.clock.now().plus(BUCKET_RECORD_WAIT),
            clock: &*self.parts.clock,
            may_send,
            random: &*self.parts.random,
        };
        let key = self.key(address);
        compare_and_set(&*self.parts.bucket, &key, record.encode(), expected, attempts).await
    }

    /// Reads a listing on until `is_enough`.
    pub(super) async fn list(
        &self,
        found: &mut FoundHistory,
        keys_max: u16,
        is_enough: impl Fn(&FoundHistory) -> bool,
    ) -> Result<(), AcquireError> {
        let mut again = self.again();
        while !found.is_complete() && !is_enough(found) {
            match found.more(&*self.parts.bucket, keys_max).await {
                Ok(()) => {}
                Err(ListError::Denied(denial)) => return Err(AcquireError::Denied(denial)),
                Err(ListError::Unknown(doubt)) => {
                    if !again.pause().await {
                        return Err(AcquireError::Unknown(doubt));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn record_of(
        &self,
        address: &Address,
        generation: Generation,
        holder: Holder,
        deploy_seq: u64,
    ) -> OwnerRecord {
        let nonce = if is_broken(Twin::RecordsWithoutNonce) {
            Nonce::default()
        } else {
            Nonce::draw(&*self.parts.random)
        };
        OwnerRecord { generation, holder, nonce, deploy_seq, name: address.name.clone() }
    }

    fn again(&self) -> Again<'_> {
        Again::within(BUCKET_RECORD_WAIT, &*self.parts.clock, &*self.parts.random)
    }
}

fn seen(object: Object) -> Result<Seen, AcquireError> {
    let record = OwnerRecord::decode(&object.body)?;
    let age = object.date.zip(object.modified);
    let age = age
        .map(|(BucketTime(now), BucketTime(then))| Duration::from_millis(now.saturating_sub(then)));
    Ok(Seen { record, etag: object.etag, age })
}
