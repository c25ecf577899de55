//! Acquires and releases actors: every write of an ownership record is here.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use super::acquisition::Acquisition;
use super::hold::{Hold, Right};
use super::record::{Holder, OwnerRecord, OwnerRecordError, owner_key};
use super::writes::Seen;
use crate::address::{Address, App, NodeId};
use crate::bucket::{Expected, SetError};
use crate::history::{Base, Generation};
use crate::lease::Validity;
use crate::node::{Peers, PeersError};
use crate::ports::{Bucket, Denial, Doubt, ETag, Random, Steady};
use crate::twin::{Twin, is_broken};

pub struct OwnersParts {
    pub bucket: Arc<dyn Bucket>,
    pub clock: Arc<dyn Steady>,
    pub random: Arc<dyn Random>,
    pub validity: Arc<Validity>,
    pub peers: Arc<Peers>,
    pub node: NodeId,
    pub app: App,
}

/// The holds of this node, and the way to get one.
pub struct Owners {
    pub(super) parts: OwnersParts,
    /// The rights that have not been ended here.
    held: Mutex<HashMap<Address, Right>>,
    /// Actors whose records are being changed.
    busy: Mutex<HashSet<Address>>,
}

#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
#[derive(Debug)]
pub enum Acquired {
    Here(Hold),
    Elsewhere(NodeId),
}

/// Why there is no hold. The record may name this node all the same; nobody has a hold then.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AcquireError {
    #[error("this node's lease is not valid")]
    NotLive,
    /// Trying again will show by whom.
    #[error("the ownership record was changed meanwhile")]
    LostRace,
    #[error("the bucket: {0}")]
    Unknown(Doubt),
    #[error(transparent)]
    Denied(Denial),
    #[error("the holder's lease: {0}")]
    Peers(#[from] PeersError),
    #[error("the ownership record: {0}")]
    Record(#[from] OwnerRecordError),
    #[error("there are no generations left")]
    NoGeneration,
}

/// A release that is known to have landed. While its version is there, nobody held since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    pub etag: ETag,
    pub generation: Generation,
    /// The head then, if it was known exactly.
    pub head: Option<Base>,
    pub(super) deploy_seq: u64,
    /// Only in a broken twin: the version is that of the hold, whose release is not known to have
    /// landed.
    pub(super) goes_on: bool,
}

impl Owners {
    pub fn new(parts: OwnersParts) -> Self {
        Self { parts, held: Mutex::default(), busy: Mutex::default() }
    }

    pub fn node(&self) -> &NodeId {
        &self.parts.node
    }

    pub fn app(&self) -> &App {
        &self.parts.app
    }

    /// Acquires an actor for this node. A hold of it that this node has ends first. With `released` the
    /// caller says that the actor's file is exactly the head of that release; its own release then
    /// costs no listing, if nobody held in between.
    pub async fn acquire(
        &self,
        address: &Address,
        released: Option<Released>,
    ) -> Result<Acquired, AcquireError> {
        let term = self.parts.validity.term().ok_or(AcquireError::NotLive)?;
        let _busy = self.begin(address)?;
        if let Some(before) = self.held().remove(address) {
            before.end();
        }
        let acquisition = Acquisition { owners: self, address, right: Right::new(term) };
        let acquired = acquisition.run(released).await?;
        if let Acquired::Here(hold) = &acquired {
            self.held().insert(address.clone(), hold.right.clone());
        }
        Ok(acquired)
    }

    /// Gives an actor back, all of whose commits are acknowledged, or hands it to `next`. The hold ends
    /// before anything is sent, whatever the outcome: a release that lands late frees the record, and
    /// the next holder would not see what was written after it. Some only if it is known to have
    /// landed.
    pub async fn release(
        &self,
        hold: Hold,
        head: Option<Base>,
        next: Option<NodeId>,
    ) -> Option<Released> {
        let goes_on = is_broken(Twin::ResumesAfterUnknownRelease);
        self.forget(&hold);
        if !goes_on {
            hold.right.end();
        }
        let Hold { address, generation, right, etag, deploy_seq, .. } = hold;
        let record = self.record_of(&address, generation, Holder::Free { next }, deploy_seq);
        let term = right.term().clone();
        let may_send = move || term.is_valid() || is_broken(Twin::SendsPastHorizon);
        let released = |etag, goes_on| Released { etag, generation, head, deploy_seq, goes_on };
        let expected = Expected::Version(etag.clone());
        match self.set(&address, &record, expected, &may_send).await {
            Ok(written) => {
                right.end();
                Some(released(written.etag, false))
            }
            Err(error) => {
                tracing::warn!(actor = %address, %generation, %error, "release not known to have landed");
                goes_on.then(|| released(etag, true))
            }
        }
    }

    /// Ends a hold without a word: the record names this node on, and its next hold is above it.
    pub fn give_up(&self, hold: &Hold) {
        self.forget(hold);
        hold.right.end();
    }

    /// Frees a record that names this node, which has no hold and wants none: to others it would look
    /// held for as long as this node lives. Returns whether it did. Nothing follows about the history.
    pub async fn disown(&self, address: &Address) -> Result<bool, AcquireError> {
        let term = self.parts.validity.term().ok_or(AcquireError::NotLive)?;
        let _busy = self.begin(address)?;
        if self.held().get(address).is_some_and(Right::is_valid) {
            return Ok(false);
        }
        let Some(Seen { record, etag, .. }) = self.read(address).await? else { return Ok(false) };
        match &record.holder {
            Holder::Held { node, session } if *node == self.parts.node => {
                let is_own = *session == term.session();
                if !is_own && !self.is_void(node, *session).await? {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
        let OwnerRecord { generation, deploy_seq, .. } = record;
        let free = self.record_of(address, generation, Holder::Free { next: None }, deploy_seq);
        let may_send = || term.is_valid();
        let set = self.set(address, &free, Expected::Version(etag), &may_send).await;
        set.map(|_| true).map_err(AcquireError::from)
    }

    /// What the record says now.
    pub async fn recorded(&self, address: &Address) -> Result<Option<OwnerRecord>, AcquireError> {
        Ok(self.read(address).await?.map(|seen| seen.record))
    }

    pub(super) fn key(&self, address: &Address) -> String {
        owner_key(address, &self.parts.app)
    }

    fn forget(&self, hold: &Hold) {
        let mut held = self.held();
        if held.get(&hold.address).is_some_and(|right| right.is(&hold.right)) {
            held.remove(&hold.address);
        }
    }

    /// One change of an actor's record at a time: of two acquisitions each would take the other's for
    /// a hold that was given up.
    fn begin(&self, address: &Address) -> Result<Busy<'_>, AcquireError> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy.insert(address.clone()) {
            return Err(AcquireError::LostRace);
        }
        Ok(Busy { owners: self, address: address.clone() })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Address, Right>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Busy<'a> {
    owners: &'a Owners,
    address: Address,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut busy = self.owners.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.remove(&self.address);
    }
}

impl From<SetError> for AcquireError {
    fn from(error: SetError) -> Self {
        match error {
            SetError::Lost(_) => AcquireError::LostRace,
            SetError::Unknown(doubt) => AcquireError::Unknown(doubt),
            SetError::Denied(denial) => AcquireError::Denied(denial),
            SetError::Stopped => AcquireError::NotLive,
        }
    }
}
