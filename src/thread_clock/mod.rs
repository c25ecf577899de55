//! The CPU that a thread has used: what guests and their SQL are charged by.
//!
//! Reading the clock of a thread is a system call, and short events would make several each. A reading
//! that is no older than `FRESH` goes on by the monotonic clock, which is none.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// So long after a reading the thread is taken to have had its core ever since. Where it had not, what
/// is measured between two readings is wrong by no more than this, and a later one may be lower.
const FRESH: Duration = Duration::from_micros(50);

thread_local! {
    static LAST: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// The time, and the CPU this thread has used since it began.
pub fn both() -> (Instant, Duration) {
    let now = Instant::now();
    if let Some((read, cpu)) = LAST.get() {
        let since = now - read;
        if since < FRESH {
            return (now, cpu + since);
        }
    }
    let cpu = read();
    LAST.set(Some((now, cpu)));
    (now, cpu)
}

/// The CPU this thread has used since it began.
pub fn cpu() -> Duration {
    both().1
}

fn read() -> Duration {
    // Not by rustix, which looks for functions of the kernel where valgrind has none: `xtask bench count`.
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes `time`, and every thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_uses_nothing_and_one_that_computes_no_more_than_the_time() {
        let began = cpu();
        std::thread::sleep(Duration::from_millis(200));
        assert!(cpu().saturating_sub(began) < Duration::from_millis(100), "it waited");
        let (start, began) = both();
        // Looked at without a pause, it goes on all the same.
        while cpu().saturating_sub(began) < Duration::from_millis(1) {}
        let (now, used) = both();
        assert!(used - began <= now - start + FRESH);
    }
}
