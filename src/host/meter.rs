//! Charges guest code for its own CPU: not for host calls, and not for time the operating system
//! gave to other threads.
//!
//! While the guest's future is polled, the thread's CPU clock runs for guest and host calls alike.
//! The two ends of a poll read that clock; the time of host calls in between is taken off by the
//! monotonic clock, which costs no system call. A host call that was preempted is therefore taken
//! off with the time it waited: the guest's favour, and the guest still stops at its budget.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

#[derive(Debug, Default)]
struct Reading {
    /// Charged by the polls that are over.
    used: Duration,
    /// The thread's CPU clock when the present poll began.
    poll_began: Option<Duration>,
    /// Host calls in the present poll that are over.
    hosted: Duration,
    /// When the host call that is under way entered this poll.
    host_call_began: Option<Instant>,
    in_host_call: bool,
}

/// One event's CPU, shared by the store's hooks and the poll wrapper.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<Reading>>);

impl Meter {
    pub fn reset(&self) {
        *self.lock() = Reading::default();
    }

    /// Guest code calls the host.
    pub fn enter_host(&self) {
        let mut reading = self.lock();
        reading.in_host_call = true;
        reading.host_call_began = Some(Instant::now());
    }

    /// The host call is over.
    pub fn leave_host(&self) {
        let mut reading = self.lock();
        reading.in_host_call = false;
        reading.close_host_call();
    }

    /// CPU charged so far; asked from inside a poll, between host calls.
    pub fn used(&self) -> Duration {
        self.lock().used_until(thread_cpu())
    }

    /// Wraps a guest's future so that its polls are charged.
    pub fn metered<F: Future>(&self, future: F) -> Metered<F> {
        Metered { meter: self.clone(), future: Box::pin(future) }
    }

    fn begin_poll(&self) {
        let mut reading = self.lock();
        reading.poll_began = Some(thread_cpu());
        reading.hosted = Duration::ZERO;
        reading.host_call_began = reading.in_host_call.then(Instant::now);
    }

    fn end_poll(&self) {
        let mut reading = self.lock();
        reading.close_host_call();
        reading.used = reading.used_until(thread_cpu());
        reading.poll_began = None;
        reading.hosted = Duration::ZERO;
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn close_host_call(&mut self) {
        if let Some(began) = self.host_call_began.take() {
            self.hosted += began.elapsed();
        }
    }

    fn used_until(&self, cpu: Duration) -> Duration {
        let poll = self.poll_began.map_or(Duration::ZERO, |began| cpu.saturating_sub(began));
        self.used + poll.saturating_sub(self.hosted)
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
            burn(Duration::from_millis(10));
            meter.enter_host();
            burn(Duration::from_millis(80));
            meter.leave_host();
        });
        let used = meter.used();
        assert!(used >= Duration::from_millis(9), "{used:?}");
        assert!(used < Duration::from_millis(40), "{used:?}");
    }

    #[test]
    fn a_host_call_that_spans_polls_is_not_charged() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.enter_host();
            burn(Duration::from_millis(20));
        });
        poll_once(&meter, || {
            burn(Duration::from_millis(20));
            meter.leave_host();
            burn(Duration::from_millis(5));
        });
        let used = meter.used();
        assert!(used >= Duration::from_millis(4), "{used:?}");
        assert!(used < Duration::from_millis(18), "{used:?}");
    }

    #[test]
    fn time_asleep_between_polls_is_not_charged() {
        let meter = Meter::default();
        poll_once(&meter, || {});
        std::thread::sleep(Duration::from_millis(30));
        poll_once(&meter, || {});
        assert!(meter.used() < Duration::from_millis(10));
    }
}
