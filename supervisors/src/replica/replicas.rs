//! Gets actors: the hold, and the database that its history is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::ActorCell;
use tokio::sync::Semaphore;

use super::error::HoldError;
use super::held::Held;
use super::kept::Releases;
use super::restore::{Restore, Restored};
use super::shared::{Shared, State};
use crate::address::{Address, NodeId};
use crate::history::{Base, HistoryPrefix, ObjectKey, Progress, Since};
use crate::limits::STAND_INS_AT_ONCE;
use crate::metrics::Metrics;
use crate::ownership::{AcquireError, Acquired, Begun, FoundHistory, Hold, Owners};
use crate::ports::{Bucket, Clock, LocalFiles, Random, Steady};

pub struct ReplicaParts {
    pub bucket: Arc<dyn Bucket>,
    pub clock: Arc<dyn Steady>,
    pub random: Arc<dyn Random>,
    pub owners: Arc<Owners>,
    pub files: Arc<dyn LocalFiles>,
    pub wall: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    /// States so far back can be restored.
    pub retention: Duration,
}

/// The actors that this node may hold.
pub struct Replicas {
    pub(super) parts: ReplicaParts,
    pub(super) releases: Releases,
    /// Snapshots and merged objects under way.
    pub(super) stand_ins: Semaphore,
    /// Holds of actors that left memory and have sockets.
    parked: Mutex<BTreeMap<Address, Held>>,
    /// Actors that are being brought here.
    coming: Mutex<BTreeSet<Address>>,
    supervisor: Mutex<Option<ActorCell>>,
}

#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Holding {
    Here(Held),
    Elsewhere(NodeId),
}

impl Replicas {
    /// They are of use once a `ReplicaSupervisor` runs.
    pub fn new(parts: ReplicaParts) -> Arc<Self> {
        Arc::new(Self {
            parts,
            releases: Releases::default(),
            stand_ins: Semaphore::new(STAND_INS_AT_ONCE),
            parked: Mutex::default(),
            coming: Mutex::default(),
            supervisor: Mutex::default(),
        })
    }

    /// Acquires the actor and brings its file to the head of its history: the file is then to be opened,
    /// or there is none. No database of it is open.
    pub async fn hold(self: &Arc<Self>, address: &Address) -> Result<Holding, HoldError> {
        // Two would put the actor's file together at once.
        let _one = One::begin(self, address).ok_or(AcquireError::LostRace)?;
        // Asked before anything else: from an opening on a file is nobody's head.
        let trusted = self.parts.files.trusted(address)?;
        if let Some(held) = self.unparked(address)
            && held.head() == trusted
        {
            return Ok(Holding::Here(held));
        }
        let kept = self.releases.take(address);
        let kept = kept.filter(|kept| trusted.is_some() && kept.released.head == trusted);
        let (released, state) = kept.map(|kept| (kept.released, kept.state)).unzip();
        let mut hold = match self.parts.owners.acquire(address, released).await? {
            Acquired::Elsewhere(node) => return Ok(Holding::Elsewhere(node)),
            Acquired::Here(hold) => hold,
        };
        self.parts.metrics.held(hold.begun.as_str());
        let brought = self.brought(&mut hold, trusted, state).await;
        let valid = match brought {
            _ if !hold.right().is_valid() => Err(AcquireError::NotLive.into()),
            Err(HoldError::Broken(why)) => Err(self.broken(&hold, why).await),
            brought => brought,
        };
        match valid {
            Ok((state, adopts)) => {
                let prefix = HistoryPrefix::new(address, self.parts.owners.app());
                let shared = Shared::new(address.clone(), hold.right().clone(), prefix, state);
                Ok(Holding::Here(Held::new(Arc::clone(self), hold, shared, adopts)))
            }
            Err(error) => {
                self.parts.owners.give_up(&hold);
                Err(error)
            }
        }
    }

    /// A hold that was kept for an actor's sockets, if it may still run. Its actor has none any more and
    /// is to leave, or wakes.
    pub fn unparked(&self, address: &Address) -> Option<Held> {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        let held = parked.remove(address);
        // Its end, if it is over, takes other locks.
        drop(parked);
        held.filter(Held::may_run)
    }

    /// All of those, as the node stops.
    pub fn unpark_all(&self) -> Vec<Held> {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *parked).into_values().collect()
    }

    pub(super) fn keep_parked(&self, held: Held) {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        let before = parked.insert(held.address().clone(), held);
        drop(parked);
        drop(before);
    }

    pub fn owners(&self) -> &Arc<Owners> {
        &self.parts.owners
    }

    /// A chain is broken only to who holds: the next holder may remove what this one still reads, and a
    /// clock that stood still does not show that there is a next one.
    async fn broken(&self, hold: &Hold, why: String) -> HoldError {
        match self.parts.owners.recorded(&hold.address).await {
            Ok(Some(record)) if record.generation == hold.generation => HoldError::Broken(why),
            Ok(_) => AcquireError::LostRace.into(),
            Err(error) => error.into(),
        }
    }

    /// Where the history stands; true if the actor's file is to be its beginning.
    async fn brought(
        &self,
        hold: &mut Hold,
        trusted: Option<Base>,
        kept: Option<State>,
    ) -> Result<(State, bool), HoldError> {
        let nothing = || FoundHistory::new(&hold.address, self.parts.owners.app());
        let mut found = match &mut hold.begun {
            Begun::Unchanged(head) => {
                // `hold` asks for an unchanged one only with what it kept.
                let kept = kept.ok_or(AcquireError::LostRace)?;
                let reset = kept.progress.reset();
                let progress = Progress::new(hold.generation, Some(*head), reset);
                return Ok((State { progress, ..kept }, false));
            }
            Begun::New(found) | Begun::Free(found) | Begun::Own(found) | Begun::Taken(found) => {
                std::mem::replace(found, nothing())
            }
        };
        self.bring(hold, &mut found, trusted).await
    }

    /// Makes the file what the listing's head says.
    async fn bring(
        &self,
        hold: &Hold,
        found: &mut FoundHistory,
        trusted: Option<Base>,
    ) -> Result<(State, bool), HoldError> {
        let address = &hold.address;
        let Some(head) = found.listing().head() else {
            // A file of a hold whose first upload never landed is nobody's state.
            let adopts = self.parts.files.adoptable(address)?;
            if !adopts {
                self.parts.files.set_aside(address)?;
            }
            let progress = Progress::new(hold.generation, None, None);
            return Ok((State::new(progress, 0, true), adopts));
        };
        let began = self.parts.clock.now();
        let restore = Restore::new(self, hold.right(), found, head);
        let restored = restore.into_file(address, trusted).await?;
        let took = self.parts.clock.now().since(began);
        self.parts.metrics.restored(restored.is_local, took);
        let Restored { head, reset, knows_reset, db_pages, .. } = restored;
        let progress = Progress::new(hold.generation, Some(head), reset);
        let (since, snapshot_bytes) = since_snapshot(found);
        let state = State { since, snapshot_bytes, ..State::new(progress, db_pages, knows_reset) };
        Ok((state, false))
    }

    pub(super) fn supervised_by(&self, supervisor: ActorCell) {
        *self.supervisor.lock().unwrap_or_else(PoisonError::into_inner) = Some(supervisor);
    }

    pub(super) fn supervisor(&self) -> Option<ActorCell> {
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One actor on its way here.
struct One<'a> {
    replicas: &'a Replicas,
    address: &'a Address,
}

impl<'a> One<'a> {
    fn begin(replicas: &'a Replicas, address: &'a Address) -> Option<Self> {
        let mut coming = replicas.coming.lock().unwrap_or_else(PoisonError::into_inner);
        coming.insert(address.clone()).then(|| Self { replicas, address })
    }
}

impl Drop for One<'_> {
    fn drop(&mut self) {
        let mut coming = self.replicas.coming.lock().unwrap_or_else(PoisonError::into_inner);
        coming.remove(self.address);
    }
}

/// What the listing shows above the newest snapshot, and that one's bytes.
fn since_snapshot(found: &FoundHistory) -> (Since, Option<u64>) {
    let mut since = Since::default();
    for (key, seen) in found.objects() {
        match key {
            ObjectKey::Snapshot(_) => {
                since.merged();
                return (since, Some(seen.bytes));
            }
            ObjectKey::Segment(_) => since.segment(seen.bytes),
            ObjectKey::Merged { .. } => {}
        }
    }
    since.merged();
    (since, None)
}
