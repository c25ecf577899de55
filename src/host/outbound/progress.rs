//! How long a server has been silent.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

/// When a request last went on. The time in which the guest has to give its next piece is its own,
/// and no server is blamed for it.
pub struct Progress(Mutex<State>);

struct State {
    since: Instant,
    guest_owes: bool,
}

impl Progress {
    pub fn new() -> Self {
        Self(Mutex::new(State { since: Instant::now(), guest_owes: false }))
    }

    /// A piece of the request went out, or its end.
    pub fn went_on(&self) {
        *self.state() = State { since: Instant::now(), guest_owes: false };
    }

    /// All the guest gave has gone out, and it has not said that this was all.
    pub fn guest_owes(&self) {
        self.state().guest_owes = true;
    }

    /// Ends once the server has had so much time since the request last went on.
    pub async fn silent_for(&self, limit: Duration) {
        loop {
            let (since, guest_owes) = {
                let state = self.state();
                (state.since, state.guest_owes)
            };
            if guest_owes {
                sleep(limit).await;
            } else if since.elapsed() >= limit {
                return;
            } else {
                sleep_until(since + limit).await;
            }
        }
    }

    pub fn since(&self) -> Instant {
        self.state().since
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    async fn is_silent_within(progress: &Progress, seconds: u64) -> bool {
        timeout(Duration::from_secs(seconds), progress.silent_for(LIMIT)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_has_its_time_from_the_last_piece_it_was_sent() {
        let progress = Progress::new();
        assert!(!is_silent_within(&progress, 29).await);
        progress.went_on();
        assert!(!is_silent_within(&progress, 29).await);
        assert!(is_silent_within(&progress, 2).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_the_guest_owes_a_piece_is_not_the_servers() {
        let progress = Progress::new();
        progress.guest_owes();
        assert!(!is_silent_within(&progress, 300).await);
        progress.went_on();
        assert!(!is_silent_within(&progress, 29).await);
        assert!(is_silent_within(&progress, 2).await);
    }
}
