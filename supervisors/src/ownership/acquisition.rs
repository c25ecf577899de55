//! The steps of one acquisition, in the order that makes it safe.

use super::found::FoundHistory;
use super::hold::{Begun, Hold, Right};
use super::owners::{AcquireError, Acquired, Owners, Released};
use super::record::{Holder, OwnerRecord};
use super::rules::{self, Next};
use super::writes::Seen;
use crate::address::{Address, NodeId};
use crate::bucket::{Expected, SetError};
use crate::history::{Generation, highest_generation_in_bucket};
use crate::lease::LeaseState;
use crate::limits::{BUCKET_PAGE_KEYS_MAX, OWNER_REWRITES_MAX};
use crate::ports::ETag;
use crate::twin::{Twin, is_broken};

pub(super) struct Acquisition<'a> {
    pub owners: &'a Owners,
    pub address: &'a Address,
    /// Of the hold that is to be.
    pub right: Right,
}

/// What is to be written over what.
struct Plan {
    expected: Expected,
    generation: Generation,
    deploy_seq: u64,
    begun: fn(FoundHistory) -> Begun,
}

impl Acquisition<'_> {
    pub async fn run(&self, released: Option<Released>) -> Result<Acquired, AcquireError> {
        if let Some(released) = released
            && let Some(hold) = self.unchanged(released).await?
        {
            return Ok(Acquired::Here(hold));
        }
        let early = match is_broken(Twin::ListsBeforeAcquire) {
            true => Some(self.list().await?),
            false => None,
        };
        let seen = self.owners.read(self.address).await?;
        let me = &self.owners.parts.node;
        let record = seen.as_ref().map(|seen| &seen.record);
        let own = self.right.term().session();
        let age = seen.as_ref().and_then(|seen| seen.age);
        let begun: fn(FoundHistory) -> Begun = match rules::next(record, (me, own), age) {
            Next::Create => Begun::New,
            Next::Acquire if record.is_some_and(|record| names(record, me)) => Begun::Own,
            Next::Acquire => Begun::Free,
            Next::TakeIfVoid { node, session } => {
                // Asked after the record was read: an earlier answer may be about a session before.
                if !self.owners.is_void(&node, session).await? {
                    return Ok(Acquired::Elsewhere(node));
                }
                if node == *me {
                    Begun::Own
                } else {
                    tracing::info!(actor = %self.address, %node, %session, "actor taken from a node that ended");
                    Begun::Taken
                }
            }
            Next::HandedTo(node) => match self.owners.is_live(&node) {
                true => return Ok(Acquired::Elsewhere(node)),
                false => Begun::Free,
            },
        };
        let plan = self.plan(seen, begun).await?;
        self.write(plan, early).await.map(Acquired::Here)
    }

    /// This node's own release is still there, so nobody held since and its head is the head.
    async fn unchanged(&self, released: Released) -> Result<Option<Hold>, AcquireError> {
        let Released { etag, generation, head: Some(head), deploy_seq, goes_on } = released else {
            return Ok(None);
        };
        if goes_on {
            return self.go_on(etag, generation, Begun::Unchanged(head)).await;
        }
        let generation = generation.next().ok_or(AcquireError::NoGeneration)?;
        match self.set(generation, deploy_seq, Expected::Version(etag)).await {
            Ok(etag) => self.hold(generation, etag, deploy_seq, Begun::Unchanged(head)).map(Some),
            Err(SetError::Lost(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn plan(
        &self,
        seen: Option<Seen>,
        begun: fn(FoundHistory) -> Begun,
    ) -> Result<Plan, AcquireError> {
        let (expected, generation, deploy_seq) = match seen {
            Some(Seen { record, etag, .. }) => {
                let generation = rules::generation_above(Some(record.generation), None);
                (Expected::Version(etag), generation, record.deploy_seq)
            }
            None => {
                let history = self.highest_generation().await?;
                (Expected::Absent, rules::generation_above(None, history), 0)
            }
        };
        let generation = generation.ok_or(AcquireError::NoGeneration)?;
        Ok(Plan { expected, generation, deploy_seq, begun })
    }

    /// Before a first record: only to choose a number. What it does not see yet, the listing after the
    /// record does.
    async fn highest_generation(&self) -> Result<Option<Generation>, AcquireError> {
        if is_broken(Twin::GenerationNotAboveHistory) {
            return Ok(None);
        }
        let mut found = self.not_listed();
        let is_enough =
            |found: &FoundHistory| highest_generation_in_bucket(found.listing()).is_some();
        self.owners.list(&mut found, 1, is_enough).await?;
        Ok(highest_generation_in_bucket(found.listing()))
    }

    /// Writes the record, and only then lists: what an earlier holder was acknowledged landed before
    /// its record was lost to it, so the listing has it. And above the listing, if that shows a
    /// generation as high as the record's.
    /// `early` is there only in a broken twin.
    async fn write(
        &self,
        mut plan: Plan,
        early: Option<FoundHistory>,
    ) -> Result<Hold, AcquireError> {
        for _ in 0..OWNER_REWRITES_MAX {
            let etag = self.set(plan.generation, plan.deploy_seq, plan.expected.clone()).await?;
            let found = match &early {
                Some(early) => early.clone(),
                None => self.list().await?,
            };
            let highest = highest_generation_in_bucket(found.listing());
            let is_above = highest.is_none_or(|highest| highest < plan.generation);
            if is_above || is_broken(Twin::GenerationNotAboveHistory) {
                return self.hold(plan.generation, etag, plan.deploy_seq, (plan.begun)(found));
            }
            tracing::warn!(
                actor = %self.address, generation = %plan.generation,
                "history has a generation that its ownership record does not know of"
            );
            plan.generation = rules::generation_above(Some(plan.generation), highest)
                .ok_or(AcquireError::NoGeneration)?;
            plan.expected = Expected::Version(etag);
        }
        Err(AcquireError::LostRace)
    }

    async fn list(&self) -> Result<FoundHistory, AcquireError> {
        let mut found = self.not_listed();
        let is_enough = |found: &FoundHistory| found.listing().head().is_some();
        self.owners.list(&mut found, BUCKET_PAGE_KEYS_MAX, is_enough).await?;
        Ok(found)
    }

    fn not_listed(&self) -> FoundHistory {
        FoundHistory::new(self.address, &self.owners.parts.app)
    }

    async fn set(
        &self,
        generation: Generation,
        deploy_seq: u64,
        expected: Expected,
    ) -> Result<ETag, SetError> {
        let node = self.owners.parts.node.clone();
        let holder = Holder::Held { node, session: self.right.term().session() };
        let record = self.owners.record_of(self.address, generation, holder, deploy_seq);
        let may_send = || self.right.may_send();
        let written = self.owners.set(self.address, &record, expected, &may_send).await?;
        Ok(written.etag)
    }

    /// The record is written and the history known: it is a hold if the term is unbroken.
    fn hold(
        &self,
        generation: Generation,
        etag: ETag,
        deploy_seq: u64,
        begun: Begun,
    ) -> Result<Hold, AcquireError> {
        if !self.right.is_valid() {
            return Err(AcquireError::NotLive);
        }
        let (address, right) = (self.address.clone(), self.right.clone());
        Ok(Hold { address, generation, begun, right, etag, deploy_seq })
    }

    /// Broken: as if a release that may still land never would.
    async fn go_on(
        &self,
        etag: ETag,
        generation: Generation,
        begun: Begun,
    ) -> Result<Option<Hold>, AcquireError> {
        let seen = self.owners.read(self.address).await?;
        let seen = seen.filter(|seen| seen.etag == etag && names(&seen.record, self.owners.node()));
        seen.map(|seen| self.hold(generation, etag, seen.record.deploy_seq, begun)).transpose()
    }
}

fn names(record: &OwnerRecord, me: &NodeId) -> bool {
    matches!(&record.holder, Holder::Held { node, .. } if node == me)
}

impl Owners {
    fn is_live(&self, node: &NodeId) -> bool {
        let peer = self.parts.peers.find(node);
        peer.is_some_and(|peer| peer.state == LeaseState::Live && !peer.is_suspect)
    }
}
