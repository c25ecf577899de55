//! Snapshots and merged objects: what saves a restore the segments below it.

use std::sync::Arc;

use bytes::Bytes;

use super::error::HoldError;
use super::replicas::Replicas;
use super::restore::{Restore, off_thread};
use super::shared::{Shared, State};
use super::ship::word;
use crate::history::{
    Base, Description, Kind, ObjectKey, PageSet, Position, merged, snapshot, whole_pages,
};
use crate::limits::{HIBERNATION_SNAPSHOT_DELTAS, PAGES_ON_THREAD_MAX};
use crate::ownership::FoundHistory;
use crate::ports::{Cond, Latched, PutError, StorageFault, Wait};

/// One to be made.
pub(super) struct StandIn {
    /// The segment whose state it is.
    segment: Base,
    form: Form,
    pages: Source,
    /// All that is older goes, whatever the retention.
    erases: bool,
}

enum Form {
    Snapshot,
    Merged { from: u64, base: Option<Base>, pages: PageSet },
}

enum Source {
    Latched(Box<dyn Latched>),
    Memory(Vec<Vec<u8>>),
}

/// An object that is to be put.
struct Made {
    key: ObjectKey,
    kind: Kind,
    body: Bytes,
}

impl State {
    /// What is due after `segment`, whose state `latched` is. A merged object takes all segments since
    /// the last one, or since what held every page.
    pub fn stand_in(&mut self, segment: Base, latched: Box<dyn Latched>) -> Option<StandIn> {
        if self.since.snapshot_is_due(self.compressed_bytes()) {
            return Some(StandIn::snapshot(segment, latched));
        }
        let run = self.unmerged.take()?;
        self.since.merged();
        let db_pages = latched.db_pages();
        let mut pages = PageSet::default();
        pages.extend(run.pages.iter().filter(|page| *page <= db_pages));
        let is_run = run.from < segment.at.seq() && !pages.is_empty();
        let has_all = || u64::from(pages.len()) == whole_pages(db_pages).count() as u64;
        let is_legal = is_run && (run.base.is_some() || has_all());
        let form = Form::Merged { from: run.from, base: run.base, pages };
        let pages = Source::Latched(latched);
        is_legal.then_some(StandIn { segment, form, pages, erases: false })
    }
}

impl StandIn {
    pub fn snapshot(segment: Base, latched: Box<dyn Latched>) -> Self {
        let pages = Source::Latched(latched);
        Self { segment, form: Form::Snapshot, pages, erases: false }
    }

    /// Of the reset that was acknowledged at `segment`.
    pub fn after_reset(segment: Base, pages: Vec<Vec<u8>>) -> Self {
        let pages = Source::Memory(pages);
        Self { segment, form: Form::Snapshot, pages, erases: true }
    }

    fn describe(&self, reset: Option<Position>) -> (Description, Vec<u32>) {
        let db_pages = self.pages.db_pages();
        match &self.form {
            Form::Snapshot => {
                (snapshot(self.segment, db_pages, reset), whole_pages(db_pages).collect())
            }
            Form::Merged { from, base, pages } => {
                let description = merged(self.segment, *from, *base, db_pages, reset);
                (description, pages.iter().collect())
            }
        }
    }
}

impl Source {
    fn db_pages(&self) -> u32 {
        match self {
            Source::Latched(latched) => latched.db_pages(),
            Source::Memory(pages) => u32::try_from(pages.len()).unwrap_or(u32::MAX),
        }
    }

    fn read(&self, page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
        match self {
            Source::Latched(latched) => latched.read(page, to),
            Source::Memory(pages) => super::send::copy(pages, page, to),
        }
    }
}

impl Replicas {
    /// Makes a stand-in, and collects what nobody needs with it. The hold goes on whatever comes of it:
    /// without one a restore takes longer.
    pub(super) async fn stand_in(self: &Arc<Self>, shared: &Arc<Shared>, stand_in: StandIn) {
        let (at, erases) = (stand_in.segment.at, stand_in.erases);
        let is_snapshot = matches!(stand_in.form, Form::Snapshot);
        // The segment may be under way: what is not in the bucket stands for nothing.
        shared.until(|_| shared.state().permits(at)).await;
        if !shared.state().permits(at) || !shared.right.is_valid() {
            return;
        }
        if let Err(error) = self.learn_reset(shared, at).await {
            tracing::warn!(actor = %shared.address, %at, %error, "history not read back");
            return;
        }
        if !self.put_stand_in(shared, stand_in).await {
            let mut state = shared.state();
            state.next_try = state.since.segments + HIBERNATION_SNAPSHOT_DELTAS;
        } else if is_snapshot {
            self.collect_below(shared, at, erases).await;
        }
    }

    /// Returns whether it is in the bucket and was acknowledged to this hold.
    async fn put_stand_in(self: &Arc<Self>, shared: &Arc<Shared>, stand_in: StandIn) -> bool {
        let Ok(_place) = self.stand_ins.acquire().await else { return false };
        let made = match self.made(shared, stand_in).await {
            Ok(made) => made,
            Err(fault) => {
                tracing::warn!(actor = %shared.address, %fault, "snapshot not made");
                return false;
            }
        };
        let (key, bytes) = (shared.prefix.key(made.key), made.body.len() as u64);
        if !shared.right.may_send() {
            return false;
        }
        // One attempt, and no look at what is there: whatever has this key is the same.
        match self.parts.bucket.put(&key, made.body, Cond::Absent, Wait::Upload).await {
            Ok(_) | Err(PutError::Mismatch) => {}
            Err(error) => {
                tracing::warn!(actor = %shared.address, %key, %error, "snapshot not in the bucket");
                return false;
            }
        }
        self.parts.metrics.stood_in(word(made.kind), bytes);
        let mut state = shared.state();
        if made.kind == Kind::Snapshot {
            state.since.snapshot();
            state.next_try = 0;
            state.snapshot_bytes = Some(bytes);
        }
        shared.right.is_valid()
    }

    async fn made(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        stand_in: StandIn,
    ) -> Result<Made, StorageFault> {
        let (description, pages) = stand_in.describe(shared.state().progress.reset());
        let (key, kind) = (description.key(), description.kind);
        let (replicas, of) = (Arc::clone(self), Arc::clone(shared));
        let is_large = pages.len() > PAGES_ON_THREAD_MAX as usize;
        let encoded = off_thread(is_large, move || {
            let read = |page, to: &mut [u8]| stand_in.pages.read(page, to);
            replicas.encoded(&of, description, pages.iter().copied(), read)
        });
        let (body, _) = encoded.await?;
        Ok(Made { key, kind, body })
    }

    /// A file that was trusted was not read back to its history's beginning, so where the newest reset is
    /// may be unknown yet.
    async fn learn_reset(&self, shared: &Shared, at: Position) -> Result<(), HoldError> {
        if shared.state().knows_reset {
            return Ok(());
        }
        let mut found = FoundHistory::new(&shared.address, self.parts.owners.app());
        let reset = Restore::new(self, &shared.right, &mut found, at).look_for_reset().await?;
        let mut state = shared.state();
        state.knows_reset = true;
        state.progress.learned_reset(reset);
        Ok(())
    }
}
