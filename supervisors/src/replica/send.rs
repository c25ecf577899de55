//! Captures what an actor committed, makes the next segment of it, and hands that on.

use ractor::ActorRef;

use super::error::Lost;
use super::held::{Held, Whole};
use super::process::{ReplicaProcess, Underway, Work};
use super::shared::{Sent, State};
use super::ship::Shipment;
use super::stand_in::StandIn;
use crate::history::{
    Base, Description, PAGE_BYTES, Position, delta, fence, full, reset, whole_pages,
};
use crate::ports::{Captured, Capturing, StorageFault};

impl Held {
    /// Captures and sends, nothing being under way. Returns whether there was anything. What is captured
    /// is captured once: if it is not sent, no later segment may be.
    pub(super) fn capture(&mut self, database: &mut dyn Capturing) -> Result<bool, StorageFault> {
        let captured = self.capture_and_send(database);
        if captured.is_err() {
            self.shared.lose(Lost::Storage);
        }
        captured
    }

    fn capture_and_send(&mut self, database: &mut dyn Capturing) -> Result<bool, StorageFault> {
        if self.adopts() {
            database.capture_whole();
        } else if self.adoption_ends
            && !database.is_in_transaction()
            && self.shared.state().progress.acknowledged().is_some()
        {
            // Only once the history has it: until then a crash must leave a file to adopt.
            database.adopted()?;
            self.adoption_ends = false;
        }
        let Some(captured) = self.captured_whole_if_first(database)? else {
            let head = self.head();
            self.stand_in_if_due(database, head)?;
            return Ok(false);
        };
        let Captured { changed, db_pages, frames, is_whole } = captured;
        let newest_reset = self.reset_at();
        let is_reset = self.whole.take() == Some(Whole::Reset) && is_whole;
        let erased = if is_reset { Some(all(database, db_pages)?) } else { None };
        let describe = |at, base| match is_whole {
            true if is_reset => reset(at, base, db_pages),
            true => full(at, base, db_pages, newest_reset),
            false => delta(at, base, db_pages, frames),
        };
        let sent = self.send(describe, &changed, |page, to| database.read_captured(page, to))?;
        match erased {
            Some(pages) => self.begin_stand_in(StandIn::after_reset(sent, pages)),
            None => self.stand_in_if_due(database, Some(sent))?,
        }
        Ok(true)
    }

    pub(super) fn send_fence(&mut self) -> Result<(), StorageFault> {
        let db_pages = self.shared.state().db_pages;
        self.send(|at, base| fence(at, base, db_pages), &[], |_, _| Ok(())).map(drop)
    }

    pub(super) fn begin_stand_in(&mut self, stand_in: StandIn) {
        self.shared.change(|status| status.stand_ins += 1);
        let work = Work::StandIn(stand_in, Underway::new(&self.shared));
        let mut process = self.stand_ins.take();
        self.hand_over(&mut process, work);
        self.stand_ins = process;
    }

    /// Where the chain has no pages yet, a segment holds every one. Part of a new database may be in its
    /// file already, as the switch to a log leaves the first page.
    fn captured_whole_if_first(
        &self,
        database: &mut dyn Capturing,
    ) -> Result<Option<Captured>, StorageFault> {
        let Some(captured) = database.capture()? else { return Ok(None) };
        let has_all = captured.is_whole
            || whole_pages(captured.db_pages).eq(captured.changed.iter().copied());
        if has_all || self.shared.state().db_pages > 0 {
            return Ok(Some(captured));
        }
        database.capture_whole();
        database.capture()
    }

    /// Makes the next segment and hands it to the process that sends it.
    fn send(
        &mut self,
        describe: impl FnOnce(Position, Option<Base>) -> Description,
        pages: &[u32],
        read: impl FnMut(u32, &mut [u8]) -> Result<(), StorageFault>,
    ) -> Result<Base, StorageFault> {
        let next = self.shared.state().progress.next();
        let (at, base) = next.ok_or_else(|| StorageFault {
            operation: "ship",
            path: self.shared.address.to_string(),
            cause: "there is no position for a segment".into(),
        })?;
        let description = describe(at, base);
        let (kind, db_pages) = (description.kind, description.db_pages);
        let (body, hash) =
            self.replicas.encoded(&self.shared, description, pages.iter().copied(), read)?;
        let sent = Sent { at, base, hash, bytes: body.len() as u64, db_pages, pages, kind };
        // First: the segment before this one has landed, or nothing would be sent.
        self.durable_mark();
        self.marks.sent(at);
        self.shared.state().sent(&sent);
        self.shared.change(|status| status.ships = true);
        let work = Work::Ship(Shipment { at, kind, body }, Underway::new(&self.shared));
        let mut process = self.segments.take();
        self.hand_over(&mut process, work);
        self.segments = process;
        Ok(Base { at, hash })
    }

    /// Begins a snapshot or a merged object of the state that `newest` leads to, if one is due. All
    /// must have been captured.
    fn stand_in_if_due(
        &mut self,
        database: &mut dyn Capturing,
        newest: Option<Base>,
    ) -> Result<(), StorageFault> {
        if database.is_in_transaction() {
            return Ok(());
        }
        let is_idle = self.shared.status().stand_ins == 0;
        let Some(newest) = newest.filter(|_| is_idle) else { return Ok(()) };
        if !self.shared.state().stand_in_is_due(newest.at) {
            return Ok(());
        }
        let Some(latched) = database.latch()? else { return Ok(()) };
        let stand_in = self.shared.state().stand_in(newest, latched);
        if let Some(stand_in) = stand_in {
            self.begin_stand_in(stand_in);
        }
        Ok(())
    }

    /// Dropped on the way, the work loses the hold.
    fn hand_over(&self, process: &mut Option<ActorRef<Work>>, work: Work) {
        if process.is_none() {
            match ReplicaProcess::start(&self.replicas, &self.shared) {
                Ok(started) => *process = Some(started),
                Err(error) => {
                    tracing::error!(actor = %self.shared.address, %error, "replica process not started");
                    return;
                }
            }
        }
        if let Some(process) = process {
            let _ = process.send_message(work);
        }
    }
}

impl State {
    fn stand_in_is_due(&self, at: Position) -> bool {
        let is_own = at.generation() == self.progress.generation();
        let is_due =
            self.since.snapshot_is_due(self.compressed_bytes()) || self.since.merge_is_due();
        let may_try = self.since.segments >= self.next_try;
        is_due && may_try && (is_own || self.permits(at))
    }
}

/// The pages of an empty database.
fn all(database: &mut dyn Capturing, db_pages: u32) -> Result<Vec<Vec<u8>>, StorageFault> {
    let read = |page| {
        let mut bytes = vec![0; PAGE_BYTES];
        database.read_captured(page, &mut bytes).map(|()| bytes)
    };
    whole_pages(db_pages).map(read).collect()
}

/// One page of those.
pub(super) fn copy(pages: &[Vec<u8>], page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
    let from = pages.get(page as usize - 1).filter(|from| from.len() == to.len());
    let from = from.ok_or_else(|| StorageFault {
        operation: "read",
        path: "the empty database".into(),
        cause: format!("it has no page {page}"),
    })?;
    to.copy_from_slice(from);
    Ok(())
}
