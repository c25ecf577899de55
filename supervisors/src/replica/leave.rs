//! How a hold ends: released, parked, or given up.

use std::sync::Arc;

use super::error::{Lost, ShipError};
use super::held::Held;
use super::kept::Kept;
use super::marks::Marks;
use super::stand_in::StandIn;
use crate::address::NodeId;
use crate::history::Base;
use crate::ports::{Capturing, Database};
use crate::twin::{Twin, is_broken};

impl Held {
    /// Gives the actor back with everything acknowledged, or to `next`. One that cannot be given back is
    /// given up.
    pub async fn leave(mut self, database: Option<Box<dyn Database>>, next: Option<NodeId>) {
        let head = match self.close(database).await {
            Ok(head) => head,
            Err(error) => return self.given_up(&error),
        };
        let Some(hold) = self.hold.take() else { return };
        let state = self.shared.state().clone().handed_on();
        self.stop_processes();
        let released = self.replicas.owners().release(hold, head, next).await;
        if let Some(released) = released {
            self.replicas.releases.keep(self.shared.address.clone(), Kept { released, state });
        }
    }

    /// Keeps the hold in memory, with the actor's file closed: it has sockets, and wakes without a word
    /// to the bucket. One that cannot be kept is given up; then false.
    pub async fn park(mut self, database: Option<Box<dyn Database>>) -> bool {
        match self.close(database).await {
            Ok(_) => {
                let replicas = Arc::clone(&self.replicas);
                self.shared.set_leaves(false);
                // Whoever takes the hold up counts its writes anew.
                self.marks = Marks::default();
                replicas.keep_parked(self);
                true
            }
            Err(error) => {
                self.given_up(&error);
                false
            }
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
            ShipError::Lost(lost) => lost.as_str(),
            ShipError::Storage(_) => Lost::Storage.as_str(),
        };
        let (actor, generation) = (self.shared.address.clone(), self.generation());
        tracing::warn!(%actor, %generation, %error, "actor given up");
        self.replicas.parts.metrics.given_up(cause);
        self.end();
        if let Err(fault) = self.replicas.parts.files.set_aside(&actor) {
            // It is not trusted: the next hold restores over it.
            tracing::warn!(%actor, %fault, "file not set aside");
        }
    }

    /// Ships what is left and closes the file. Returns what it is, if that is known.
    async fn close(
        &mut self,
        mut database: Option<Box<dyn Database>>,
    ) -> Result<Option<Base>, ShipError> {
        let drained = match database.as_mut().and_then(|database| database.capturing()) {
            Some(capturing) => self.drain(capturing).await,
            None => self.sent().await,
        };
        match drained.and_then(|()| self.still_valid()) {
            Err(ShipError::Lost(Lost::Unknown)) if is_broken(Twin::FastPathAfterUnknown) => {}
            drained => drained?,
        }
        let head = self.known_head();
        let closed = match (database, head) {
            (Some(database), Some(head)) => database.close_at(head),
            (Some(database), None) => database.close(),
            (None, _) => Ok(()),
        };
        if let Err(fault) = closed {
            // It is not trusted, and restored next time.
            tracing::warn!(actor = %self.shared.address, %fault, "database not closed well");
        }
        Ok(head)
    }

    /// Everything captured and acknowledged, and what stands in for it made.
    async fn drain(&mut self, database: &mut dyn Capturing) -> Result<(), ShipError> {
        self.captured(database).await?;
        let may_vacuum = self.shared.state().knows_reset;
        if may_vacuum && database.vacuum_if_sparse()? {
            self.captured(database).await?;
        }
        let snapshot_at = {
            let state = self.shared.state();
            let is_due = state.since.snapshot_is_due_at_hibernation(state.database_bytes());
            state.progress.head().filter(|head| is_due && state.permits(head.at))
        };
        let is_idle = self.shared.status().stand_ins == 0;
        if let Some(head) = snapshot_at.filter(|_| is_idle)
            && let Some(latched) = database.latch()?
        {
            self.begin_stand_in(StandIn::snapshot(head, latched));
        }
        // While one of them reads the file, closing would not leave all in it. Much that is to be
        // collected is left to a later hold.
        self.shared.set_leaves(true);
        self.shared.until(|status| status.stand_ins == 0).await;
        self.still_valid()
    }

    async fn captured(&mut self, database: &mut dyn Capturing) -> Result<(), ShipError> {
        loop {
            self.sent().await?;
            if !self.capture(database)? {
                return Ok(());
            }
        }
    }

    /// Waits until nothing is under way.
    async fn sent(&self) -> Result<(), ShipError> {
        let status = self.shared.until(|status| !status.ships).await;
        match status.lost {
            Some(lost) => Err(lost.into()),
            None if status.ships => Err(Lost::Lapsed.into()),
            None => Ok(()),
        }
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

    fn stop_processes(&mut self) {
        for process in [self.segments.take(), self.stand_ins.take()].into_iter().flatten() {
            process.stop(None);
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(hold) = self.hold.take() {
            self.replicas.owners().give_up(&hold);
        }
        self.stop_processes();
    }
}
