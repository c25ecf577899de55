//! How events are handed up, and where wall time and randomness come from.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::address::Address;
use crate::event::{Event, Refusal, Reply, ReplyFrom};
use crate::time::{NodeTime, Timestamp};

/// Hands an event to its actor, and the answer back. Who stops polling leaves, as in
/// `Tree::deliver`.
pub trait Deliver: Send + Sync + 'static {
    fn deliver(
        &self,
        event: Event,
        answer: ReplyFrom,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, Refusal>> + Send + '_>>;

    /// Whether an event handed over now would wait behind another of its actor.
    fn is_busy(&self, address: &Address) -> bool;
}

/// The wall clock of this node. It may be set, so it can jump.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The clock that leases go by: nobody sets it, and it goes on while the machine sleeps.
pub trait Steady: Send + Sync + 'static {
    fn now(&self) -> NodeTime;

    /// Ends once so much of this clock's time has passed, or later.
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Bytes that nobody can guess.
pub trait Random: Send + Sync + 'static {
    fn fill(&self, bytes: &mut [u8]);
}
