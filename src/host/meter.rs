//! Charges guest code for its own CPU: not for host calls, and not for time the operating system
//! gave to other threads.
//!
//! While the guest's future is polled, the thread's CPU clock runs for guest and host code alike.
//! The two ends of a poll read that clock (`thread_clock`); the time of host code in between is taken
//! off by the monotonic clock, which costs no system call. Where host code waits instead of running,
//! that takes off too much, so calls that may wait for the disk measure their wait (`waits`), and
//! it is put back. What stays is a host call that was preempted: the guest's favour.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

#[cfg(test)]
use clock::Instant;
#[cfg(not(test))]
use std::time::Instant;

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
            reading.host_since = Some(clock::now());
        }
    }

    /// Guest code begins or goes on.
    pub fn guest_runs(&self) {
        let mut reading = self.lock();
        reading.runs = Runs::Guest;
        if let Some(since) = reading.host_since.take() {
            reading.hosted += clock::now() - since;
        }
    }

    /// CPU charged so far; asked from inside a poll.
    pub fn used(&self) -> Duration {
        let (now, cpu) = clock::both();
        self.lock().used_until(now, cpu)
    }

    /// Runs a host call that may wait: the wait is not guest time, but no CPU of the host's either.
    pub fn waits<T>(&self, call: impl FnOnce() -> T) -> T {
        let (began, cpu) = clock::both();
        let result = call();
        let (ended, used) = clock::both();
        let waited = (ended - began).saturating_sub(used.saturating_sub(cpu));
        let mut reading = self.lock();
        reading.waited += waited;
        result
    }

    /// Wraps a guest's future so that its polls are charged.
    pub fn metered<F: Future>(&self, future: F) -> Metered<F> {
        Metered { meter: self.clone(), future: Box::pin(future) }
    }

    fn begin_poll(&self) {
        let (now, cpu) = clock::both();
        let mut reading = self.lock();
        reading.poll_began = Some(cpu);
        reading.hosted = Duration::ZERO;
        reading.waited = Duration::ZERO;
        reading.host_since = (reading.runs == Runs::Host).then_some(now);
    }

    fn end_poll(&self) {
        let (now, cpu) = clock::both();
        let mut reading = self.lock();
        reading.used = reading.used_until(now, cpu);
        reading.host_since = None;
        reading.poll_began = None;
        reading.hosted = Duration::ZERO;
        reading.waited = Duration::ZERO;
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn used_until(&self, now: Instant, cpu: Duration) -> Duration {
        let poll = self.poll_began.map_or(Duration::ZERO, |began| cpu.saturating_sub(began));
        let hosted = self.hosted + self.host_since.map_or(Duration::ZERO, |since| now - since);
        self.used + poll.saturating_sub(hosted.saturating_sub(self.waited))
    }
}

/// The two clocks; tests set them by hand.
#[cfg(not(test))]
mod clock {
    use std::time::Instant;

    pub use crate::thread_clock::both;

    pub fn now() -> Instant {
        Instant::now()
    }
}

#[cfg(test)]
mod clock {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static WALL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static CPU: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    pub type Instant = Duration;

    pub fn now() -> Instant {
        WALL.get()
    }

    pub fn both() -> (Instant, Duration) {
        (WALL.get(), CPU.get())
    }

    /// This thread computes: both clocks run.
    pub fn compute(ms: u64) {
        wait(ms);
        CPU.set(CPU.get() + Duration::from_millis(ms));
    }

    /// This thread waits, or another one has its core.
    pub fn wait(ms: u64) {
        WALL.set(WALL.get() + Duration::from_millis(ms));
    }
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
    use super::clock::{compute, wait};
    use super::*;

    fn poll_once(meter: &Meter, work: impl FnOnce()) {
        meter.begin_poll();
        work();
        meter.end_poll();
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn guest_code_is_charged_and_host_calls_are_not() {
        let meter = Meter::default();
        poll_once(&meter, || {
            compute(1);
            meter.guest_runs();
            compute(10);
            meter.host_runs();
            compute(80);
            meter.guest_runs();
            compute(3);
            assert_eq!(meter.used(), ms(13));
            meter.host_runs();
            compute(5);
        });
        assert_eq!(meter.used(), ms(13));
    }

    #[test]
    fn time_the_system_gives_to_others_is_not_charged() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            compute(10);
            wait(400);
            compute(10);
        });
        wait(1000);
        poll_once(&meter, || compute(5));
        assert_eq!(meter.used(), ms(25));
    }

    #[test]
    fn a_host_call_that_spans_polls_is_not_charged() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            meter.host_runs();
            compute(20);
        });
        poll_once(&meter, || {
            compute(20);
            meter.guest_runs();
            compute(5);
        });
        assert_eq!(meter.used(), ms(5));
    }

    /// A host call that returns a long result calls the guest's allocator, which an epoch tick
    /// interrupts: three host intervals, and none of them the guest's.
    #[test]
    fn a_host_call_around_a_guest_call_is_not_charged() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            meter.host_runs();
            compute(60);
            meter.guest_runs();
            compute(1);
            meter.host_runs();
            compute(2);
            assert_eq!(meter.used(), ms(1));
            meter.guest_runs();
            compute(4);
            meter.host_runs();
            compute(7);
            meter.guest_runs();
        });
        assert_eq!(meter.used(), ms(5));
    }

    /// Otherwise a guest could wait for the disk as long as it computes, and never be charged.
    #[test]
    fn the_wait_of_a_host_call_does_not_make_up_for_guest_code() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            compute(20);
            meter.host_runs();
            meter.waits(|| {
                compute(2);
                wait(60);
            });
            meter.guest_runs();
        });
        assert_eq!(meter.used(), ms(20));
    }

    #[test]
    fn a_preempted_host_call_is_in_the_guests_favour_for_its_poll_only() {
        let meter = Meter::default();
        poll_once(&meter, || {
            meter.guest_runs();
            compute(3);
            meter.host_runs();
            wait(50);
            meter.guest_runs();
        });
        assert_eq!(meter.used(), ms(0));
        poll_once(&meter, || compute(6));
        assert_eq!(meter.used(), ms(6));
    }
}
