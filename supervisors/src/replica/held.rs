//! An actor while this node holds it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ractor::ActorRef;

use super::error::{Lost, ShipError};
use super::marks::Marks;
use super::process::Work;
use super::replicas::Replicas;
use super::shared::Shared;
use crate::address::Address;
use crate::event::Mark;
use crate::history::{Base, Durable, Generation, Position};
use crate::lease::Term;
use crate::ownership::{Hold, Right};
use crate::ports::{Capturing, StorageFault};
use crate::twin::{Twin, is_broken};

/// Dropped, it gives the hold up, and leaves the actor's file: that is not trusted.
pub struct Held {
    pub(super) replicas: Arc<Replicas>,
    pub(super) shared: Arc<Shared>,
    /// None once it has been released.
    pub(super) hold: Option<Hold>,
    /// What the next capture is to be, if not what changed.
    pub(super) whole: Option<Whole>,
    /// The file is to become a copy once its adoption is acknowledged.
    pub(super) adoption_ends: bool,
    pub(super) segments: Option<ActorRef<Work>>,
    pub(super) stand_ins: Option<ActorRef<Work>>,
    pub(super) marks: Marks,
}

/// Why every page is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// The file is of before the history, which begins with it.
    Adopted,
    /// The actor was deleted.
    Reset,
}

/// Whether all that was committed is durable.
#[derive(Debug)]
pub enum Settled {
    Durable,
    /// Ask again after this.
    Wait(ShipWait),
}

/// Ends when an upload has ended. It borrows nothing of the actor.
pub struct ShipWait(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Future for ShipWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl std::fmt::Debug for ShipWait {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("wait for an upload")
    }
}

impl Held {
    pub(super) fn new(
        replicas: Arc<Replicas>,
        hold: Hold,
        shared: Arc<Shared>,
        adopts: bool,
    ) -> Self {
        let whole = adopts.then_some(Whole::Adopted);
        let (segments, stand_ins) = (None, None);
        Self {
            replicas,
            shared,
            hold: Some(hold),
            whole,
            adoption_ends: adopts,
            segments,
            stand_ins,
            marks: Marks::default(),
        }
    }

    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    pub fn term(&self) -> &Term {
        self.shared.right.term()
    }

    pub fn right(&self) -> &Right {
        &self.shared.right
    }

    pub fn generation(&self) -> Generation {
        self.shared.state().progress.generation()
    }

    /// The newest segment of the chain that is known to be in the bucket.
    pub fn head(&self) -> Option<Base> {
        self.shared.state().progress.head()
    }

    /// Whether what is committed can be shipped while its actor writes on: it is no segment of every page,
    /// for which the log has to be emptied.
    pub fn ships_beside(&self) -> bool {
        self.whole.is_none() && self.shared.state().db_pages > 0
    }

    /// A write was committed whose writer goes on, and looks at `durable_mark` from time to time.
    pub fn wrote(&mut self, mark: Mark) {
        self.marks.wrote(mark);
    }

    /// The newest of those that is in every later restore, with all before it.
    pub fn durable_mark(&mut self) -> Mark {
        if !self.is_lost() {
            self.marks.landed(self.shared.state().progress.acknowledged());
        }
        self.marks.durable()
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

    /// The actor's file is of before its history and is to become its beginning: `opened` has to run
    /// before the first statement.
    pub fn adopts(&self) -> bool {
        self.whole == Some(Whole::Adopted)
    }

    /// Right after the database was opened, before its first statement. Does what `settle` does, if the
    /// file is to be adopted.
    pub async fn opened(&mut self, database: &mut dyn Capturing) -> Result<(), ShipError> {
        if self.adopts() { self.durable(Some(database)).await } else { Ok(()) }
    }

    /// Captures what was committed and begins to ship it, unless an upload is under way: then it stays
    /// in the log, and is captured with what follows once `shipped` says so.
    pub fn event_ended(
        &mut self,
        database: Option<&mut dyn Capturing>,
    ) -> Result<(), StorageFault> {
        let Some(database) = database.filter(|_| !self.is_lost()) else { return Ok(()) };
        if self.shared.status().ships {
            self.shared.state().waits = true;
            // The upload may have ended in between, without a word of what waits.
            if !self.shared.status().ships {
                self.shared.more.notify_one();
            }
            return Ok(());
        }
        self.capture(database).map(drop)
    }

    /// Ends when an upload has ended while commits wait for it, or the hold is lost. Then `event_ended` is
    /// to be called again. It borrows nothing of the actor.
    pub fn shipped(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            tokio::select! {
                biased;
                () = shared.more.notified() => {}
                () = shared.right.term().ended() => {}
            }
        }
    }

    /// One step on the way to where all that was committed is in every later restore, and so is what it
    /// rests on: a hold that wrote nothing writes a fence. Without it a segment of an earlier holder, based
    /// below what was restored, could land and become the history.
    pub fn settle(
        &mut self,
        database: Option<&mut (dyn Capturing + '_)>,
    ) -> Result<Settled, ShipError> {
        let status = self.shared.status();
        if let Some(lost) = status.lost {
            return Err(lost.into());
        }
        if status.ships {
            self.still_valid()?;
            return Ok(self.wait());
        }
        if let Some(database) = database
            && self.capture(database)?
        {
            return Ok(self.wait());
        }
        let durable = self.shared.state().progress.durable(true);
        match durable {
            Durable::Fence if !is_broken(Twin::AcknowledgesNothingWithoutFence) => {
                self.still_valid()?;
                self.send_fence()?;
                Ok(self.wait())
            }
            Durable::Already | Durable::Fence => {
                self.still_valid()?;
                self.marks.all_landed();
                Ok(Settled::Durable)
            }
            Durable::Wait => Ok(self.wait()),
        }
    }

    /// Returns once `settle` says that all is durable.
    pub async fn durable(
        &mut self,
        mut database: Option<&mut (dyn Capturing + '_)>,
    ) -> Result<(), ShipError> {
        loop {
            let step = match &mut database {
                Some(database) => self.settle(Some(&mut **database))?,
                None => self.settle(None)?,
            };
            match step {
                Settled::Durable => return Ok(()),
                Settled::Wait(wait) => wait.await,
            }
        }
    }

    /// Makes what was restored the history: what an earlier holder sent can no longer become it. For an
    /// answer that depends on what was read.
    pub async fn fence(&mut self) -> Result<(), ShipError> {
        self.durable(None).await
    }

    /// The actor was deleted, and `database` is the empty one that stays: once that is settled, so is the
    /// deletion. All before it is then erased, while the actor goes on.
    pub fn begin_reset(&mut self, database: &mut dyn Capturing) {
        database.capture_whole();
        self.whole = Some(Whole::Reset);
    }

    /// `begin_reset`, and until it is settled.
    pub async fn reset(&mut self, database: &mut dyn Capturing) -> Result<(), ShipError> {
        self.begin_reset(database);
        self.durable(Some(database)).await
    }

    fn wait(&self) -> Settled {
        let shared = Arc::clone(&self.shared);
        let wait = async move {
            shared.until(|status| !status.ships).await;
        };
        Settled::Wait(ShipWait(Box::pin(wait)))
    }

    pub(super) fn still_valid(&self) -> Result<(), ShipError> {
        match self.shared.lost() {
            Some(Lost::Lapsed) if is_broken(Twin::AcknowledgesPastHorizon) => Ok(()),
            Some(lost) => Err(lost.into()),
            None => Ok(()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end();
    }
}
