//! A machine's clock: too fast or too slow, and it may stand still for a while.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use wasmkeep_supervisors::ports::{Clock, Steady};
use wasmkeep_supervisors::time::{NodeTime, Timestamp};

use crate::gate::Gate;

struct State {
    /// The clock showed `shown` at `at`; it shows no less before.
    at: Instant,
    shown: Duration,
    has_stood: bool,
}

/// Clones are the same clock.
#[derive(Clone)]
pub struct MachineClock {
    rate: f64,
    state: Arc<Mutex<State>>,
}

impl MachineClock {
    pub fn new(rate: f64, shown: Duration) -> Self {
        let state = State { at: Instant::now(), shown, has_stood: false };
        Self { rate, state: Arc::new(Mutex::new(state)) }
    }

    /// Stands still for so long, as that of a virtual machine that is halted.
    pub fn stop_for(&self, time: Duration) {
        let shown = self.now();
        let mut state = self.state();
        *state = State { at: state.at.max(Instant::now()) + time, shown, has_stood: true };
    }

    /// Whether it ever stood still: then what is reckoned by it proves nothing to others.
    pub fn has_stood(&self) -> bool {
        self.state().has_stood
    }

    /// How long that takes in the world.
    pub fn in_the_world(&self, time: Duration) -> Duration {
        let stands = self.state().at.saturating_duration_since(Instant::now());
        stands + time.div_f64(self.rate)
    }

    fn now(&self) -> Duration {
        let state = self.state();
        state.shown + Instant::now().saturating_duration_since(state.at).mul_f64(self.rate)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That clock, as one node sees it.
pub struct NodeClock {
    pub machine: MachineClock,
    pub gate: Gate,
}

impl Steady for NodeClock {
    fn now(&self) -> NodeTime {
        NodeTime(u64::try_from(self.machine.now().as_nanos()).unwrap_or(u64::MAX))
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let until = self.machine.now() + time;
            loop {
                self.gate.pass().await;
                let left = until.saturating_sub(self.machine.now());
                if left.is_zero() {
                    return;
                }
                // Rounding may leave a nothing, and a sleep of nothing would never let time pass.
                sleep(self.machine.in_the_world(left).max(Duration::from_millis(1))).await;
            }
        })
    }
}

/// Wall time: the world's, a day apart between machines. Nothing may rest on it.
pub struct WallClock {
    pub began: Instant,
    pub skew: Duration,
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_000).plus(self.began.elapsed() + self.skew)
    }
}
