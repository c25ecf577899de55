//! What a hold's owner and its processes know of it together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::error::Lost;
use crate::address::Address;
use crate::history::{
    Base, HistoryPrefix, Kind, ObjectHash, PAGE_BYTES, PageSet, Permission, Position, Progress,
    Since, may_anchor,
};
use crate::ownership::Right;
use crate::twin::{Twin, is_broken};

pub(super) struct Shared {
    pub address: Address,
    pub right: Right,
    pub prefix: HistoryPrefix,
    state: Mutex<State>,
    status: watch::Sender<Status>,
    /// An upload has ended while commits wait, or the hold is lost.
    pub more: Notify,
    /// The actor leaves memory.
    leaves: AtomicBool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// A segment is under way.
    pub ships: bool,
    /// Snapshots and merged objects, with the collections after them.
    pub stand_ins: u32,
    pub lost: Option<Lost>,
}

/// Where a hold's history stands.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub progress: Progress,
    /// Pages of the database at the newest segment sent.
    pub db_pages: u32,
    /// The newest reset below the head is known, or that there is none. Without that knowledge nothing
    /// is anchored: a stand-in that does not name the reset lets a later holder remove it.
    pub knows_reset: bool,
    pub since: Since,
    /// Bytes of the last snapshot in the bucket.
    pub snapshot_bytes: Option<u64>,
    pub unmerged: Option<Run>,
    /// After a stand-in that failed: segments since the last snapshot before the next is tried.
    pub next_try: u64,
    /// Commits wait in the log for the upload under way.
    pub waits: bool,
    /// What was sent last, landed or not.
    pub sent: Option<Base>,
}

/// The segments since the last merged object.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub from: u64,
    pub base: Option<Base>,
    pub pages: PageSet,
}

/// A segment that is about to be sent.
pub(super) struct Sent<'a> {
    pub at: Position,
    pub base: Option<Base>,
    pub hash: ObjectHash,
    pub bytes: u64,
    pub db_pages: u32,
    pub pages: &'a [u32],
    pub kind: Kind,
}

impl State {
    pub fn new(progress: Progress, db_pages: u32, knows_reset: bool) -> Self {
        Self {
            progress,
            db_pages,
            knows_reset,
            since: Since::default(),
            snapshot_bytes: None,
            unmerged: None,
            next_try: 0,
            waits: false,
            sent: None,
        }
    }

    /// What the next hold may know of this one, its file being the head.
    pub fn handed_on(self) -> Self {
        Self { unmerged: None, next_try: 0, waits: false, sent: None, ..self }
    }

    pub fn sent(&mut self, sent: &Sent<'_>) {
        self.progress.sent(sent.hash, sent.kind == Kind::Reset);
        self.since.segment(sent.bytes);
        self.db_pages = sent.db_pages;
        self.sent = Some(Base { at: sent.at, hash: sent.hash });
        if sent.kind.is_whole() {
            self.unmerged = None;
            return;
        }
        let run = self.unmerged.get_or_insert_with(|| Run {
            from: sent.at.seq(),
            base: sent.base,
            pages: PageSet::default(),
        });
        run.pages.extend(sent.pages.iter().copied());
    }

    /// Whether a stand-in may be put there, and what is older collected.
    pub fn permits(&self, at: Position) -> bool {
        match may_anchor(&self.progress, at) {
            Permission::Granted => true,
            Permission::FenceFirst => is_broken(Twin::CollectsAtRestoredHead),
            Permission::NotOnChain => false,
        }
    }

    /// What a snapshot would have in the bucket: as the last one, or a quarter of the database.
    pub fn compressed_bytes(&self) -> u64 {
        self.snapshot_bytes.unwrap_or(self.database_bytes() / 4)
    }

    pub fn database_bytes(&self) -> u64 {
        u64::from(self.db_pages) * PAGE_BYTES as u64
    }
}

impl Shared {
    pub fn new(address: Address, right: Right, prefix: HistoryPrefix, state: State) -> Arc<Self> {
        let (status, state) = (watch::Sender::default(), Mutex::new(state));
        Arc::new(Self {
            address,
            right,
            prefix,
            state,
            status,
            more: Notify::new(),
            leaves: AtomicBool::new(false),
        })
    }

    /// The actor leaves memory: what can wait ends. Or its hold is kept for when it wakes.
    pub fn set_leaves(&self, leaves: bool) {
        self.leaves.store(leaves, Ordering::Relaxed);
    }

    pub fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn status(&self) -> Status {
        *self.status.borrow()
    }

    pub fn change(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_modify(change);
    }

    /// The hold goes on no more: nothing of it is acknowledged or sent after this.
    pub fn lose(&self, cause: Lost) {
        self.right.end();
        self.change(|status| status.lost = status.lost.or(Some(cause)));
        self.more.notify_one();
    }

    /// Why the hold is lost, if it is.
    pub fn lost(&self) -> Option<Lost> {
        self.status().lost.or_else(|| (!self.right.is_valid()).then_some(Lost::Lapsed))
    }

    /// Waits until the status is so, or the hold is lost. The horizon alone ends no wait: what is under
    /// way then ends soon, for nothing is sent again.
    pub async fn until(&self, is_so: impl Fn(&Status) -> bool) -> Status {
        let mut status = self.status.subscribe();
        let wait = status.wait_for(|status| status.lost.is_some() || is_so(status));
        tokio::select! {
            biased;
            reached = wait => reached.map(|status| *status).unwrap_or_default(),
            () = self.right.term().ended(), if !is_broken(Twin::AcknowledgesPastHorizon) => {
                self.status()
            }
        }
    }
}
