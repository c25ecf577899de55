//! What stands between a node and the world: open, closed for a while, or closed for good.
//!
//! Every port of a node goes through it. A paused node's calls come back when the pause is over, and
//! a crashed node's never do, so its processes stay where they were and reach nothing any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::dice::Dice;

/// After a pause the calls that waited come back within this time, in any order.
const THAW: f64 = 0.010;

#[derive(Default)]
struct State {
    is_dead: bool,
    closed_until: Option<Instant>,
}

/// Clones are the same gate.
#[derive(Clone)]
pub struct Gate {
    state: Arc<Mutex<State>>,
    dice: Arc<Dice>,
}

impl Gate {
    pub fn new(dice: Dice) -> Self {
        Self { state: Arc::default(), dice: Arc::new(dice) }
    }

    pub fn close_for(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state();
        state.closed_until = state.closed_until.max(Some(until));
    }

    pub fn close_for_good(&self) {
        self.state().is_dead = true;
    }

    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// Returns once the gate is open; never when it is closed for good.
    pub async fn pass(&self) {
        loop {
            let until = {
                let state = self.state();
                if state.is_dead { None } else { Some(state.closed_until) }
            };
            match until {
                None => std::future::pending::<()>().await,
                Some(Some(until)) if until > Instant::now() => {
                    sleep_until(until + self.dice.seconds(0.0, THAW)).await;
                }
                Some(_) => return,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
