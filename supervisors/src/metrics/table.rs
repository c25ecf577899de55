//! Every metric, once: its name, labels and what it counts. `docs/monitoring.md` is made from it.

pub struct Row {
    pub name: &'static str,
    pub labels: &'static [&'static str],
    pub help: &'static str,
    pub form: Form,
}

/// What kind of metric, and the bounds of a histogram's buckets.
pub enum Form {
    Counter,
    Gauge,
    Histogram(&'static [f64]),
}

impl Form {
    #[cfg(test)]
    pub const fn word(&self) -> &'static str {
        match self {
            Form::Counter => "counter",
            Form::Gauge => "gauge",
            Form::Histogram(_) => "histogram",
        }
    }
}

/// Seconds: from a hot actor's answer to an event at its wall.
const EVENT_SECONDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];
/// Seconds: up to the 250 ms that an event waits.
const ADMISSION_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25];

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Row {
    Row { name, labels, help, form: Form::Counter }
}

const fn gauge(name: &'static str, help: &'static str) -> Row {
    Row { name, labels: &[], help, form: Form::Gauge }
}

const fn seconds(
    name: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    help: &'static str,
) -> Row {
    Row { name, labels, help, form: Form::Histogram(buckets) }
}

pub const ROWS: &[Row] = &[
    counter(
        "wasmkeep_events_total",
        &["class", "kind", "outcome"],
        "events of each kind (`request`, `call`, `alarm`, `socket-open`, `socket-message`, \
         `socket-close`) taken off a queue. `answered`: the \
         handler ended well, whatever status it chose. `failed`: the server answered in its place, \
         or cut the answer; of an alarm, that it is tried again. `skipped`: the sender had left, no \
         alarm was due, or the socket was closed, so nothing ran",
    ),
    seconds(
        "wasmkeep_event_seconds",
        &["class", "kind"],
        EVENT_SECONDS,
        "from the start of an event in its actor to its end: waking, `on-init` and streaming \
         included, waiting in the queue not",
    ),
    counter(
        "wasmkeep_refusals_total",
        &["reason"],
        "answers the server made itself, by the words of the page on errors",
    ),
    gauge(
        "wasmkeep_resident_actors",
        "actors in memory now, those about to leave included; at most `--max-instances`",
    ),
    counter("wasmkeep_wakes_total", &[], "actors brought into memory, new ones included"),
    counter("wasmkeep_rests_total", &[], "databases closed as no event had come for ten seconds"),
    counter(
        "wasmkeep_hibernations_total",
        &["cause"],
        "actors that left memory: `idle` (the timeout), `evicted` (another needed the place), \
         `asked` (an operator), `elsewhere` (another node has it), `stopping` (the node stops)",
    ),
    seconds(
        "wasmkeep_admission_wait_seconds",
        &[],
        ADMISSION_SECONDS,
        "how long events waited because every place in memory was taken; those that found one at \
         once are not in it",
    ),
    seconds(
        "wasmkeep_durable_write_seconds",
        &[],
        EVENT_SECONDS,
        "how long `exec-durable` took, statement and sync together",
    ),
    counter(
        "wasmkeep_actor_deletes_total",
        &["how"],
        "actors that deleted themselves: `self` (at the end of an event), `self_durable`",
    ),
    counter(
        "wasmkeep_actor_delete_failures_total",
        &["how"],
        "deletes that failed in the files, by the same words",
    ),
    seconds(
        "wasmkeep_alarm_lateness_seconds",
        &[],
        EVENT_SECONDS,
        "from when an alarm was due to the start of its handler; retries count from when they were \
         due",
    ),
    counter(
        "wasmkeep_alarms_put_off_total",
        &[],
        "due alarms that could not run (no capacity, a database that does not open) and are tried \
         again",
    ),
    counter(
        "wasmkeep_calls_total",
        &["outcome"],
        "calls between actors, as their callers saw them: `answered` (also by the server), \
         `timeout`, `reentrant`, `invalid-address`, `failed`",
    ),
    seconds(
        "wasmkeep_call_seconds",
        &[],
        EVENT_SECONDS,
        "how long calls took, as their callers saw it",
    ),
    counter(
        "wasmkeep_front_requests_total",
        &["outcome"],
        "requests that came to the front. `answered`: its handler ended well, whatever status it \
         chose. `failed`: the server answered in its place, or cut the answer. `left`: the client \
         left before the end of its answer. `refused`: nothing ran, for every slot was taken or the \
         node stops",
    ),
    seconds(
        "wasmkeep_front_seconds",
        &[],
        EVENT_SECONDS,
        "from the start of a request in the front to the end of its instance, streaming included",
    ),
    gauge(
        "wasmkeep_front_open_requests",
        "requests with the front now; at most `--max-front-requests`",
    ),
    counter(
        "wasmkeep_front_calls_refused_total",
        &["bound"],
        "calls of the front that failed as `front busy`: too many waited on one `actor`, or on the \
         `node`",
    ),
    counter(
        "wasmkeep_outbound_requests_total",
        &["outcome"],
        "requests that actors sent. `answered`: an answer's head came, whatever its status. \
         `denied`: refused for its URL, port or address, before any connection. `limited`: too many \
         were open. `failed`: everything else, and those the guest did not wait for",
    ),
    gauge(
        "wasmkeep_outbound_open_requests",
        "requests of actors that are open now, from sending to the end of the answer's body; at \
         most 256",
    ),
    counter(
        "wasmkeep_relays_total",
        &["outcome"],
        "events and WebSockets handed to the node that has their actor. `answered`: it answered, \
         whatever the status. `refused`: that node refused it. `elsewhere`: it named another node. \
         `not-reached`: no connection, nothing ran. `lost`: the node was lost before it answered, \
         whether it ran is unknown. `left`: the client left first",
    ),
    counter(
        "wasmkeep_peer_connections_refused_total",
        &["why"],
        "connections to the cluster port that were closed. `plain-text`: no TLS. `no-certificate`: \
         the peer proved no key. `handshake`: TLS did not come about. `stranger`: no live lease has \
         its key. `too-many`: as many strangers as may be are connected",
    ),
    gauge(
        "wasmkeep_sockets",
        "WebSockets of this node, those included that are being opened and those whose close event \
         is still to run; at most 50,000",
    ),
    counter(
        "wasmkeep_socket_messages_sent_total",
        &[],
        "messages that actors queued for clients; those that came from clients are events of the \
         kind `socket-message`",
    ),
    counter(
        "wasmkeep_socket_backpressure_total",
        &[],
        "messages dropped for a client that did not keep up",
    ),
    counter(
        "wasmkeep_socket_closes_total",
        &["by"],
        "accepted WebSockets that ended, by who ended them: `client` (it sent a close), `actor`, \
         `server` (a broken rule, no capacity, a delete, a stop), `lost` (the connection broke, or \
         its client was silent)",
    ),
    counter("wasmkeep_guest_log_lines_total", &[], "lines that guests wrote to the log"),
    counter(
        "wasmkeep_guest_log_lines_dropped_total",
        &[],
        "lines dropped because an actor wrote more than 100 a second",
    ),
    gauge("wasmkeep_tail_listeners", "operators who follow events with `wasmkeep tail` now"),
    counter(
        "wasmkeep_tail_records_lost_total",
        &[],
        "records that such operators were too slow to read",
    ),
    counter(
        "wasmkeep_bucket_requests_total",
        &["operation", "outcome"],
        "requests to the bucket (`get`, `put`, `list`, `delete`). `ok`: carried out; of a read, also \
         that there is no such object, or that it has not changed. `mismatch`: a write whose condition \
         did not hold. `unknown`: no answer, a conflict, or a failure of the bucket's. `denied`: the \
         bucket refuses this node",
    ),
    seconds(
        "wasmkeep_bucket_request_seconds",
        &["operation"],
        EVENT_SECONDS,
        "how long requests to the bucket took, whatever came of them",
    ),
    counter(
        "wasmkeep_holds_total",
        &["how"],
        "actors that this node acquired. `new`: there was no ownership record. `free`: its holder had \
         given it back. `own`: the record named this node, which had given it up or was started anew. \
         `taken`: its holder's lease has ended. `unchanged`: nobody held it since this node gave it \
         back, so its history was not even listed",
    ),
    counter(
        "wasmkeep_give_ups_total",
        &["cause"],
        "holds that could not go on: the actor's next event restores it from the bucket. `unknown`: \
         nobody can say whether an upload landed. `lapsed`: the lease had run out. `late`: by the \
         bucket's clock it had. `denied`: the bucket refuses this node. `storage`: the local database \
         failed. `conflict`: another writer used the hold's generation, and `process`: a process \
         failed; these two are faults of the server",
    ),
    counter(
        "wasmkeep_segments_shipped_total",
        &["kind"],
        "segments acknowledged in the bucket: `delta` (what events wrote), `full` (a whole database), \
         `reset` (a delete), `fence` (nothing, to make sure of what was read)",
    ),
    counter(
        "wasmkeep_shipped_bytes_total",
        &[],
        "bytes of those, and of snapshots and merged objects",
    ),
    seconds(
        "wasmkeep_upload_seconds",
        &[],
        EVENT_SECONDS,
        "from when a segment was made to its acknowledgement, all attempts together",
    ),
    counter(
        "wasmkeep_stand_ins_total",
        &["kind"],
        "objects written so that restores fetch less: `snapshot`, `merged`",
    ),
    counter(
        "wasmkeep_objects_collected_total",
        &[],
        "objects of histories removed because no restore needs them",
    ),
    counter(
        "wasmkeep_restores_total",
        &["from"],
        "actors with a history that were brought here: from the `bucket`, or from the `file` they left \
         here, which was exactly the newest state",
    ),
    seconds(
        "wasmkeep_restore_seconds",
        &[],
        EVENT_SECONDS,
        "how long that took, once the actor was acquired",
    ),
    counter(
        "wasmkeep_process_exits_total",
        &["process", "cause"],
        "supervised processes that ended abnormally: `actor`, `class-supervisor`, `timer`, `sockets` \
         or `replica`, \
         `failed`. Each is a fault of the server",
    ),
];
