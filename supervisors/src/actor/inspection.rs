//! What an operator reads of an actor, between two of its events.
//!
//! A resident actor's database belongs to its process, so whoever reads it takes a turn in its
//! queue. No guest code runs for that, and an actor that has no database gets none.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;

use super::queue::Permit;
use crate::access::Access;
use crate::event::{Reason, Refusal};
use crate::ports::{Database, Left, OpenError};

/// The actor's database, if it has one that opens.
pub type Opened<'a> = Result<Option<&'a mut dyn Database>, OpenError>;

/// Reads what it is given, and sends what it read to whoever asked.
pub struct Inspection {
    read: Box<dyn FnOnce(Opened<'_>) + Send>,
    left: Left,
}

/// The one who waits for an inspection; dropped, it has left.
pub struct Inspector<T> {
    answer: oneshot::Receiver<Inspected<T>>,
    left: Left,
}

/// An inspection with its place in the queue.
pub struct QueuedInspection {
    pub permit: Permit,
    pub inspection: Inspection,
}

/// Why nothing was read.
#[derive(Debug, Error)]
pub enum InspectError {
    #[error("{0}")]
    Refused(Refusal),
    #[error(transparent)]
    NotOpened(#[from] OpenError),
}

/// What was read; none of an actor without a database.
pub type Inspected<T> = Result<Option<T>, InspectError>;

impl Inspection {
    /// An inspection that runs `read`, and who waits for it.
    pub fn new<T: Send + 'static>(
        read: impl FnOnce(&mut dyn Database) -> T + Send + 'static,
    ) -> (Self, Inspector<T>) {
        let (to, answer) = oneshot::channel();
        let left = Left::default();
        let read = move |opened: Opened<'_>| {
            let _ = to.send(opened.map(|database| database.map(read)).map_err(Into::into));
        };
        (Self { read: Box::new(read), left: Arc::clone(&left) }, Inspector { answer, left })
    }

    /// Whether nobody waits for it any more.
    pub fn left(&self) -> &Left {
        &self.left
    }

    pub fn run(self, opened: Opened<'_>) {
        (self.read)(opened);
    }
}

impl<T> Inspector<T> {
    pub async fn answer(mut self) -> Inspected<T> {
        let lost = |_| InspectError::Refused(Refusal::not_run(Reason::Unavailable));
        (&mut self.answer).await.map_err(lost)?
    }
}

impl<T> Drop for Inspector<T> {
    fn drop(&mut self) {
        self.left.store(true, Ordering::Relaxed);
    }
}

/// What the processes know of an actor without asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// How its class is served; none when it is not.
    pub served: Option<Served>,
    /// Its queue, while it is in memory.
    pub queue: Option<QueueLength>,
    /// Its WebSockets.
    pub sockets: usize,
    /// How long its events are still refused because its process kept failing.
    pub quarantined: Option<Duration>,
    pub node_is_stopping: bool,
}

/// How a class is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Hexadecimal SHA-256 of its component.
    pub component: String,
    pub access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLength {
    pub waiting: u64,
    pub is_running: bool,
}
