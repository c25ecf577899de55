//! What a supervisor does when a child ends: a pure function of who ended, how, and how often.

use std::time::Duration;

use crate::limits::{
    ACTOR_FAILURES_MAX, QUARANTINE_FIRST, QUARANTINE_LONGEST, RESTART_BACKOFF_FIRST, RESTARTS_MAX,
};

/// A supervised process, by what its end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// Restarted whatever happens: a class supervisor.
    Permanent,
    /// Never restarted; its next event starts it anew: an actor's process.
    Temporary,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It had done its work.
    Normal,
    /// It panicked, returned an error, or was killed.
    Abnormal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Forget the child.
    Forget,
    /// Start it again after a delay.
    Restart(Duration),
    /// Forget the child, and refuse its address for a while.
    Quarantine(Duration),
    /// The supervisor itself cannot go on: the node stops.
    Escalate,
}

/// `recent` counts this child's abnormal ends in the window its kind is judged by (this one
/// included), `quarantines` how often its address was quarantined without a good event since.
pub fn decide(child: Child, exit: Exit, recent: usize, quarantines: u32) -> Decision {
    match (child, exit) {
        (Child::Temporary, Exit::Normal) => Decision::Forget,
        (Child::Temporary, Exit::Abnormal) if recent > ACTOR_FAILURES_MAX => {
            Decision::Quarantine(doubled(QUARANTINE_FIRST, quarantines).min(QUARANTINE_LONGEST))
        }
        (Child::Temporary, Exit::Abnormal) => Decision::Forget,
        (Child::Permanent, _) if recent > RESTARTS_MAX => Decision::Escalate,
        (Child::Permanent, _) => {
            let earlier = recent.saturating_sub(1).try_into().unwrap_or(u32::MAX);
            Decision::Restart(doubled(RESTART_BACKOFF_FIRST, earlier))
        }
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of exits, as `supervisors/README.md` shows it.
    #[test]
    fn the_table_of_exits() {
        let ms = Duration::from_millis;
        let s = Duration::from_secs;
        let rows = [
            (Child::Temporary, Exit::Normal, 0, 0, Decision::Forget),
            (Child::Temporary, Exit::Abnormal, 1, 0, Decision::Forget),
            (Child::Temporary, Exit::Abnormal, 5, 0, Decision::Forget),
            (Child::Temporary, Exit::Abnormal, 6, 0, Decision::Quarantine(s(1))),
            (Child::Temporary, Exit::Abnormal, 6, 3, Decision::Quarantine(s(8))),
            (Child::Temporary, Exit::Abnormal, 6, 40, Decision::Quarantine(s(300))),
            (Child::Permanent, Exit::Abnormal, 1, 0, Decision::Restart(ms(50))),
            (Child::Permanent, Exit::Abnormal, 3, 0, Decision::Restart(ms(200))),
            (Child::Permanent, Exit::Abnormal, 4, 0, Decision::Escalate),
            (Child::Permanent, Exit::Normal, 1, 0, Decision::Restart(ms(50))),
        ];
        for (child, exit, recent, quarantines, expected) in rows {
            let decision = decide(child, exit, recent, quarantines);
            assert_eq!(decision, expected, "{child:?} {exit:?} recent={recent} q={quarantines}");
        }
    }
}
