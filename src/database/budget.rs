//! What the statements of one event may use together: CPU, wall time, bytes written, memory.
//!
//! CPU past its budget ends all SQL of the event, and so does its deadline. Bytes written past
//! theirs end its writes: reads still work, and so do `COMMIT` and `ROLLBACK`. A transaction whose
//! statements were all within the budget may commit, which adds at most the page cache (1 MiB).

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};
use wasmkeep_supervisors::limits::EVENT_SQL_MEMORY_BYTES_MAX;
use wasmkeep_supervisors::ports::{Left, SqlError};

use super::connection::PAGE_BYTES;
use super::files::DatabaseConfig;
use crate::thread_clock::cpu as thread_cpu;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Cpu,
    Wall,
    Written,
    Memory,
}

/// Between two looks at what costs a system call.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The statement that is running.
#[derive(Clone, Copy)]
struct Running {
    cpu_at_start: Duration,
    next_look: Instant,
    /// Whether it may be stopped for what it writes.
    writes: bool,
}

pub struct Budget {
    cpu_max: Duration,
    /// What reads now is an event. An operator's time is bounded, and not the CPU in it.
    cpu_is_bounded: Cell<bool>,
    /// The operator who reads, if one does.
    operator_left: RefCell<Option<Left>>,
    written_max: u64,
    db: *mut ffi::sqlite3,
    deadline: Cell<Option<Instant>>,
    cpu_used: Cell<Duration>,
    /// Pages the connection had written when the event began.
    pages_at_start: Cell<u32>,
    memory_left: Cell<i64>,
    cpu_spent: Cell<bool>,
    writes_spent: Cell<bool>,
    running: Cell<Option<Running>>,
    /// Why the running statement was stopped.
    stopped_by: Cell<Option<Limit>>,
}

impl Budget {
    /// The budget of `connection`, which must stay open while the budget is used.
    pub fn new(config: &DatabaseConfig, connection: &Connection) -> Self {
        Self {
            cpu_max: config.sql_cpu_budget,
            cpu_is_bounded: Cell::new(true),
            operator_left: RefCell::new(None),
            written_max: config.event_written_bytes_max as u64,
            // SAFETY: the handle is only used while the connection is open (the caller's promise).
            db: unsafe { connection.handle() },
            deadline: Cell::new(None),
            cpu_used: Cell::new(Duration::ZERO),
            pages_at_start: Cell::new(0),
            memory_left: Cell::new(EVENT_SQL_MEMORY_BYTES_MAX),
            cpu_spent: Cell::new(false),
            writes_spent: Cell::new(false),
            running: Cell::new(None),
            stopped_by: Cell::new(None),
        }
    }

    /// Starts an event's budgets.
    pub fn begin_event(&self, deadline: Instant) {
        self.deadline.set(Some(deadline));
        self.cpu_is_bounded.set(true);
        self.operator_left.take();
        self.cpu_used.set(Duration::ZERO);
        self.pages_at_start.set(self.pages_written());
        self.memory_left.set(EVENT_SQL_MEMORY_BYTES_MAX);
        self.cpu_spent.set(false);
        self.writes_spent.set(false);
    }

    /// As `begin_event`, without a bound on CPU, for an operator who may leave.
    pub fn begin_inspection(&self, deadline: Instant, left: Left) {
        self.begin_event(deadline);
        self.cpu_is_bounded.set(false);
        self.operator_left.replace(Some(left));
    }

    /// Whether another statement may start at all.
    pub fn admit(&self) -> Result<(), SqlError> {
        if self.cpu_spent.get() {
            return Err(self.exceeded(Limit::Cpu));
        }
        if self.is_late() {
            return Err(self.exceeded(Limit::Wall));
        }
        Ok(())
    }

    /// Whether a statement that writes may start.
    pub fn admit_write(&self) -> Result<(), SqlError> {
        if self.writes_spent.get() { Err(self.exceeded(Limit::Written)) } else { Ok(()) }
    }

    /// Begins to charge a statement, from before it is compiled.
    pub fn start(&self) {
        self.stopped_by.set(None);
        let next_look = Instant::now() + BETWEEN_LOOKS;
        self.running.set(Some(Running { cpu_at_start: thread_cpu(), next_look, writes: false }));
    }

    /// The compiled statement writes: it may be stopped for that.
    pub fn running_writes(&self) {
        self.running.set(self.running.get().map(|running| Running { writes: true, ..running }));
    }

    /// Ends the charge that `start` began.
    pub fn stop(&self) {
        if let Some(running) = self.running.take() {
            self.cpu_used.set(self.cpu_used_by(running));
            self.cpu_spent.set(self.is_too_much_cpu(self.cpu_used.get()));
            if self.bytes_written() > self.written_max {
                self.writes_spent.set(true);
            }
        }
    }

    pub fn memory_left(&self) -> i64 {
        self.memory_left.get()
    }

    pub fn set_memory_left(&self, left: i64) {
        self.memory_left.set(left.min(EVENT_SQL_MEMORY_BYTES_MAX));
    }

    /// Why SQLite interrupted the last statement.
    pub fn stopped_by(&self) -> Option<Limit> {
        self.stopped_by.get()
    }

    /// Asked by SQLite while a statement runs. The host's own statements are never stopped.
    pub fn must_stop(&self) -> bool {
        let Some(running) = self.running.get() else { return false };
        let now = Instant::now();
        if now < running.next_look {
            return false;
        }
        self.running.set(Some(Running { next_look: now + BETWEEN_LOOKS, ..running }));
        let limit = if self.is_too_much_cpu(self.cpu_used_by(running)) {
            Limit::Cpu
        } else if self.is_late() {
            Limit::Wall
        } else if running.writes && self.bytes_written() > self.written_max {
            Limit::Written
        } else {
            return false;
        };
        self.stopped_by.set(Some(limit));
        true
    }

    pub fn exceeded(&self, limit: Limit) -> SqlError {
        SqlError::QuotaExceeded(match limit {
            Limit::Cpu => format!(
                "the SQL of one event may use {:?} of CPU (--sql-cpu-budget-ms)",
                self.cpu_max
            ),
            Limit::Wall => "the event's time is over".into(),
            Limit::Written => format!(
                "one event may write {} to its database, counting every rewrite of a page",
                mib(self.written_max)
            ),
            Limit::Memory => format!(
                "the SQL of one event may use {} of memory",
                mib(EVENT_SQL_MEMORY_BYTES_MAX.unsigned_abs())
            ),
        })
    }

    fn is_late(&self) -> bool {
        let has_left = |left: &Left| left.load(Ordering::Relaxed);
        if self.operator_left.borrow().as_ref().is_some_and(has_left) {
            return true;
        }
        self.deadline.get().is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn is_too_much_cpu(&self, used: Duration) -> bool {
        self.cpu_is_bounded.get() && used > self.cpu_max
    }

    fn cpu_used_by(&self, running: Running) -> Duration {
        self.cpu_used.get() + thread_cpu().saturating_sub(running.cpu_at_start)
    }

    fn bytes_written(&self) -> u64 {
        // The counter has 31 bits and then starts again at zero.
        let pages = self.pages_written().wrapping_sub(self.pages_at_start.get()) & 0x7fff_ffff;
        u64::from(pages) * PAGE_BYTES
    }

    fn pages_written(&self) -> u32 {
        // SAFETY: the connection is open: the promise of `new`.
        let pages = unsafe { counter(self.db, ffi::SQLITE_DBSTATUS_CACHE_WRITE) };
        pages.unsigned_abs()
    }
}

/// One of a connection's counters.
///
/// # Safety
///
/// The connection is open, and no other thread uses it.
pub(super) unsafe fn counter(db: *mut ffi::sqlite3, which: c_int) -> c_int {
    let (mut now, mut highest): (c_int, c_int) = (0, 0);
    // SAFETY: as promised; this only reads.
    unsafe { ffi::sqlite3_db_status(db, which, &raw mut now, &raw mut highest, 0) };
    now
}

pub fn mib(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    if bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{bytes} bytes")
    }
}
