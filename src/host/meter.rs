//! Charges guest code for its own CPU: not for host calls, and not for time the operating system
//! gave to other threads.
//!
//! While the guest's future is polled, the thread's CPU clock runs for guest and host code alike.
//! The two ends of a poll read that clock, a system call; the time of host code in between is
//! taken off by the monotonic clock, which costs none. Where host code waits instead of running,
//! that takes off too much, so calls that may wait for the disk measure their wait (`waits`), and
//! it is put back. What stays is a host call that was preempted: the guest's favour.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Whose code runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Runs {
    #[default]
    Host,
    Guest,
}

#[derive(Debug, Default)]
struct Reading {
    /// Charged by the polls that are over.
    used: Duration,
    runs: Runs,
    /// The thread's CPU clock when the present poll began.
    poll_began: Option<Duration>,
    /// Time of the present poll in host code that is over.
    hosted: Duration,
    /// The part of that in which host code waited and used no CPU.
    waited: Duration,
    /// Since when host code runs in the present poll.
    host_since: Option<Instant>,
}

/// One event's CPU, shared by the store's hooks and the poll wrapper.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<Reading>>);

impl Meter {
    pub fn reset(&self) {
        *self.lock() = Reading::default();
    }

    /// Host code begins: a call of the guest's, or the end of one into it. The two nest: a host
    /// call may call the guest's allocator.
    pub fn host_runs(&self) {
        let mut reading = self.lock();
        if reading.runs == Runs::Guest {
            reading.runs = Runs::Host;
            reading.host_since = Some(Instant::now());
        }
    }

    /// Guest code begins or goes on.
    pub fn guest_runs(&self) {
        let mut reading = self.lock();
        reading.runs = Runs::Guest;
        reading.close_host_time();
    }

    /// CPU charged so far; asked from inside a poll.
    pub fn used(&self) -> Duration {
        self.lock().used_until(thread_cpu())
    }

    /// Runs a host call that may wait: the wait is not guest time, but no CPU of the host's either.
    pub fn waits<T>(&self, call: impl FnOnce() -> T) -> T {
        let (began, cpu) = (Instant::now(), thread_cpu());
        let result = call();
        let waited = began.elapsed().saturating_sub(thread_cpu().saturating_sub(cpu));
        let mut reading = self.lock();
        reading.waited += waited;
        result
    }

    /// Wraps a guest's future so that its polls are charged.
    pub fn metered<F: Future>(&self, future: F) -> Metered<F> {
        Metered { meter: self.clone(), future: Box::pin(future) }
    }

    fn begin_poll(&self) {
        let mut reading = self.lock();
        reading.poll_began = Some(thread_cpu());
        reading.hosted = Duration::ZERO;
        reading.waited = Duration::ZERO;
        reading.host_since = (reading.runs == Runs::Host).then(Instant::now);
    }

    fn end_poll(&self) {
        let mut reading = self.lock();
        reading.close_host_time();
        reading.used = reading.used_until(thread_cpu());
        reading.poll_began = None;
        reading.hosted = Duration::ZERO;
        reading.waited = Duration::ZERO;
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn close_host_time(&mut self) {
        if let Some(since) = self.host_since.take() {
            self.hosted += since.elapsed();
        }
    }

    fn used_until(&self, cpu: Duration) -> Duration {
        let poll = self.poll_began.map_or(Duration::ZERO, |began| cpu.saturating_sub(began));
        let hosted = self.hosted + self.host_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.used + poll.saturating_sub(hosted.saturating_sub(self.waited))
    }
}

/// The CPU this thread has used since it began.
fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

pub struct Metered<F> {
    meter: Meter,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.meter.begin_poll();
        let polled = self.future.as_mut().poll(context);
        self.meter.end_poll();
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Burns CPU of this thread, whatever else the machine does.
    fn burn(time: Duration) {
        let until = thread_cpu() + time;
        while thread_cpu() < until {}
    }

    fn poll_once(meter: &Meter, work: impl FnOnce()) {
        meter.begin_poll();
        work();
        meter.end_poll();
    }

    #[test]
    fn guest_code_is_charged_and_host_calls_are_not() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            burn(Duration::from_millis(10));
            meter.host_runs();
            burn(Duration::from_millis(80));
            meter.guest_runs();
        });
        let used = meter.used();
        assert!(used >= Duration::from_millis(9), "{used:?}");
        assert!(used < Duration::from_millis(40), "{used:?}");
    }

    #[test]
    fn a_host_call_that_spans_polls_is_not_charged() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            meter.host_runs();
            burn(Duration::from_millis(20));
        });
        poll_once(&meter, || {
            burn(Duration::from_millis(20));
            meter.guest_runs();
            burn(Duration::from_millis(5));
        });
        let used = meter.used();
        assert!(used >= Duration::from_millis(4), "{used:?}");
        assert!(used < Duration::from_millis(18), "{used:?}");
    }

    /// A host call that returns a long result calls the guest's allocator, which an epoch tick
    /// interrupts: three host intervals, and none of them the guest's.
    #[test]
    fn a_host_call_around_a_guest_call_is_not_charged() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            meter.host_runs();
            burn(Duration::from_millis(60));
            meter.guest_runs();
            meter.host_runs();
            assert!(meter.used() < Duration::from_millis(20), "{:?}", meter.used());
            meter.guest_runs();
            burn(Duration::from_millis(5));
            meter.host_runs();
            meter.guest_runs();
        });
        let used = meter.used();
        assert!(used >= Duration::from_millis(4), "{used:?}");
        assert!(used < Duration::from_millis(30), "{used:?}");
    }

    /// Otherwise a guest could wait for the disk as long as it computes, and never be charged.
    #[test]
    fn the_wait_of_a_host_call_does_not_make_up_for_guest_code() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            burn(Duration::from_millis(20));
            meter.host_runs();
            meter.waits(|| std::thread::sleep(Duration::from_millis(60)));
            meter.guest_runs();
        });
        assert!(meter.used() >= Duration::from_millis(18), "{:?}", meter.used());
    }

    #[test]
    fn time_asleep_between_polls_is_not_charged() {
        let meter = Meter::default();
        poll_once(&meter, || meter.guest_runs());
        std::thread::sleep(Duration::from_millis(30));
        poll_once(&meter, || {});
        assert!(meter.used() < Duration::from_millis(10));
    }
}
