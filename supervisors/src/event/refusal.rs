//! The host's own answers: why, whether the event ran, and with which status. What each means is in
//! `reasons`.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use super::reasons::{REASONS, ReasonRow};
use super::{Body, Reply};
use crate::headers;
use crate::one_line::in_one_line;

/// Whether the actor's code ran for an event that has no answer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    NotRun,
    Ran,
    Unknown,
}

impl Ran {
    pub const fn as_str(self) -> &'static str {
        match self {
            Ran::NotRun => "not-run",
            Ran::Ran => "ran",
            Ran::Unknown => "unknown",
        }
    }
}

/// Why the host answers instead of the actor; `REASONS` says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    BadRequest,
    Forbidden,
    SocketRefused,
    NotFound,
    NoSuchActor,
    BodyTooLarge,
    QueueFull,
    NoCapacity,
    FrontBusy,
    TooManySockets,
    Stopping,
    Unavailable,
    Quarantined,
    OwnerUnreachable,
    TooManyHops,
    OwnerLost,
    InitFailed,
    HandlerFailed,
    NoResponse,
    Trapped,
    CpuExceeded,
    WallExceeded,
    NotInstantiated,
    DatabaseUnusable,
    NotDurable,
    HostFault,
    NoLease,
    LeaseLost,
    HistoryUnusable,
}

impl Ran {
    /// As another node wrote it; what is not known here may be anything.
    pub fn of_word(word: &str) -> Self {
        let all = [Ran::NotRun, Ran::Ran];
        all.into_iter().find(|ran| ran.as_str() == word).unwrap_or(Ran::Unknown)
    }
}

impl Reason {
    /// As another node wrote it; for one that only a newer node knows, what is nearest.
    pub fn of_word(word: &str, ran: Ran) -> Self {
        let known = REASONS.iter().find(|row| row.word == word).map(|row| row.reason);
        known.unwrap_or(match ran {
            Ran::NotRun => Reason::Unavailable,
            Ran::Ran => Reason::HostFault,
            Ran::Unknown => Reason::OwnerLost,
        })
    }

    const fn row(self) -> &'static ReasonRow {
        &REASONS[self as usize]
    }

    /// The word programs read, in `x-wasmkeep-reason` and in the body.
    pub const fn as_str(self) -> &'static str {
        self.row().word
    }

    /// The HTTP status it leaves with.
    pub const fn status(self) -> u16 {
        self.row().status
    }
}

/// The host's own answer to an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub ran: Ran,
    /// Says more than the reason's own sentence; shown to the client.
    pub detail: Option<String>,
}

/// The body of an answer the host makes itself.
#[derive(Serialize)]
struct Explained<'a> {
    reason: &'a str,
    event: &'a str,
    message: &'a str,
}

impl Refusal {
    /// The event did not run.
    pub const fn not_run(reason: Reason) -> Self {
        Self { reason, ran: Ran::NotRun, detail: None }
    }

    /// The event ran, at least in part.
    pub const fn ran(reason: Reason) -> Self {
        Self { reason, ran: Ran::Ran, detail: None }
    }

    /// Whether the event ran is not known.
    pub const fn unknown(reason: Reason) -> Self {
        Self { reason, ran: Ran::Unknown, detail: None }
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn sentence(&self) -> &str {
        self.detail.as_deref().unwrap_or(self.reason.row().sentence)
    }

    /// The answer as its sender gets it, a client as well as a calling actor.
    pub fn to_reply(&self) -> Reply {
        let header = |name: &'static str, value: &'static str| {
            (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes()))
        };
        let mut headers = vec![
            header("content-type", "application/json"),
            header(headers::REASON, self.reason.as_str()),
            header(headers::EVENT, self.ran.as_str()),
        ];
        if self.reason.status() == 503 {
            headers.push(header("retry-after", "1"));
        }
        let explained = Explained {
            reason: self.reason.as_str(),
            event: self.ran.as_str(),
            message: self.sentence(),
        };
        let body = serde_json::to_vec(&explained).unwrap_or_default();
        Reply { status: self.reason.status(), headers, body: Body::Whole(body.into()) }
    }
}

/// For the log: what a guest wrote into it stays on one line.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = in_one_line(self.sentence());
        write!(f, "{} ({}): {sentence}", self.reason.as_str(), self.ran.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reason_has_its_own_row_and_word() {
        for (at, row) in REASONS.iter().enumerate() {
            assert_eq!(row.reason as usize, at, "{} stands in another's place", row.word);
        }
        let words: HashSet<_> = REASONS.iter().map(|row| row.word).collect();
        assert_eq!(words.len(), REASONS.len());
    }

    #[test]
    fn a_retry_is_offered_exactly_where_it_can_help() {
        for row in &REASONS {
            let may_help = matches!(
                row.reason,
                Reason::NoCapacity
                    | Reason::FrontBusy
                    | Reason::TooManySockets
                    | Reason::Stopping
                    | Reason::Unavailable
                    | Reason::Quarantined
                    | Reason::NoLease
                    | Reason::LeaseLost
                    | Reason::OwnerUnreachable
                    | Reason::TooManyHops
            );
            assert_eq!(row.status == 503, may_help, "{}", row.word);
            let reply = Refusal::not_run(row.reason).to_reply();
            let offered = reply.headers.iter().any(|(name, _)| name == "retry-after");
            assert_eq!(offered, may_help, "{}", row.word);
        }
    }

    /// `UPDATE_DOCS=1 cargo nextest run --package wasmkeep-supervisors` writes the table anew.
    #[test]
    fn the_page_of_errors_has_the_table_of_reasons() {
        let mut table = String::from(
            "| reason | status | event | when | what to do |\n| --- | --- | --- | --- | --- |\n",
        );
        for ReasonRow { word, status, event, when, remedy, .. } in &REASONS {
            table += &format!("| `{word}` | {status} | {event} | {when} | {remedy} |\n");
        }
        crate::testing::check_page("docs/errors.md", "reasons", &table);
    }
}
