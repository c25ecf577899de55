//! A node's own clock over tokio's, which tests pause and advance. It may run fast or slow, jump, and
//! stand.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::ports::Steady;
use crate::time::NodeTime;

/// Where it starts: far enough from zero that what lies before a start can be told.
const FIRST: NodeTime = NodeTime(3_600_000_000_000);

/// A sleep looks at the clock at least so often.
const DAY: Duration = Duration::from_secs(86_400);

/// Clones are the same clock.
#[derive(Clone)]
pub struct SteadyClock(Arc<Shared>);

struct Shared {
    run: Mutex<Run>,
    changes: watch::Sender<()>,
}

#[derive(Clone, Copy)]
struct Run {
    since: Instant,
    from: NodeTime,
    /// How many of its seconds pass in one of tokio's.
    rate: f64,
    stands: bool,
}

impl Run {
    fn now(&self) -> NodeTime {
        if self.stands {
            return self.from;
        }
        let passed = self.since.elapsed().as_nanos() as f64 * self.rate;
        NodeTime(self.from.0.saturating_add(passed as u64))
    }
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self::new()
    }
}

impl SteadyClock {
    pub fn new() -> Self {
        let run = Run { since: Instant::now(), from: FIRST, rate: 1.0, stands: false };
        Self(Arc::new(Shared { run: Mutex::new(run), changes: watch::Sender::new(()) }))
    }

    /// Runs so many times as fast as tokio's from here on.
    #[must_use]
    pub fn with_rate(self, rate: f64) -> Self {
        assert!(rate > 0.0, "a clock that does not run is stopped");
        self.change(|run| run.rate = rate);
        self
    }

    /// From here on no time passes by it, and no sleep by it ends.
    pub fn stop(&self) {
        self.change(|run| run.stands = true);
    }

    /// Goes on from where it stopped.
    pub fn go_on(&self) {
        self.change(|run| run.stands = false);
    }

    /// So much time has passed at once, as after a machine's sleep.
    pub fn jump(&self, by: Duration) {
        self.change(|run| run.from = run.from.plus(by));
    }

    fn change(&self, change: impl FnOnce(&mut Run)) {
        {
            let mut run = self.run();
            run.from = run.now();
            run.since = Instant::now();
            change(&mut run);
        }
        self.0.changes.send_replace(());
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.0.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steady for SteadyClock {
    fn now(&self) -> NodeTime {
        self.run().now()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let until = self.now().plus(time);
        Box::pin(async move {
            let mut changes = self.0.changes.subscribe();
            loop {
                changes.mark_unchanged();
                let run = *self.run();
                let left = until.since(run.now());
                if left.is_zero() {
                    return;
                }
                // Rounding may end it early; then a little is left.
                let wait = left.min(DAY).div_f64(run.rate).max(Duration::from_nanos(1));
                tokio::select! {
                    biased;
                    () = sleep(wait), if !run.stands => {}
                    _ = changes.changed() => {}
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn it_runs_at_its_rate_and_its_sleeps_too() {
        for rate in [0.85, 1.0, 1.2] {
            let clock = SteadyClock::new().with_rate(rate);
            let (began, real) = (clock.now(), Instant::now());
            clock.sleep(Duration::from_secs(12)).await;
            let passed = clock.now().since(began);
            let most = Duration::from_millis(12_003);
            assert!((Duration::from_secs(12)..most).contains(&passed), "{rate}: {passed:?}");
            let right = real.elapsed().as_secs_f64() * rate;
            assert!((11.99..12.01).contains(&right), "{rate}: {right}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_sleep_ends_while_it_stands_and_a_jump_ends_those_it_passes() {
        let clock = SteadyClock::new();
        let began = clock.now();
        clock.stop();
        let slept = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(5)).await }
        });
        sleep(Duration::from_secs(100)).await;
        assert!(!slept.is_finished());
        assert_eq!(clock.now(), began);
        clock.go_on();
        advance(Duration::from_secs(4)).await;
        assert!(!slept.is_finished());
        clock.jump(Duration::from_secs(1));
        slept.await.expect("it slept");
        assert_eq!(clock.now().since(began), Duration::from_secs(5));
    }
}
