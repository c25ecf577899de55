use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// As `eventually`, where something takes longer by design.
#[track_caller]
pub fn eventually_within(time: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let time = time.max(patience());
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < time, "not within {time:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until `condition` holds. `WASMKEEP_TEST_PATIENCE_SECS` lengthens it on slow machines.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(within_patience(condition), "not within {:?}: {what}", patience());
}

/// Waits until `condition` holds; false when it did not for as long as a test has patience.
pub fn within_patience(mut condition: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() >= patience() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

pub fn patience() -> Duration {
    let seconds = std::env::var("WASMKEEP_TEST_PATIENCE_SECS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(20))
}

/// Sets the flag when it goes out of scope, also by a panic: threads that run until it is set end.
pub struct SetAtTheEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work(0)` … `work(n - 1)` at the same time, and returns what each gave, in order.
pub fn in_parallel<T: Send>(n: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..n).map(|i| scope.spawn(move || work(i))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker of the test")).collect()
    })
}
