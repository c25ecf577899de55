//! The handle to one actor's process, and the messages that process takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ractor::ActorRef;
use tokio::sync::{Semaphore, oneshot};

use super::inspection::{Inspection, QueuedInspection};
use super::queue::{Gate, NotAdmitted, Permit};
use super::residents::Seat;
use crate::address::Address;
use crate::event::Event;
use crate::limits::QUEUE_EVENTS_MAX;

/// An admitted event: the permit is its place in the queue.
pub struct QueuedEvent {
    pub permit: Permit,
    /// In a box from its sender to the process: it is large, and passes through many hands.
    pub event: Box<Event>,
}

/// What an actor's process handles. Everything but `Event` is the host's own.
pub enum ActorMessage {
    Event(QueuedEvent),
    /// An operator reads the database.
    Inspect(Box<QueuedInspection>),
    /// In a cluster: an upload of what the actor wrote has ended, and more may wait.
    Shipped,
    /// In a cluster: a term of the node's lease has ended, and the holds of it.
    Lapsed,
    /// Give back what only the next event would use, if there was none for a moment.
    RestCheck,
    /// Hibernate if the idle timeout has passed.
    IdleCheck,
    /// Hibernate to make room: the gate has been closed for that, and the seat is bequeathed.
    Evict(oneshot::Sender<Seat>),
    /// Hibernate because somebody asked for it: the gate has been closed for that.
    Hibernate,
    /// The node stops: close everything after the events already queued.
    Close,
}

/// What the process, its mailboxes and the residents share.
pub struct Shared {
    pub address: Address,
    pub gate: Arc<Gate>,
    /// Touched since the eviction hand last passed.
    pub used: AtomicBool,
    /// Its place in the eviction ring.
    pub ring_place: AtomicUsize,
    /// The process holds nothing of the actor any more.
    pub ended: AtomicBool,
    /// Closed a moment after `ended`, for those who wait for it.
    gone: Semaphore,
}

impl Shared {
    pub fn new(address: Address) -> Arc<Self> {
        Arc::new(Self {
            address,
            gate: Gate::new(QUEUE_EVENTS_MAX),
            used: AtomicBool::new(true),
            ring_place: AtomicUsize::new(usize::MAX),
            ended: AtomicBool::new(false),
            gone: Semaphore::new(0),
        })
    }

    /// Returns once the process holds nothing of the actor, and its address is free again.
    pub async fn gone(&self) {
        let _closed = self.gone.acquire().await;
    }

    /// Wakes those who wait for `gone`.
    pub fn set_gone(&self) {
        self.gone.close();
    }
}

/// Sends events to one actor's process.
#[derive(Clone)]
pub struct Mailbox {
    pub shared: Arc<Shared>,
    pub process: ActorRef<ActorMessage>,
}

impl Mailbox {
    /// Takes a place in the queue. While it is held the actor stays in memory.
    pub fn admit(&self) -> Result<Permit, NotAdmitted> {
        self.shared.gate.admit()
    }

    /// As `admit`, for what the host bounds elsewhere: a full queue does not refuse it.
    pub fn admit_job(&self) -> Result<Permit, NotAdmitted> {
        self.shared.gate.admit_job()
    }

    /// Sends an inspection that has a place in the queue; gives it back when the process is gone.
    pub fn inspect(&self, permit: Permit, inspection: Inspection) -> Result<(), Inspection> {
        let queued = Box::new(QueuedInspection { permit, inspection });
        match self.process.send_message(ActorMessage::Inspect(queued)) {
            Ok(()) => Ok(()),
            Err(ractor::MessagingErr::SendErr(ActorMessage::Inspect(queued))) => {
                self.shared.gate.close();
                Err(queued.inspection)
            }
            Err(_) => unreachable!("an actor's process takes ActorMessage only"),
        }
    }

    /// Sends an event that has a place in the queue; gives it back when the process is gone.
    pub fn send(&self, permit: Permit, event: Box<Event>) -> Result<(), Box<Event>> {
        self.shared.used.store(true, Ordering::Relaxed);
        match self.process.send_message(ActorMessage::Event(QueuedEvent { permit, event })) {
            Ok(()) => Ok(()),
            // The process failed and nobody has closed the gate yet.
            Err(ractor::MessagingErr::SendErr(ActorMessage::Event(queued))) => {
                self.shared.gate.close();
                Err(queued.event)
            }
            Err(_) => unreachable!("an actor's process takes ActorMessage only"),
        }
    }
}
