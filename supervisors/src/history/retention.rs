//! What a holder may put beside the chain, and what it may remove.

use std::time::Duration;

use thiserror::Error;

use super::chain::Listing;
use super::key::ObjectKey;
use super::position::{Generation, Position};
use super::progress::Progress;
use crate::limits::{
    HIBERNATION_SNAPSHOT_BYTES_MAX, HIBERNATION_SNAPSHOT_DELTAS, MERGE_DELTAS,
    SNAPSHOT_DELTA_BYTES_MIN,
};

/// Whether a snapshot or a merged object may be put at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    Granted,
    /// Once a fence of this hold is acknowledged, or not at all.
    FenceFirst,
    /// It is not known to be on this hold's chain.
    NotOnChain,
}

/// Snapshots, merged objects and collections rest on a position that every later chain has. That is
/// so once a segment of this hold, acknowledged to it, is there or above it. A head that was only
/// restored is not enough: an upload by another holder, based below it, may land later and be newer.
pub fn may_anchor(progress: &Progress, at: Position) -> Permission {
    let own = progress.acknowledged();
    if at.generation() == progress.generation() {
        let is_acknowledged = own.is_some_and(|own| at <= own);
        return if is_acknowledged { Permission::Granted } else { Permission::NotOnChain };
    }
    match progress.restored() {
        Some(restored) if restored.at == at && own.is_some() => Permission::Granted,
        Some(restored) if restored.at == at => Permission::FenceFirst,
        _ => Permission::NotOnChain,
    }
}

/// What a collection rests on, as seen right before it.
#[derive(Debug, Clone, Copy)]
pub struct Collection<'a> {
    pub progress: &'a Progress,
    /// A position with a snapshot that was acknowledged while the hold was valid.
    pub snapshot: Position,
    /// The hold is valid now.
    pub hold_is_valid: bool,
    /// The generation in the ownership record, read for this collection.
    pub record: Generation,
}

/// Why nothing may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refused {
    #[error("the hold has ended")]
    HoldEnded,
    #[error("generation {0} holds the actor now")]
    HeldBy(Generation),
    #[error(
        "no segment of this hold is acknowledged at or above the snapshot: a fence comes first"
    )]
    FenceFirst,
    #[error("the snapshot is not known to be on this hold's chain")]
    NotOnChain,
    #[error("the listing does not show the snapshot")]
    NoSnapshot,
}

/// The objects that no restore needs any more: all before the snapshot, on its chain or not, but for
/// the last reset and its snapshot, which stay. They keep a new first record above every generation
/// that ever wrote here.
pub fn collect(
    listing: &Listing,
    Collection { progress, snapshot, hold_is_valid, record }: Collection<'_>,
) -> Result<Vec<ObjectKey>, Refused> {
    if !hold_is_valid {
        return Err(Refused::HoldEnded);
    }
    if record != progress.generation() {
        return Err(Refused::HeldBy(record));
    }
    match may_anchor(progress, snapshot) {
        Permission::Granted => {}
        Permission::FenceFirst => return Err(Refused::FenceFirst),
        Permission::NotOnChain => return Err(Refused::NotOnChain),
    }
    if !listing.contains(ObjectKey::Snapshot(snapshot)) {
        return Err(Refused::NoSnapshot);
    }
    let stays = |key: &ObjectKey| {
        progress.reset() == Some(key.at()) && !matches!(key, ObjectKey::Merged { .. })
    };
    Ok(listing.objects().filter(|key| key.at() < snapshot && !stays(key)).collect())
}

/// The newest snapshot that is at least as old as the retention window: states back to the window's
/// beginning rest on it, and everything before it may go. `snapshots` come with their age.
pub fn oldest_needed(
    snapshots: impl IntoIterator<Item = (Position, Duration)>,
    window: Duration,
) -> Option<Position> {
    let old = snapshots.into_iter().filter(|(_, age)| *age >= window);
    old.map(|(at, _)| at).max()
}

/// What was acknowledged since the last snapshot and the last merged object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Since {
    /// Segments since the snapshot, and their bytes in the bucket.
    pub segments: u64,
    pub bytes: u64,
    /// Segments of this hold since its last merged object.
    pub unmerged: u64,
}

impl Since {
    pub fn segment(&mut self, bytes: u64) {
        self.segments += 1;
        self.unmerged += 1;
        self.bytes += bytes;
    }

    pub fn snapshot(&mut self) {
        *self = Self::default();
    }

    pub fn merged(&mut self) {
        self.unmerged = 0;
    }

    /// Restoring would fetch as much in deltas as half a snapshot.
    pub fn snapshot_is_due(&self, compressed_bytes: u64) -> bool {
        self.bytes >= (compressed_bytes / 2).max(SNAPSHOT_DELTA_BYTES_MIN)
    }

    /// A small database is written whole when its actor goes to sleep after some writes.
    pub fn snapshot_is_due_at_hibernation(&self, database_bytes: u64) -> bool {
        self.segments >= HIBERNATION_SNAPSHOT_DELTAS
            && database_bytes < HIBERNATION_SNAPSHOT_BYTES_MAX
    }

    pub fn merge_is_due(&self) -> bool {
        self.unmerged >= MERGE_DELTAS
    }
}
