//! The clock that leases go by: `CLOCK_BOOTTIME`, which nobody sets, and which counts while the machine
//! sleeps.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wasmkeep_supervisors::ports::Steady;
use wasmkeep_supervisors::time::NodeTime;

/// tokio's timers stand while the machine sleeps. So a sleep looks at the clock at least so often.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Steady for BootClock {
    fn now(&self) -> NodeTime {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
        NodeTime(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let until = self.now().plus(time);
        Box::pin(async move {
            loop {
                let left = until.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LOOK)).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_ends_once_its_time_has_passed() {
        let began = BootClock.now();
        BootClock.sleep(Duration::from_millis(20)).await;
        assert!(BootClock.now().since(began) >= Duration::from_millis(20));
        BootClock.sleep(Duration::ZERO).await;
    }
}
