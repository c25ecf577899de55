//! The host's own answers: why, whether the event ran, and with which status. One table, from
//! which `docs/errors.md` is made too.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

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
    HostFault,
    NoLease,
    LeaseLost,
    HistoryUnusable,
}

/// What is said of one reason.
pub struct ReasonRow {
    pub reason: Reason,
    /// The word programs read, in `x-wasmkeep-reason` and in the body.
    pub word: &'static str,
    pub status: u16,
    /// The sentence people read when nothing more precise is known.
    pub sentence: &'static str,
    /// Whether the event ran, when it happens and what to do, for `docs/errors.md`.
    pub event: &'static str,
    pub when: &'static str,
    pub remedy: &'static str,
}

/// One row a reason, in the order of `Reason`.
pub const REASONS: [ReasonRow; 28] = [
    ReasonRow {
        reason: Reason::BadRequest,
        word: "bad-request",
        status: 400,
        sentence: "the request is malformed",
        event: "not-run",
        when: "the address is no address (the message says why), the body broke off, or the \
               request is no HTTP, where the status may be another: see below",
        remedy: "mend the request",
    },
    ReasonRow {
        reason: Reason::Forbidden,
        word: "forbidden",
        status: 403,
        sentence: "this class takes no requests from outside",
        event: "not-run",
        when: "the class is served with `--access CLASS=internal`",
        remedy: "call it from an actor, or serve it with another access mode",
    },
    ReasonRow {
        reason: Reason::SocketRefused,
        word: "socket-refused",
        status: 403,
        sentence: "the actor refused the WebSocket",
        event: "ran",
        when: "`on-websocket-open` returned an error. A client at the actor's own path gets it as \
               close code 1008 instead, with the actor's text as the reason",
        remedy: "ask as the actor wants to be asked",
    },
    ReasonRow {
        reason: Reason::NotFound,
        word: "not-found",
        status: 404,
        sentence: "there is nothing at this address",
        event: "not-run",
        when: "the node does not serve the class, or the path is neither an actor's nor the \
               server's",
        remedy: "check the URL and `--actor`",
    },
    ReasonRow {
        reason: Reason::NoSuchActor,
        word: "no-such-actor",
        status: 404,
        sentence: "there is no such actor, and requests from outside create none in this class",
        event: "not-run",
        when: "the class is served with `--access CLASS=existing` and the actor does not exist; \
               nothing was created",
        remedy: "have an actor create it with a call, or name it in `existing:NAME,…`",
    },
    ReasonRow {
        reason: Reason::BodyTooLarge,
        word: "body-too-large",
        status: 413,
        sentence: "the request's body is larger than 16 MiB",
        event: "not-run",
        when: "the body is declared larger than 16 MiB; the connection is closed",
        remedy: "send it in parts",
    },
    ReasonRow {
        reason: Reason::QueueFull,
        word: "queue-full",
        status: 429,
        sentence: "1,024 events wait for this actor already; retry later",
        event: "not-run",
        when: "1,024 events wait for this actor",
        remedy: "slow down; spread the work over more actors",
    },
    ReasonRow {
        reason: Reason::NoCapacity,
        word: "no-capacity",
        status: 503,
        sentence: "every instance this node may hold is busy; retry, or raise --max-instances",
        event: "not-run",
        when: "`--max-instances` actors are in memory, all busy for 250 ms",
        remedy: "retry; raise `--max-instances`",
    },
    ReasonRow {
        reason: Reason::FrontBusy,
        word: "front-busy",
        status: 503,
        sentence: "the front serves as many requests as it may; retry, or raise \
                   --max-front-requests",
        event: "not-run",
        when: "`--max-front-requests` requests are with the front already",
        remedy: "retry; raise `--max-front-requests`",
    },
    ReasonRow {
        reason: Reason::TooManySockets,
        word: "too-many-sockets",
        status: 503,
        sentence: "this actor or this node has as many WebSockets as it may",
        event: "not-run",
        when: "the actor has 1,000 WebSockets or the node 50,000, those counted whose \
               `on-websocket-close` is still to run",
        remedy: "retry later; spread the clients over more actors or nodes",
    },
    ReasonRow {
        reason: Reason::Stopping,
        word: "stopping",
        status: 503,
        sentence: "this node is stopping; retry",
        event: "not-run",
        when: "the node is told to stop",
        remedy: "retry, elsewhere or later",
    },
    ReasonRow {
        reason: Reason::Unavailable,
        word: "unavailable",
        status: 503,
        sentence: "the actor stopped before this event started; retry",
        event: "not-run",
        when: "the actor's process ended while the event waited, or its database did not open \
               this time",
        remedy: "retry",
    },
    ReasonRow {
        reason: Reason::Quarantined,
        word: "quarantined",
        status: 503,
        sentence: "this actor failed repeatedly and is left alone for now; retry",
        event: "not-run",
        when: "the actor's process failed more than 5 times in a minute by faults of the server \
               itself",
        remedy: "look at the log; it is let in again by itself",
    },
    ReasonRow {
        reason: Reason::OwnerUnreachable,
        word: "owner-unreachable",
        status: 503,
        sentence: "the node that has this actor cannot be reached; retry",
        event: "not-run",
        when: "the actor is on another node, and no connection to that node came about",
        remedy: "retry; a node that is dead is replaced within about 20 s",
    },
    ReasonRow {
        reason: Reason::TooManyHops,
        word: "too-many-hops",
        status: 503,
        sentence: "this actor is on its way from node to node; retry",
        event: "not-run",
        when: "the request was passed on three times, and each node named another one",
        remedy: "retry",
    },
    ReasonRow {
        reason: Reason::OwnerLost,
        word: "owner-lost",
        status: 502,
        sentence: "the node that has this actor was lost before it answered; whether the event ran \
                   is unknown",
        event: "unknown",
        when: "the actor is on another node, which got the request and then stopped or was cut off",
        remedy: "look whether it ran before you send it again, unless that does no harm",
    },
    ReasonRow {
        reason: Reason::InitFailed,
        word: "init-failed",
        status: 500,
        sentence: "the actor's on-init failed; it is tried again with the next event",
        event: "ran",
        when: "`on-init` failed, trapped or passed a limit; the handler did not run",
        remedy: "mend `on-init`",
    },
    ReasonRow {
        reason: Reason::HandlerFailed,
        word: "handler-failed",
        status: 500,
        sentence: "the actor's handler returned an error",
        event: "ran",
        when: "the handler returned an error in place of a response, or before it had written the \
               body its response announced",
        remedy: "mend the handler",
    },
    ReasonRow {
        reason: Reason::NoResponse,
        word: "no-response",
        status: 500,
        sentence: "the actor's handler returned without a response",
        event: "ran",
        when: "the handler returned without a response, or with a status that is not between 200 and \
               599",
        remedy: "mend the handler",
    },
    ReasonRow {
        reason: Reason::Trapped,
        word: "trapped",
        status: 500,
        sentence: "the actor's code trapped",
        event: "ran",
        when: "the code trapped; in Rust, a panic",
        remedy: "the log has the stack",
    },
    ReasonRow {
        reason: Reason::CpuExceeded,
        word: "cpu-exceeded",
        status: 500,
        sentence: "the event used more CPU than --cpu-budget-ms allows",
        event: "ran",
        when: "guest code used up `--cpu-budget-ms`",
        remedy: "do less per event, or raise it",
    },
    ReasonRow {
        reason: Reason::WallExceeded,
        word: "wall-exceeded",
        status: 500,
        sentence: "the event ran longer than --wall-budget-ms allows",
        event: "ran",
        when: "the event took longer than `--wall-budget-ms`",
        remedy: "as above",
    },
    ReasonRow {
        reason: Reason::NotInstantiated,
        word: "not-instantiated",
        status: 500,
        sentence: "the component could not be instantiated",
        event: "not-run",
        when: "no instance of the component could be made, for instance because it starts with \
               more memory than `--memory-mb`",
        remedy: "the log has the cause",
    },
    ReasonRow {
        reason: Reason::DatabaseUnusable,
        word: "database-unusable",
        status: 500,
        sentence: "the actor's database cannot be opened",
        event: "not-run",
        when: "the actor's file is damaged or is another actor's. With `ran`: `on-init` ran and \
               its success could not be kept",
        remedy: "the log has the file and the cause",
    },
    ReasonRow {
        reason: Reason::HostFault,
        word: "host-fault",
        status: 500,
        sentence: "the server failed while it handled this event",
        event: "ran",
        when: "a fault of the server",
        remedy: "report it, with the log",
    },
    ReasonRow {
        reason: Reason::NoLease,
        word: "no-lease",
        status: 503,
        sentence: "this node may not run actors at present; retry",
        event: "not-run",
        when: "in a cluster: the node has no lease, because the bucket does not answer it or another \
               node ended its lease, or the actor's record could not be read or written",
        remedy: "retry; `/_wasmkeep/ready` and the log say what is wrong",
    },
    ReasonRow {
        reason: Reason::LeaseLost,
        word: "lease-lost",
        status: 503,
        sentence: "the node lost its lease while the event ran; what it did may be lost",
        event: "ran",
        when: "in a cluster: the event ended after its node's right to answer for the actor had",
        remedy: "ask for the state before you repeat it: only durable writes that were acknowledged \
                 are certain",
    },
    ReasonRow {
        reason: Reason::HistoryUnusable,
        word: "history-unusable",
        status: 500,
        sentence: "the actor's history in the bucket cannot be restored",
        event: "not-run",
        when: "in a cluster: an object of the actor's history is missing or damaged, or was written by a \
               newer version than this node's",
        remedy: "the log names the object. Nothing is guessed and nothing is overwritten",
    },
];

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
