//! What one event may spend in SQL: CPU, wall, bytes written. Asked between virtual-machine steps
//! of a running statement and after each one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Which budget an event has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    Cpu,
    Wall,
    Written,
}

#[derive(Debug)]
struct State {
    deadline: Option<Instant>,
    cpu_max: Duration,
    cpu: Duration,
    statement_began: Option<Duration>,
    written_max: u64,
    /// The connection's count of bytes written when the event began.
    written_before: u64,
    spent: Option<Spent>,
}

/// The budgets of the event that uses a connection now.
#[derive(Debug)]
pub struct Budget(Mutex<State>);

impl Budget {
    pub fn new(cpu_max: Duration, written_max: u64) -> Self {
        Self(Mutex::new(State {
            deadline: None,
            cpu_max,
            cpu: Duration::ZERO,
            statement_began: None,
            written_max,
            written_before: 0,
            spent: None,
        }))
    }

    pub fn begin_event(&self, deadline: Instant, written: u64) {
        let mut state = self.lock();
        state.deadline = Some(deadline);
        state.cpu = Duration::ZERO;
        state.written_before = written;
        state.spent = None;
    }

    pub fn begin_statement(&self) {
        self.lock().statement_began = Some(thread_cpu());
    }

    pub fn end_statement(&self, written: u64) {
        let mut state = self.lock();
        state.look(written);
        let statement = state.statement_cpu();
        state.cpu += statement;
        state.statement_began = None;
    }

    /// Whether the running statement must stop.
    pub fn is_spent(&self, written: u64) -> bool {
        let mut state = self.lock();
        // The host's own statements run outside any.
        state.statement_began.is_some() && state.look(written).is_some()
    }

    pub fn spent(&self) -> Option<Spent> {
        self.lock().spent
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn look(&mut self, written: u64) -> Option<Spent> {
        if self.spent.is_none() {
            if self.cpu + self.statement_cpu() >= self.cpu_max {
                self.spent = Some(Spent::Cpu);
            } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.spent = Some(Spent::Wall);
            } else if written.saturating_sub(self.written_before) > self.written_max {
                self.spent = Some(Spent::Written);
            }
        }
        self.spent
    }

    fn statement_cpu(&self) -> Duration {
        self.statement_began.map_or(Duration::ZERO, |began| thread_cpu().saturating_sub(began))
    }
}

fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
