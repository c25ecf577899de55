//! The gate in front of an actor's mailbox: at most 1,024 events wait, and a process closes the
//! gate only when none does.
//!
//! ractor's port is unbounded, so events are counted *before* they are sent. Because closing
//! succeeds only while nothing waits or runs, no admitted event is ever left behind by a process
//! that hibernates, and whoever wants it to may close the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CLOSED: u64 = 1 << 63;
const RUNNING: u64 = 1 << 62;
const WAITING: u64 = RUNNING - 1;

/// Counts the waiting events of one actor process.
#[derive(Debug)]
pub struct Gate {
    /// The closed bit, the running bit, and the number of waiting events.
    state: AtomicU64,
    capacity: u64,
}

/// Why an event was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAdmitted {
    /// As many events wait as may.
    Full,
    /// The process behind the gate takes no more events.
    Closed,
}

/// One event's place in the queue, given back when it is dropped.
#[derive(Debug)]
pub struct Permit(Arc<Gate>);

impl Gate {
    pub fn new(capacity: u32) -> Arc<Self> {
        Arc::new(Self { state: AtomicU64::new(0), capacity: u64::from(capacity) })
    }

    /// Takes a place in the queue.
    pub fn admit(self: &Arc<Self>) -> Result<Permit, NotAdmitted> {
        self.admit_below(self.capacity)
    }

    /// Takes a place beyond the capacity: for the host's own events, of which an actor has one at
    /// a time.
    pub fn admit_job(self: &Arc<Self>) -> Result<Permit, NotAdmitted> {
        self.admit_below(WAITING)
    }

    fn admit_below(self: &Arc<Self>, capacity: u64) -> Result<Permit, NotAdmitted> {
        let mut now = self.state.load(Ordering::Acquire);
        loop {
            if now & CLOSED != 0 {
                return Err(NotAdmitted::Closed);
            }
            if now & WAITING >= capacity {
                return Err(NotAdmitted::Full);
            }
            match self.state.compare_exchange_weak(
                now,
                now + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(Permit(Arc::clone(self))),
                Err(changed) => now = changed,
            }
        }
    }

    /// Closes the gate if no event waits or runs.
    pub fn close_if_idle(&self) -> bool {
        self.state.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Closes the gate whatever waits: the process behind it is gone.
    pub fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
    }

    pub fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED == 0
    }

    /// Whether an event runs.
    pub fn is_running(&self) -> bool {
        self.state.load(Ordering::Acquire) & RUNNING != 0
    }

    /// An event runs or waits.
    pub fn is_busy(&self) -> bool {
        self.state.load(Ordering::Acquire) & !CLOSED != 0
    }

    /// Waiting events.
    pub fn waiting(&self) -> u64 {
        self.state.load(Ordering::Acquire) & WAITING
    }
}

/// An event that runs, until it is dropped.
#[derive(Debug)]
pub struct Running(Arc<Gate>);

impl Permit {
    /// The event leaves the queue and runs, in one step: no moment looks idle.
    pub fn start(self) -> Running {
        let gate = Arc::clone(&self.0);
        std::mem::forget(self);
        gate.state.fetch_add(RUNNING - 1, Ordering::AcqRel);
        Running(gate)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.state.fetch_sub(RUNNING, Ordering::AcqRel);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_admits_its_capacity_and_no_more() {
        let gate = Gate::new(2);
        let first = gate.admit().expect("a place");
        let _second = gate.admit().expect("a place");
        assert_eq!(gate.admit().err(), Some(NotAdmitted::Full));
        let _job = gate.admit_job().expect("a place beyond the capacity");
        assert_eq!(gate.admit().err(), Some(NotAdmitted::Full));
        drop((first, _job));
        assert!(gate.admit().is_ok());
    }

    #[test]
    fn a_gate_with_waiting_events_does_not_close() {
        let gate = Gate::new(2);
        let waiting = gate.admit().expect("a place");
        assert!(!gate.close_if_idle());
        drop(waiting);
        assert!(gate.close_if_idle());
        assert_eq!(gate.admit().err(), Some(NotAdmitted::Closed));
    }

    #[test]
    fn a_gate_with_a_running_event_does_not_close() {
        let gate = Gate::new(2);
        let running = gate.admit().expect("a place").start();
        assert_eq!(gate.waiting(), 0);
        assert!(!gate.close_if_idle());
        let _two = (gate.admit().expect("a place"), gate.admit().expect("a place"));
        assert_eq!(gate.admit().err(), Some(NotAdmitted::Full));
        drop(_two);
        drop(running);
        assert!(gate.close_if_idle());
    }

    #[test]
    fn permits_outlive_a_forced_close() {
        let gate = Gate::new(2);
        let waiting = gate.admit().expect("a place");
        gate.close();
        assert_eq!(gate.waiting(), 1);
        drop(waiting);
        assert_eq!(gate.waiting(), 0);
        assert_eq!(gate.admit().err(), Some(NotAdmitted::Closed));
    }

    #[test]
    fn racing_admissions_and_closes_never_lose_an_event() {
        for _ in 0..200 {
            let gate = Gate::new(1024);
            let admitted = std::thread::scope(|threads| {
                let admitting: Vec<_> = (0..4)
                    .map(|_| threads.spawn(|| gate.admit().ok().map(std::mem::forget).is_some()))
                    .collect();
                let closed = gate.close_if_idle();
                let admitted = admitting
                    .into_iter()
                    .filter_map(|thread| thread.join().ok())
                    .filter(|admitted| *admitted)
                    .count();
                assert!(!closed || admitted == 0, "an event was admitted behind a closed gate");
                admitted
            });
            assert_eq!(gate.waiting(), admitted as u64);
        }
    }
}
