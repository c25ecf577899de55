//! An actor while this node holds it.

use std::sync::Arc;

use ractor::ActorRef;

use super::error::{Lost, ShipError};
use super::kept::Kept;
use super::process::{ReplicaProcess, Underway, Work};
use super::replicas::Replicas;
use super::shared::{Sent, Shared, State};
use super::ship::Shipment;
use super::stand_in::StandIn;
use crate::address::{Address, NodeId};
use crate::history::{
    Base, Description, Durable, Generation, Position, delta, fence, full, reset, whole_pages,
};
use crate::ownership::{Hold, Right};
use crate::ports::{Captured, Capturing, Database, StorageFault};
use crate::twin::{Twin, is_broken};

/// Dropped it gives the hold up, but leaves the actor's file.
pub struct Held {
    replicas: Arc<Replicas>,
    pub(super) shared: Arc<Shared>,
    /// None once it has been released.
    hold: Option<Hold>,
    /// The actor's file is of before its history, which begins with it.
    adopts: bool,
    segments: Option<ActorRef<Work>>,
    stand_ins: Option<ActorRef<Work>>,
}

impl Held {
    pub(super) fn new(
        replicas: Arc<Replicas>,
        hold: Hold,
        shared: Arc<Shared>,
        adopts: bool,
    ) -> Self {
        Self { replicas, shared, hold: Some(hold), adopts, segments: None, stand_ins: None }
    }

    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    pub fn generation(&self) -> Generation {
        self.shared.state().progress.generation()
    }

    pub fn right(&self) -> &Right {
        &self.shared.right
    }

    /// The newest segment of the chain that is known to be in the bucket.
    pub fn head(&self) -> Option<Base> {
        self.shared.state().progress.head()
    }

    /// The newest reset on the chain, as far as that was read.
    pub fn reset_at(&self) -> Option<Position> {
        self.shared.state().progress.reset()
    }

    /// An event may start.
    pub fn may_run(&self) -> bool {
        self.shared.status().lost.is_none() && self.shared.right.may_start()
    }

    /// The hold goes on no more: the actor is to be given up.
    pub fn is_lost(&self) -> bool {
        self.lost().is_some()
    }

    pub fn lost(&self) -> Option<Lost> {
        self.shared.lost()
    }

    /// Right after the database was opened, before its first statement: a file of before becomes the
    /// beginning of the history.
    pub async fn opened(&mut self, database: &mut dyn Capturing) -> Result<(), ShipError> {
        if !self.adopts {
            return Ok(());
        }
        self.durable(Some(&mut *database)).await?;
        // Only when the history has it: until then a crash must leave a file to adopt.
        database.adopted()?;
        self.event_ended(Some(database))?;
        Ok(())
    }

    /// Captures what was committed and begins to ship it, unless an upload is under way: then it stays
    /// in the log, and is captured with what follows once `shipped` says so.
    pub fn event_ended(
        &mut self,
        database: Option<&mut (dyn Capturing + '_)>,
    ) -> Result<(), StorageFault> {
        let Some(database) = database.filter(|_| !self.is_lost()) else { return Ok(()) };
        if self.shared.status().ships {
            self.shared.state().waits = true;
            return Ok(());
        }
        self.capture(database).map(drop)
    }

    /// Returns when an upload has ended while commits wait for it, or the hold is lost. Then
    /// `event_ended` is to be called again.
    pub async fn shipped(&self) {
        tokio::select! {
            () = self.shared.more.notified() => {}
            () = self.shared.right.term().ended() => {}
        }
    }

    /// Returns once all that was committed is in every later restore, and so is what it rests on: a hold
    /// that wrote nothing writes a fence. Without it a segment of an earlier holder, based below what was
    /// restored, could land and become the history.
    pub async fn durable(
        &mut self,
        mut database: Option<&mut (dyn Capturing + '_)>,
    ) -> Result<(), ShipError> {
        loop {
            self.settle().await?;
            if let Some(database) = &mut database
                && self.capture(&mut **database)?
            {
                continue;
            }
            let durable = self.shared.state().progress.durable(true);
            match durable {
                Durable::Already => return self.still_valid(),
                Durable::Fence if is_broken(Twin::AcknowledgesNothingWithoutFence) => {
                    return self.still_valid();
                }
                Durable::Fence => self.send_fence()?,
                Durable::Wait => {}
            }
        }
    }

    /// Makes what was restored the history: what an earlier holder sent can no longer become it. For an
    /// answer that depends on what was read.
    pub async fn fence(&mut self) -> Result<(), ShipError> {
        self.durable(None).await
    }

    /// Makes the actor's deletion durable: `pages`, from the first on, are all of the empty database
    /// that stays. All before is then erased, while the actor goes on.
    pub async fn reset(&mut self, pages: Vec<Vec<u8>>) -> Result<(), ShipError> {
        self.settle().await?;
        let db_pages = u32::try_from(pages.len()).unwrap_or(u32::MAX);
        let numbers: Vec<u32> = whole_pages(db_pages).collect();
        let describe = |at, base| reset(at, base, db_pages);
        let sent = self.send(describe, numbers, |page, to| copy(&pages, page, to))?;
        self.settle().await?;
        self.still_valid()?;
        self.begin_stand_in(sent.map(|sent| StandIn::after_reset(sent, pages)));
        Ok(())
    }

    /// Gives the actor back with everything acknowledged, or to `next`. An actor that cannot be given
    /// back is given up.
    pub async fn leave(mut self, database: Option<Box<dyn Database>>, next: Option<NodeId>) {
        let mut database = database;
        if let Err(error) = self.drain(&mut database).await
            && !self.forgives(&error)
        {
            drop(database);
            return self.given_up(&error);
        }
        let head = self.known_head();
        let closed = match (database, head) {
            (Some(database), Some(head)) => database.close_at(head),
            (Some(database), None) => database.close(),
            (None, _) => Ok(()),
        };
        if let Err(fault) = closed {
            // It is not trusted then, and restored.
            tracing::warn!(actor = %self.shared.address, %fault, "database not closed well");
        }
        let Some(hold) = self.hold.take() else { return };
        let state = self.shared.state().clone();
        self.stop_processes();
        let owners = Arc::clone(self.replicas.owners());
        if let Some(released) = owners.release(hold, head, next).await {
            self.replicas.keep(self.shared.address.clone(), Kept { released, state });
        }
    }

    /// Lets the actor go without a word: what is not acknowledged is dropped with its file, which is set
    /// aside, and the record names this node on. The database must be closed.
    pub fn give_up(self) {
        let cause = self.lost().unwrap_or(Lost::Storage);
        self.given_up(&cause.into());
    }

    fn given_up(mut self, error: &ShipError) {
        let cause = match error {
            ShipError::Lost(lost) => *lost,
            ShipError::Storage(_) => Lost::Storage,
        };
        let address = self.shared.address.clone();
        tracing::warn!(actor = %address, generation = %self.generation(), cause = cause.as_str(), %error, "actor given up");
        self.replicas.parts.metrics.given_up(cause.as_str());
        self.end();
        if let Err(fault) = self.replicas.parts.files.set_aside(&address) {
            // It is not trusted: the next hold restores over it.
            tracing::warn!(actor = %address, %fault, "file not set aside");
        }
    }

    /// Everything captured and acknowledged, and what stands in for it done.
    async fn drain(&mut self, database: &mut Option<Box<dyn Database>>) -> Result<(), ShipError> {
        let Some(capturing) = database.as_mut().and_then(|database| database.capturing()) else {
            self.settle().await?;
            return self.still_valid();
        };
        self.captured(capturing).await?;
        let may_vacuum = self.shared.state().knows_reset;
        if may_vacuum && capturing.vacuum_if_sparse()? {
            self.captured(capturing).await?;
        }
        let is_due = {
            let state = self.shared.state();
            let (head, bytes) = (state.progress.head(), state.database_bytes());
            let is_due = state.since.snapshot_is_due_at_hibernation(bytes);
            head.filter(|head| is_due && state.permits(head.at))
        };
        if let Some(head) = is_due
            && !self.shared.status().stands_in
            && let Some(latched) = capturing.latch()?
        {
            self.begin_stand_in(Some(StandIn::snapshot(head, latched)));
        }
        // While one reads the file, closing would not leave all in it.
        self.shared.until(|status| !status.stands_in).await;
        self.still_valid()
    }

    async fn captured(&mut self, database: &mut (dyn Capturing + '_)) -> Result<(), ShipError> {
        loop {
            self.settle().await?;
            if !self.capture(database)? {
                return Ok(());
            }
        }
    }

    /// Waits until nothing is under way.
    async fn settle(&self) -> Result<(), ShipError> {
        let status = self.shared.until(|status| !status.ships).await;
        match status.lost {
            Some(lost) => Err(lost.into()),
            None if status.ships => Err(Lost::Lapsed.into()),
            None => Ok(()),
        }
    }

    fn still_valid(&self) -> Result<(), ShipError> {
        match self.shared.lost() {
            Some(Lost::Lapsed) if is_broken(Twin::AcknowledgesPastHorizon) => Ok(()),
            Some(lost) => Err(lost.into()),
            None => Ok(()),
        }
    }

    /// Captures and sends, nothing being under way. Returns whether there was anything.
    fn capture(&mut self, database: &mut (dyn Capturing + '_)) -> Result<bool, StorageFault> {
        if self.adopts {
            self.adopts = false;
            database.capture_whole();
        }
        let Some(mut captured) = database.capture()? else {
            let head = self.head();
            self.stand_in_if_due(database, head)?;
            return Ok(false);
        };
        let is_first = self.shared.state().progress.head().is_none();
        let has_all = || whole_pages(captured.db_pages).eq(captured.changed.iter().copied());
        if is_first && !captured.is_whole && !has_all() {
            // Part of it is in the file already, as the switch to a log leaves the first page.
            database.capture_whole();
            captured = database.capture()?.unwrap_or(captured);
        }
        let Captured { changed, db_pages, frames, is_whole } = captured;
        let newest_reset = self.reset_at();
        let describe = |at, base| match is_whole {
            true => full(at, base, db_pages, newest_reset),
            false => delta(at, base, db_pages, frames),
        };
        let sent = self.send(describe, changed, |page, to| database.read_captured(page, to))?;
        self.stand_in_if_due(database, sent)?;
        Ok(true)
    }

    fn send_fence(&mut self) -> Result<(), StorageFault> {
        let db_pages = self.shared.state().db_pages;
        self.send(|at, base| fence(at, base, db_pages), Vec::new(), |_, _| Ok(())).map(drop)
    }

    /// Makes the next segment and hands it to the process that sends it.
    fn send(
        &mut self,
        describe: impl FnOnce(Position, Option<Base>) -> Description,
        pages: Vec<u32>,
        read: impl FnMut(u32, &mut [u8]) -> Result<(), StorageFault>,
    ) -> Result<Option<Base>, StorageFault> {
        let Some((at, base)) = self.shared.state().progress.next() else { return Ok(None) };
        let description = describe(at, base);
        let (kind, db_pages) = (description.kind, description.db_pages);
        let (body, hash) =
            self.replicas.encoded(&self.shared, description, pages.iter().copied(), read)?;
        let sent = Sent { at, base, hash, bytes: body.len() as u64, db_pages, pages: &pages, kind };
        self.shared.state().sent(&sent);
        self.shared.change(|status| status.ships = true);
        let work = Work::Ship(Shipment { at, kind, body }, Underway::new(&self.shared));
        hand_over(&self.replicas, &self.shared, &mut self.segments, work);
        Ok(Some(Base { at, hash }))
    }

    /// Begins a snapshot or a merged object of the state that `newest` leads to, if one is due. All
    /// must have been captured.
    fn stand_in_if_due(
        &mut self,
        database: &mut (dyn Capturing + '_),
        newest: Option<Base>,
    ) -> Result<(), StorageFault> {
        let Some(newest) = newest.filter(|_| !self.shared.status().stands_in) else {
            return Ok(());
        };
        let is_due = self.shared.state().stand_in_is_due(newest.at);
        if !is_due {
            return Ok(());
        }
        let Some(latched) = database.latch()? else { return Ok(()) };
        let stand_in = self.shared.state().stand_in(newest, latched);
        self.begin_stand_in(stand_in);
        Ok(())
    }

    fn begin_stand_in(&mut self, stand_in: Option<StandIn>) {
        let Some(stand_in) = stand_in else { return };
        self.shared.change(|status| status.stands_in = true);
        let work = Work::StandIn(stand_in, Underway::new(&self.shared));
        hand_over(&self.replicas, &self.shared, &mut self.stand_ins, work);
    }

    /// What the file is when it is closed: none if that is not known.
    fn known_head(&self) -> Option<Base> {
        let lost = self.shared.status().lost;
        let state = self.shared.state();
        match lost {
            None => state.progress.head(),
            // Broken: as if an upload whose outcome is not known had landed.
            Some(_) => state.sent,
        }
    }

    fn forgives(&self, error: &ShipError) -> bool {
        matches!(error, ShipError::Lost(Lost::Unknown)) && is_broken(Twin::FastPathAfterUnknown)
    }

    fn stop_processes(&mut self) {
        for process in [self.segments.take(), self.stand_ins.take()].into_iter().flatten() {
            process.stop(None);
        }
    }

    fn end(&mut self) {
        if let Some(hold) = self.hold.take() {
            self.replicas.owners().give_up(&hold);
        }
        self.stop_processes();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end();
    }
}

/// Dropped on the way, the work loses the hold.
fn hand_over(
    replicas: &Arc<Replicas>,
    shared: &Arc<Shared>,
    process: &mut Option<ActorRef<Work>>,
    work: Work,
) {
    if process.is_none() {
        match ReplicaProcess::start(replicas, shared) {
            Ok(started) => *process = Some(started),
            Err(error) => {
                tracing::error!(actor = %shared.address, %error, "replica process not started");
                return;
            }
        }
    }
    if let Some(process) = process {
        let _ = process.send_message(work);
    }
}

pub(super) fn copy(pages: &[Vec<u8>], page: u32, to: &mut [u8]) -> Result<(), StorageFault> {
    let from = pages.get(page as usize - 1).filter(|from| from.len() == to.len());
    let from = from.ok_or_else(|| StorageFault {
        operation: "read",
        path: "the empty database".into(),
        cause: format!("page {page} is missing or of another size"),
    })?;
    to.copy_from_slice(from);
    Ok(())
}

/// Segments and stand-ins of a hold that may go on.
impl State {
    fn stand_in_is_due(&self, at: Position) -> bool {
        let is_own = at.generation() == self.progress.generation();
        let snapshot = self.since.snapshot_is_due(self.compressed_bytes());
        (is_own || self.permits(at)) && (snapshot || self.since.merge_is_due())
    }
}
