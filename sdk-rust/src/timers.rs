//! Many timers in place of the one alarm, each with a key.
//!
//! They are rows of the actor's database, so a timer is set, replaced or cancelled together with
//! the transaction that is open. The earliest of them sets the actor's alarm: an actor that has
//! timers leaves [`alarms`](crate::alarms) alone, and has them run in its
//! [`alarm`](crate::Actor::alarm):
//!
//! ```no_run
//! # use wasmkeep_sdk::{Actor, Request, Response, Result, storage};
//! use std::time::Duration;
//! use wasmkeep_sdk::timers;
//!
//! # #[derive(Default)]
//! # struct Cart;
//! impl Actor for Cart {
//!     fn request(&mut self, request: Request) -> Result<Response> {
//!         timers::set_after("remind", Duration::from_secs(3600))?; // an hour after the last request
//!         timers::set_after("forget", Duration::from_secs(30 * 24 * 3600))?;
//!         Ok(Response::empty())
//!     }
//!
//!     fn alarm(&mut self) -> Result<()> {
//!         timers::run_due(|timer| match &*timer.key {
//!             "remind" => remind(),
//!             _ => Ok(storage::delete_self()),
//!         })
//!     }
//! }
//! # fn remind() -> Result<()> { Ok(()) }
//! ```
//!
//! **At least once.** A timer is there until its handler has succeeded. What the handler wrote and
//! the end of the timer commit together, so in the database its work is done exactly once; what it
//! did outside, such as a call, may be done again after a crash.
//!
//! **Retries.** A handler that fails is rolled back and logged, and runs again after 1 s, then 2,
//! 4, and so on up to 5 min, without end, until it succeeds or the timer is cancelled or set anew.
//! One that traps, or is stopped at a limit, ends its event: the host runs the alarm again a second
//! later, and the timer's own wait begins then. Others that are due run meanwhile, those that have
//! not failed first: a failing timer holds up the others by no more than its own attempt and that
//! second.
//!
//! **Time** is the clock of the node, in milliseconds. What fell due while the server was down runs
//! after its start. 32 timers run in one event; if more are due, the alarm fires again at once, and
//! other events have their turn in between.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::alarms::{self, to_ms, whole_ms};
use crate::error::log;
use crate::storage::{self, SqlError};
use crate::{Error, Result};

/// Timers that run in one event.
const DUE_PER_EVENT: u32 = 32;
const KEY_BYTES_MAX: usize = 1024;
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(5 * 60);

/// `running` is 1 from before a handler starts until after it has ended: whoever finds it so later
/// knows that the event did not reach its end.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS _sdk_timers (
    key TEXT PRIMARY KEY,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID";
const INDEX: &str = "CREATE INDEX IF NOT EXISTS _sdk_timers_due ON _sdk_timers (due)";

/// A timer of this actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// What it was set with.
    pub key: String,
    /// When it is due; for one that has failed, when it is tried again.
    pub due: SystemTime,
    /// How often its handler has begun, this time included: 1 for the first attempt. 0 for one that
    /// waits for its time.
    pub attempts: u32,
}

impl Timer {
    fn from_row((key, due, attempts): (String, u64, u32)) -> Self {
        let due = UNIX_EPOCH.checked_add(Duration::from_millis(due)).unwrap_or(UNIX_EPOCH);
        Timer { key, due, attempts }
    }
}

/// Sets a timer to a time, in place of the one with this key. A time that has passed is due at
/// once. A key has 1 to 1,024 bytes.
pub fn set_at(key: &str, time: SystemTime) -> Result<()> {
    set_at_ms(key, to_ms(time))
}

/// Sets a timer to so long from now, in place of the one with this key.
pub fn set_after(key: &str, wait: Duration) -> Result<()> {
    set_at_ms(key, now_ms().saturating_add(whole_ms(wait)))
}

/// Sets a timer to milliseconds since 1970-01-01T00:00Z, in place of the one with this key.
pub fn set_at_ms(key: &str, ms: u64) -> Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let has = key.len();
        let wrong = format!("a timer's key has 1 to {KEY_BYTES_MAX} bytes, this one {has}");
        return Err(Error::internal(wrong));
    }
    storage::together(|| {
        make_table()?;
        storage::exec(
            "INSERT INTO _sdk_timers (key, due) VALUES (?, ?)
             ON CONFLICT (key) DO UPDATE SET due = excluded.due, attempts = 0, running = 0",
            (key, stored(ms)),
        )?;
        Ok(set_alarm()?)
    })
}

/// Cancels a timer; false when there is none with this key.
pub fn cancel(key: &str) -> Result<bool> {
    storage::together(|| {
        make_table()?;
        let cancelled = storage::exec("DELETE FROM _sdk_timers WHERE key = ?", (key,))?;
        set_alarm()?;
        Ok(cancelled > 0)
    })
}

/// The timer with this key.
pub fn get(key: &str) -> Result<Option<Timer>> {
    make_table()?;
    let sql = "SELECT key, due, attempts FROM _sdk_timers WHERE key = ?";
    Ok(storage::query_optional(sql, (key,))?.map(Timer::from_row))
}

/// All timers, the earliest first. Those whose time has come and that have not run yet are among
/// them.
pub fn list() -> Result<Vec<Timer>> {
    make_table()?;
    let sql = "SELECT key, due, attempts FROM _sdk_timers ORDER BY due, key";
    Ok(storage::query_as(sql, ())?.into_iter().map(Timer::from_row).collect())
}

/// Runs the handler for each timer that is due, and sets the alarm to the earliest of those that
/// are left: the whole of an actor's [`alarm`](crate::Actor::alarm), or a part of it.
///
/// Each handler runs in a transaction, so it opens none itself; when it returns an error, all it
/// wrote is rolled back. It may set its own timer again, and cancel or set others. The error is
/// logged, and this function returns `Ok`: the others have run, and the retry is set. `Err` means
/// that storage failed; the host then tries the alarm again.
pub fn run_due(mut handler: impl FnMut(&Timer) -> Result<()>) -> Result<()> {
    make_table()?;
    put_off_those_cut_off()?;
    let now = stored(now_ms());
    // Those that have not failed go first: one that takes its event with it is then the last.
    let keys: Vec<String> = storage::query_as(
        "SELECT key FROM _sdk_timers WHERE due <= ? ORDER BY attempts, due, key LIMIT ?",
        (now, DUE_PER_EVENT),
    )?;
    for key in keys {
        // Committed before the handler starts, so that a trap leaves it behind. None when a handler
        // before it has cancelled it or set it to later.
        let begun = storage::query_optional(
            "UPDATE _sdk_timers SET running = 1, attempts = attempts + 1
             WHERE key = ? AND due <= ? RETURNING key, due, attempts",
            (&key, now),
        )?;
        if let Some(row) = begun {
            run(&Timer::from_row(row), &mut handler)?;
        }
    }
    Ok(set_alarm()?)
}

fn run(timer: &Timer, handler: &mut impl FnMut(&Timer) -> Result<()>) -> Result<()> {
    let key = &*timer.key;
    let ran = storage::transaction(|| {
        handler(timer)?;
        // One that the handler has set again is not running.
        storage::exec("DELETE FROM _sdk_timers WHERE key = ? AND running = 1", (key,))?;
        Ok(())
    });
    if let Err(error) = ran {
        let wait = put_off(key, timer.attempts)?;
        let attempt = timer.attempts;
        log(format_args!("timer {key:?}, attempt {attempt}, again in {wait:?}: {error}"));
    }
    Ok(())
}

/// The event of these was stopped, by their own fault or by the server's end.
fn put_off_those_cut_off() -> Result<(), SqlError> {
    let sql = "SELECT key, attempts FROM _sdk_timers WHERE running = 1";
    for (key, attempts) in storage::query_as::<(String, u32)>(sql, ())? {
        put_off(&key, attempts)?;
    }
    Ok(())
}

fn put_off(key: &str, attempts: u32) -> Result<Duration, SqlError> {
    let wait = retry_after(attempts);
    let due = stored(now_ms().saturating_add(whole_ms(wait)));
    storage::exec("UPDATE _sdk_timers SET running = 0, due = ? WHERE key = ?", (due, key))?;
    Ok(wait)
}

/// As the host does with alarms: 1 s, doubled each time, up to 5 min.
fn retry_after(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(31);
    RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_MAX)
}

fn set_alarm() -> Result<(), SqlError> {
    match storage::query_one("SELECT min(due) FROM _sdk_timers", ())? {
        Some(earliest) => alarms::set_at_ms(earliest),
        None => alarms::clear(),
    }
}

fn make_table() -> Result<(), SqlError> {
    storage::exec(TABLE, ())?;
    storage::exec(INDEX, ())?;
    Ok(())
}

fn now_ms() -> u64 {
    to_ms(SystemTime::now())
}

fn stored(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_double_from_a_second_to_five_minutes() {
        let seconds: Vec<u64> = (1..=11).map(|attempt| retry_after(attempt).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(retry_after(u32::MAX), RETRY_MAX);
        assert_eq!(retry_after(0), RETRY_FIRST);
    }

    #[test]
    fn a_key_that_is_none_is_refused_before_anything_is_stored() {
        for key in ["", &"k".repeat(1025)] {
            let error = set_at_ms(key, 0).unwrap_err();
            assert!(error.to_string().starts_with("a timer's key has 1 to 1024 bytes"), "{error}");
        }
    }
}
