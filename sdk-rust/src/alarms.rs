//! The actor's one alarm: when it is due, [`Actor::alarm`](crate::Actor::alarm) runs.
//!
//! It survives sleep, restarts and moves, and fires at least once. It lives in the actor's
//! database, so it is set or kept together with the transaction that is open. For several, see
//! [`timers`](crate::timers).
//!
//! ```no_run
//! # use wasmkeep_sdk::{Actor, Request, Response, Result, alarms, storage};
//! use std::time::Duration;
//!
//! # #[derive(Default)]
//! # struct Session;
//! impl Actor for Session {
//!     fn request(&mut self, request: Request) -> Result<Response> {
//!         alarms::set_after(Duration::from_secs(3600))?; // an hour after the last request
//!         Ok(Response::empty())
//!     }
//!
//!     fn alarm(&mut self) -> Result<()> {
//!         storage::delete_self();
//!         Ok(())
//!     }
//! }
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bindings::wasmkeep::actor::alarms as host;
use crate::storage::SqlError;

/// Sets the alarm to a time, replacing the one that was pending. A time that has passed is due at
/// once. Milliseconds count; what is finer is cut off.
pub fn set_at(time: SystemTime) -> Result<(), SqlError> {
    set_at_ms(to_ms(time))
}

/// Sets the alarm to so long from now, replacing the one that was pending.
pub fn set_after(wait: Duration) -> Result<(), SqlError> {
    let now = to_ms(SystemTime::now());
    set_at_ms(now.saturating_add(whole_ms(wait)))
}

/// Sets the alarm to milliseconds since 1970-01-01T00:00Z, replacing the one that was pending.
pub fn set_at_ms(ms: u64) -> Result<(), SqlError> {
    Ok(host::set_alarm(ms)?)
}

/// When the pending alarm is due. While a failed [`alarm`](crate::Actor::alarm) is being retried:
/// the time of the next attempt.
pub fn get() -> Result<Option<SystemTime>, SqlError> {
    Ok(get_ms()?.and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms))))
}

/// As [`get`], in milliseconds since 1970-01-01T00:00Z.
pub fn get_ms() -> Result<Option<u64>, SqlError> {
    Ok(host::get_alarm()?)
}

/// Removes the pending alarm, if there is one.
pub fn clear() -> Result<(), SqlError> {
    Ok(host::clear_alarm()?)
}

/// Inside [`alarm`](crate::Actor::alarm): 1 for the first attempt, 2 for the first retry, and so
/// on. Elsewhere 0.
pub fn attempt() -> u32 {
    host::attempt()
}

pub(crate) fn to_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, whole_ms)
}

pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_milliseconds_and_those_before_1970_are_due() {
        assert_eq!(to_ms(UNIX_EPOCH + Duration::from_micros(1_500_999)), 1500);
        assert_eq!(to_ms(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(whole_ms(Duration::MAX), u64::MAX);
    }
}
