//! What each of the host's own answers means: the table from which `docs/errors.md` is made.

use super::refusal::Reason;

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
pub const REASONS: [ReasonRow; 29] = [
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
        reason: Reason::NotDurable,
        word: "not-durable",
        status: 500,
        sentence: "what the actor wrote is not known to be durable",
        event: "ran",
        when: "the disk or the bucket failed a durable write after its handler had gone on: this \
               event's, or one's before it that this one may have read",
        remedy: "ask for the state before you repeat it; the log has the cause",
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
