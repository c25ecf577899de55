//! What happens on this node, told to whoever listens now: `wasmkeep tail`.
//!
//! Nothing is kept for later, and nobody waits for a listener: one that is too slow loses the
//! oldest records and is told how many. While nobody listens a record costs one relaxed read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::address::Address;
use crate::event::{Caller, Kind, Reason, Request, SocketEvent, SocketTask, Task};
use crate::guest_log::{as_line, log_line};
use crate::limits::TAIL_RECORDS_MAX;
use crate::metrics::Metrics;
use crate::ports::Clock;
use crate::time::Timestamp;

/// Something that happened to an actor, or to the front.
#[derive(Debug, Clone)]
pub struct Record {
    pub at: Timestamp,
    pub address: Address,
    pub what: Happening,
}

#[derive(Debug, Clone)]
pub enum Happening {
    Event(EventEnded),
    /// The actor called another one.
    CallOut(CallEnded),
    Log {
        is_error: bool,
        line: String,
    },
    /// Lines of an event beyond the limit of a second.
    LogDropped {
        lines: u32,
    },
    Woke,
    Hibernated {
        cause: &'static str,
    },
}

/// An event that was taken off its actor's queue, or never got there.
#[derive(Debug, Clone)]
pub struct EventEnded {
    pub head: EventHead,
    pub outcome: Outcome,
    /// What its sender got first, of a request.
    pub status: Option<u16>,
    /// From its start to its end.
    pub took: Duration,
    /// Which attempt of an alarm.
    pub attempt: Option<u32>,
}

/// What is kept of an event while it runs. Without method and path when nobody listened at its
/// start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventHead {
    pub kind: Kind,
    pub caller: Option<Address>,
    pub method: Option<String>,
    pub path: Option<String>,
}

/// How an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    /// It ran, and the host answered in its place.
    Failed(Reason),
    /// It did not run, by rule.
    Refused(Reason),
    /// Nobody waited for it any more, or no alarm was due.
    Skipped,
}

impl Outcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Failed(_) => "failed",
            Outcome::Refused(_) => "refused",
            Outcome::Skipped => "skipped",
        }
    }

    pub const fn reason(self) -> Option<Reason> {
        match self {
            Outcome::Failed(reason) | Outcome::Refused(reason) => Some(reason),
            Outcome::Answered | Outcome::Skipped => None,
        }
    }
}

/// A call of an actor, as the actor saw it end.
#[derive(Debug, Clone)]
pub struct CallEnded {
    /// As the actor wrote it.
    pub target: String,
    pub outcome: &'static str,
    pub status: Option<u16>,
    pub took: Duration,
}

impl Happening {
    /// An event that ended before it ran.
    pub fn did_not_run(head: EventHead, outcome: Outcome) -> Self {
        Happening::Event(EventEnded {
            head,
            outcome,
            status: outcome.reason().map(Reason::status),
            took: Duration::ZERO,
            attempt: None,
        })
    }
}

impl EventHead {
    pub fn of(task: &Task) -> Self {
        let head = Self::unnoted(task.kind());
        let caller = task.caller().and_then(Caller::address).cloned();
        match task {
            Task::Request(request) => Self { kind: head.kind, ..Self::of_request(request) },
            Task::Socket(SocketTask { event: SocketEvent::Open(request), .. }) => {
                Self { caller, path: Some(cut(&request.path, PATH_BYTES_MAX)), ..head }
            }
            Task::Alarm | Task::Socket(_) => Self { caller, ..head },
        }
    }

    /// Of a request to the front, which is no event of an actor.
    pub fn of_request(request: &Request) -> Self {
        let Request { head, caller, .. } = request;
        Self {
            kind: Kind::Request,
            caller: caller.address().cloned(),
            method: Some(cut(&head.method, METHOD_BYTES_MAX)),
            path: Some(cut(&head.path, PATH_BYTES_MAX)),
        }
    }

    /// Of an event that nobody listened to at its start.
    pub const fn unnoted(kind: Kind) -> Self {
        Self { kind, caller: None, method: None, path: None }
    }
}

impl CallEnded {
    pub fn new(target: &str, outcome: &'static str, status: Option<u16>, took: Duration) -> Self {
        Self { target: cut(target, TARGET_BYTES_MAX), outcome, status, took }
    }
}

/// What is kept of texts that guests and clients write: records wait in thousands.
const METHOD_BYTES_MAX: usize = 32;
const PATH_BYTES_MAX: usize = 2 * 1024;
const TARGET_BYTES_MAX: usize = 400;

fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// Where records go.
pub struct Tap {
    listeners: AtomicUsize,
    records: broadcast::Sender<Arc<Record>>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl Tap {
    pub fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Arc<Self> {
        let (records, _) = broadcast::channel(TAIL_RECORDS_MAX);
        Arc::new(Self { listeners: AtomicUsize::new(0), records, clock, metrics })
    }

    pub fn is_open(&self) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0
    }

    /// Tells who listens what happened to an actor; makes nothing when nobody does.
    pub fn tell(&self, address: &Address, what: impl FnOnce() -> Happening) {
        if self.is_open() {
            let record = Record { at: self.clock.now(), address: address.clone(), what: what() };
            // An error says that the last listener has just left.
            let _ = self.records.send(Arc::new(record));
        }
    }

    /// A guest wrote a line: counted, told, and written to the log.
    pub fn guest_line(&self, guest: &Address, line: &str, is_error: bool) {
        self.metrics.guest_log_lines.inc();
        let line = as_line(line);
        self.tell(guest, || Happening::Log { is_error, line: line.to_string() });
        log_line(guest, &line, is_error);
    }

    /// Listens from now on.
    pub fn listen(self: &Arc<Self>) -> Listener {
        let records = self.records.subscribe();
        self.listeners.fetch_add(1, Ordering::Relaxed);
        self.metrics.tail_listeners.inc();
        Listener { tap: Arc::clone(self), records }
    }
}

/// One who listens, until it is dropped.
pub struct Listener {
    tap: Arc<Tap>,
    records: broadcast::Receiver<Arc<Record>>,
}

#[derive(Debug, Clone)]
pub enum Heard {
    Record(Arc<Record>),
    /// So many records are missing here.
    Gap(u64),
}

impl Listener {
    /// Waits for the next record.
    pub async fn next(&mut self) -> Heard {
        match self.records.recv().await {
            Ok(record) => Heard::Record(record),
            Err(RecvError::Lagged(lost)) => self.gap(lost),
            // The sender is the tap's, which is kept here.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    /// The next record, if there is one already.
    pub fn try_next(&mut self) -> Option<Heard> {
        match self.records.try_recv() {
            Ok(record) => Some(Heard::Record(record)),
            Err(TryRecvError::Lagged(lost)) => Some(self.gap(lost)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }

    fn gap(&self, lost: u64) -> Heard {
        self.tap.metrics.tail_records_lost.inc_by(lost);
        Heard::Gap(lost)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tap.listeners.fetch_sub(1, Ordering::Relaxed);
        self.tap.metrics.tail_listeners.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::address::{ActorName, Class, Tenant};

    /// The time that a test set last.
    #[derive(Default)]
    struct SetClock(AtomicU64);

    impl Clock for SetClock {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }
    }

    /// A tap, and how to tell it of a wake at a time.
    fn tap() -> (Arc<Tap>, impl Fn(u64)) {
        let clock = Arc::new(SetClock::default());
        let metrics = Arc::new(Metrics::new().expect("a registry of its own"));
        let tap = Tap::new(Arc::clone(&clock) as _, metrics);
        let told = Arc::clone(&tap);
        let tell_at = move |at| {
            clock.0.store(at, Ordering::Relaxed);
            told.tell(&address(), || Happening::Woke);
        };
        (tap, tell_at)
    }

    fn address() -> Address {
        Address {
            tenant: Tenant::default_tenant(),
            class: Class::parse("a").expect("a legal class"),
            name: ActorName::parse("x").expect("a legal name"),
        }
    }

    #[test]
    fn a_record_is_made_only_while_somebody_listens() {
        let (tap, tell_at) = tap();
        tap.tell(&address(), || unreachable!("nobody listens"));
        let mut listener = tap.listen();
        tell_at(1);
        assert!(matches!(listener.try_next(), Some(Heard::Record(record)) if record.at.0 == 1));
        assert!(listener.try_next().is_none());
        assert_eq!(tap.metrics.tail_listeners.get(), 1);
        drop(listener);
        assert_eq!(tap.metrics.tail_listeners.get(), 0);
        tap.tell(&address(), || unreachable!("nobody listens any more"));
    }

    #[test]
    fn a_slow_listener_is_told_what_it_lost_where_it_is_missing() {
        let (tap, tell_at) = tap();
        let mut listener = tap.listen();
        let most = TAIL_RECORDS_MAX as u64;
        (0..most + 7).for_each(tell_at);
        assert!(matches!(listener.try_next(), Some(Heard::Gap(7))));
        for at in 7..most + 7 {
            assert!(matches!(listener.try_next(), Some(Heard::Record(r)) if r.at.0 == at));
        }
        assert!(listener.try_next().is_none());
        assert_eq!(tap.metrics.tail_records_lost.get(), 7);
    }
}
