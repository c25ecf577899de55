//! Makes segments, and sends each until it is known what became of it.

use bytes::Bytes;

use super::error::Lost;
use super::replicas::Replicas;
use super::rules::{self, Answer, Verdict};
use super::shared::Shared;
use crate::bucket::{Attempts, Expected, SetError, compare_and_set};
use crate::history::{Description, EncodeError, Kind, ObjectHash, ObjectKey, Position, encode};
use crate::limits::BUCKET_UPLOAD_WAIT;
use crate::ports::{BucketTime, StorageFault, Wait, Written};

/// A segment as it is sent.
pub(super) struct Shipment {
    pub at: Position,
    pub kind: Kind,
    pub body: Bytes,
}

impl Replicas {
    /// The bytes of an object of this hold.
    pub(super) fn encoded(
        &self,
        shared: &Shared,
        description: Description,
        pages: impl Iterator<Item = u32> + Clone,
        read: impl FnMut(u32, &mut [u8]) -> Result<(), StorageFault>,
    ) -> Result<(Bytes, ObjectHash), StorageFault> {
        let session = shared.right.term().session().as_bytes();
        let wall_ms = self.parts.wall.now().0;
        let description = Description { session, wall_ms, ..description };
        let mut body = Vec::new();
        let encoded = encode(&description, pages, read, &mut body);
        let hash = encoded.map_err(|error| match error {
            EncodeError::Page(fault) => fault,
            other => StorageFault {
                operation: "encode",
                path: shared.prefix.key(description.key()),
                cause: other.to_string(),
            },
        })?;
        Ok((Bytes::from(body), hash))
    }

    /// Sends a segment of the hold, and takes note of what became of it.
    pub(super) async fn ship(&self, shared: &Shared, shipment: Shipment) {
        let (at, kind, bytes) = (shipment.at, shipment.kind, shipment.body.len());
        let began = self.parts.clock.now();
        let outcome = self.upload(shared, shipment).await;
        let took = self.parts.clock.now().since(began);
        match outcome {
            Ok(()) => {
                self.parts.metrics.shipped(word(kind), bytes as u64, took);
                let waits = {
                    let mut state = shared.state();
                    state.progress.landed();
                    std::mem::take(&mut state.waits)
                };
                shared.change(|status| status.ships = false);
                if waits {
                    shared.more.notify_one();
                }
            }
            Err(lost) => {
                let (actor, cause) = (&shared.address, lost.as_str());
                match lost {
                    Lost::Conflict => {
                        tracing::error!(%actor, %at, "another writer used this generation");
                    }
                    _ => tracing::warn!(%actor, %at, cause, ?took, "segment not acknowledged"),
                }
                shared.lose(lost);
                shared.change(|status| status.ships = false);
            }
        }
    }

    async fn upload(&self, shared: &Shared, shipment: Shipment) -> Result<(), Lost> {
        let key = shared.prefix.key(ObjectKey::Segment(shipment.at));
        let may_send = || shared.right.may_send();
        let written = self.put(&key, shipment.body, &may_send).await;
        // Looked at before anything else is awaited: the answer counts at the time it came.
        match written {
            Ok(written) => acknowledged(shared, &written),
            Err(error) => Err(Lost::from(&error)),
        }
    }

    async fn put(
        &self,
        key: &str,
        body: Bytes,
        may_send: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Written, SetError> {
        let attempts = Attempts {
            wait: Wait::Upload,
            deadline: self.parts.clock.now().plus(BUCKET_UPLOAD_WAIT),
            clock: &*self.parts.clock,
            may_send,
            random: &*self.parts.random,
        };
        compare_and_set(&*self.parts.bucket, key, body, Expected::Absent, attempts).await
    }
}

fn acknowledged(shared: &Shared, written: &Written) -> Result<(), Lost> {
    let term = shared.right.term();
    let ms = |BucketTime(ms)| ms;
    let answer = Answer {
        hold_has_ended: shared.right.has_ended(),
        term_is_valid: term.is_valid(),
        landed: written.date.map(ms),
        renewed: term.renewed().map(ms),
    };
    match rules::verdict(answer) {
        Verdict::Acknowledged => Ok(()),
        Verdict::HoldEnded => Err(Lost::Lapsed),
        Verdict::Late => Err(Lost::Late),
    }
}

/// As metrics name it.
pub(super) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Delta => "delta",
        Kind::Full => "full",
        Kind::Reset => "reset",
        Kind::Fence => "fence",
        Kind::Merged => "merged",
        Kind::Snapshot => "snapshot",
    }
}
