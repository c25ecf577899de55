//! Every bound and default of the product, once, with its unit. Sources: the specification's
//! numbers where it gives one, a measured or reasoned choice otherwise.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Events that may wait for one actor. One more is refused with 429.
pub const QUEUE_EVENTS_MAX: u32 = 1024;

/// Answers of one actor that may wait for its durable writes, while later events run. Beyond, a
/// durable write waits inside its event.
pub const ANSWERS_HELD_MAX: usize = 1024;

/// How long an event waits for an idle actor to make room when `--max-instances` are resident.
pub const ADMISSION_WAIT: Duration = Duration::from_millis(250);

/// An actor without events for this long is hibernated (`--idle-timeout-secs`).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Resident actors of a node, unless `--max-instances` says otherwise.
pub const INSTANCES_MAX: usize = 1000;

/// Guest CPU of one event (`--cpu-budget-ms`): guest code only, host calls are not charged.
pub const CPU_BUDGET: Duration = Duration::from_millis(50);

/// Wall time of one event, everything counted (`--wall-budget-ms`).
pub const WALL_BUDGET: Duration = Duration::from_secs(30);

/// CPU of all SQL statements of one event together (`--sql-cpu-budget-ms`).
pub const SQL_CPU_BUDGET: Duration = Duration::from_secs(2);

/// Linear memory of one instance (`--memory-mb`).
pub const GUEST_MEMORY_BYTES: usize = 128 * MIB;

/// Body of one request. Declared larger: 413; found larger while reading: the read fails.
pub const BODY_BYTES_MAX: usize = 16 * MIB;

/// After an answer, how long the unread rest of a request's body is read and dropped.
pub const BODY_DRAIN_WAIT: Duration = Duration::from_secs(30);

/// Head of one request. Larger, or with more than 96 headers: 431.
pub const HEAD_BYTES_MAX: usize = 64 * KIB;

/// How long a client may take to send a request's head. Longer: 408.
pub const HEAD_WAIT: Duration = Duration::from_secs(10);

/// How long a client's connection may be idle between two requests.
pub const KEEP_ALIVE_WAIT: Duration = Duration::from_secs(75);

/// How long a client may read nothing of an answer that waits for it. Longer: it is cut off.
pub const ANSWER_STALL_WAIT: Duration = Duration::from_secs(60);

/// Size of one actor's database. Past it writes fail with `quota-exceeded`; reads and deletes work.
pub const DATABASE_BYTES_MAX: usize = 1024 * MIB;

/// One SQL value, bound or returned.
pub const VALUE_BYTES_MAX: usize = 16 * MIB;

/// Everything one query returns.
pub const RESULT_BYTES_MAX: usize = 16 * MIB;

/// Bytes one event may write to its database, counting every rewrite of a page.
pub const EVENT_WRITTEN_BYTES_MAX: usize = 256 * MIB;

/// Memory that SQLite may use for the statements of one event: sorts, materialised subqueries,
/// savepoints, values on their way.
pub const EVENT_SQL_MEMORY_BYTES_MAX: i64 = 128 * MIB as i64;

/// Text of one SQL statement.
pub const STATEMENT_BYTES_MAX: usize = MIB;

/// Compiled statements kept per open database.
pub const STATEMENTS_CACHED: usize = 32;

/// An actor's name: bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 256;

/// A tenant's, app's or class's name: bytes.
pub const IDENTIFIER_BYTES_MAX: usize = 64;

/// Failures of one actor's process within `QUARANTINE_WINDOW` before its address is quarantined.
pub const ACTOR_FAILURES_MAX: usize = 5;

/// The time over which an actor's failures are counted.
pub const QUARANTINE_WINDOW: Duration = Duration::from_secs(60);

/// First quarantine of a failing address; each further one doubles.
pub const QUARANTINE_FIRST: Duration = Duration::from_secs(1);

/// Longest quarantine of a failing address.
pub const QUARANTINE_LONGEST: Duration = Duration::from_secs(300);

/// Addresses of one class whose failures are remembered.
pub const FAILING_ADDRESSES_MAX: usize = 4096;

/// Restarts of supervised processes within `RESTART_WINDOW` before the node stops.
pub const RESTARTS_MAX: usize = 3;

/// The time over which restarts are counted.
pub const RESTART_WINDOW: Duration = Duration::from_secs(30);

/// First delay before a failed process is started again; each further one doubles.
pub const RESTART_BACKOFF_FIRST: Duration = Duration::from_millis(50);

/// On a clean stop: how long queued events may still run (`--shutdown-grace-secs`).
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// A guest's log line; the rest of a longer one is cut.
pub const LOG_LINE_BYTES_MAX: usize = 8 * 1024;

/// Guest log lines per actor and second; more are dropped and counted.
pub const LOG_LINES_PER_SECOND: u32 = 100;

/// First retry of a failed `on-alarm`; each further one doubles.
pub const ALARM_RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait between two attempts of `on-alarm`.
pub const ALARM_RETRY_LONGEST: Duration = Duration::from_secs(300);

/// Alarms of a node that run or wait for their actor at once; at most a quarter of
/// `--max-instances`. More that are due wait for those.
pub const ALARMS_AT_ONCE: usize = 64;

/// An alarm whose handler takes longer no longer counts among those: it mostly waits. With such ones
/// at most half of `--max-instances` are under way.
pub const ALARM_SLOW: Duration = Duration::from_secs(1);

/// The timer looks at the wall clock at least so often: it may be set.
pub const CLOCK_LOOK: Duration = Duration::from_secs(1);

/// When an alarm finds no capacity, no further one is tried for so long at first; doubled each time
/// up to `ALARM_PAUSE_LONGEST`.
pub const ALARM_PAUSE_FIRST: Duration = Duration::from_millis(50);

/// Longest pause of the timer for want of capacity.
pub const ALARM_PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// A call gives up while so much of its caller's wall remains; a fifth of a wall under 25 s.
pub const CALL_RESERVE: Duration = Duration::from_secs(5);

/// A wall shorter than this reserves a fifth of itself instead of `CALL_RESERVE`.
pub const CALL_RESERVE_WALL: Duration = Duration::from_secs(25);

/// Method, path and headers of one call's request together, as HTTP/1.1 writes them.
pub const CALL_HEAD_BYTES_MAX: usize = 32 * 1024;

/// Body of one call's request, and of its response.
pub const CALL_BODY_BYTES_MAX: usize = 16 * MIB;

/// Calls of one `call-many`. Its requests together, and its responses together, are bounded by
/// `CALL_BODY_BYTES_MAX`.
pub const CALLS_AT_ONCE: usize = 16;

/// Wall time of one request of the front, its answer included.
pub const FRONT_WALL_BUDGET: Duration = Duration::from_secs(30);

/// Guest CPU of one request of the front (`--front-cpu-budget-ms`), apart from that of actors.
pub const FRONT_CPU_BUDGET: Duration = Duration::from_millis(50);

/// Beside actors, the front takes this part of `--max-instances`, one of so many, unless
/// `--max-front-requests` says otherwise. One request more than its part is refused with 503.
pub const FRONT_INSTANCES_SHARE: usize = 10;

/// Of as many calls of the front as it has slots, one of so many may wait on one actor; one more
/// fails.
pub const FRONT_CALLS_PER_ACTOR_SHARE: usize = 4;

/// Log lines of a node's front per second, all its requests together; more are dropped and counted.
pub const FRONT_LOG_LINES_PER_SECOND: u32 = 1000;

/// Outbound requests one actor may have open at once, from sending to the end of the answer's body.
/// One more fails with `connection-limit-reached`.
pub const OUTBOUND_ACTOR_OPEN_MAX: usize = 16;

/// Outbound requests a node may have open at once. One more fails with `connection-limit-reached`.
pub const OUTBOUND_NODE_OPEN_MAX: usize = 256;

/// Each step of an outbound request (connect, first byte, between bytes), unless the guest asks
/// for another time.
pub const OUTBOUND_STEP_WAIT: Duration = Duration::from_secs(30);

/// The longest time a guest may ask for one step of an outbound request.
pub const OUTBOUND_STEP_WAIT_LONGEST: Duration = Duration::from_secs(60);

/// The head of the answer to an outbound request. A longer one fails the request.
pub const OUTBOUND_HEAD_BYTES_MAX: usize = 64 * 1024;

/// Names looked up at once for outbound requests; others wait, within their time to connect.
pub const OUTBOUND_LOOKUPS_MAX: usize = 64;

/// Addresses of one name that an outbound request tries, in the resolver's order.
pub const OUTBOUND_ADDRESSES_TRIED_MAX: usize = 8;

/// A file that `--env` names.
pub const ENV_FILE_BYTES_MAX: usize = MIB;

/// WebSockets of one actor. One more is refused with 503.
pub const SOCKETS_PER_ACTOR_MAX: usize = 1000;

/// WebSockets of a node. One more is refused with 503.
pub const SOCKETS_MAX: usize = 50_000;

/// A WebSocket message, from a client (larger: close code 1009) or to one (`too-large`).
pub const SOCKET_MESSAGE_BYTES_MAX: usize = MIB;

/// Messages that may wait for one client. One more is dropped for it: `backpressure`.
pub const SOCKET_QUEUE_MESSAGES_MAX: usize = 256;

/// Bytes that may wait for one client. A message past them is dropped for it: `backpressure`.
pub const SOCKET_QUEUE_BYTES_MAX: usize = 4 * MIB;

/// Messages of one client that came together and take their turn at the actor together.
pub const SOCKET_TURN_MESSAGES_MAX: usize = 16;

/// No further one of them begins once the turn has taken this long: the rest queues again.
pub const SOCKET_TURN_TIME: Duration = Duration::from_millis(5);

/// What an actor may keep with one of its WebSockets.
pub const ATTACHMENT_BYTES_MAX: usize = 2 * KIB;

/// A WebSocket's close reason.
pub const CLOSE_REASON_BYTES_MAX: usize = 123;

/// A WebSocket whose client is silent for this long is pinged.
pub const SOCKET_SILENCE: Duration = Duration::from_secs(25);

/// A pinged client that stays silent for this long has left.
pub const SOCKET_PONG_WAIT: Duration = Duration::from_secs(30);

/// How long a client may take to answer a close. Longer: its connection is cut.
pub const SOCKET_CLOSE_WAIT: Duration = Duration::from_secs(10);

/// Close events of a node that run or wait for their actor at once; at most a quarter of
/// `--max-instances`.
pub const SOCKET_CLOSES_AT_ONCE: usize = 64;

/// First wait before a close event that could not be delivered is tried again; each further one
/// doubles.
pub const SOCKET_CLOSE_RETRY_FIRST: Duration = Duration::from_millis(50);

/// Longest wait before a close event is tried again.
pub const SOCKET_CLOSE_RETRY_LONGEST: Duration = Duration::from_secs(5);

/// When the node stops: how long WebSockets may take to close.
pub const SOCKET_STOP_WAIT: Duration = Duration::from_secs(2);

/// Records that wait for one `wasmkeep tail`; past them the oldest are lost, and that is shown.
pub const TAIL_RECORDS_MAX: usize = 4096;

/// One read or write of a node's lease in the bucket.
pub const BUCKET_LEASE_WAIT: Duration = Duration::from_millis(2500);

/// How often a node renews its lease, and looks at those of the others.
pub const LEASE_PERIOD: Duration = Duration::from_secs(3);

/// A lease's validity, counted from before the renewal was sent.
pub const LEASE_TTL: Duration = Duration::from_secs(10);

/// Beyond `LEASE_TTL`, how long others watch an unchanged lease before they end it: what two clocks may
/// differ by in that time.
pub const LEASE_GRACE: Duration = Duration::from_secs(5);

/// After a read of a lease that failed: how long until the next one.
pub const LEASE_RETRY: Duration = Duration::from_millis(500);

/// A node's lease in the bucket, with what it tells of the node. A larger one is not read as one.
pub const LEASE_BYTES_MAX: usize = 64 * KIB;

/// One text of a lease: the node's address, its version, the reason for which it was fenced. The rest
/// of a longer one is cut.
pub const LEASE_TEXT_BYTES_MAX: usize = 256;

/// Nodes of one bucket. The leases of more are not watched.
pub const NODES_MAX: usize = 1000;

/// How often a node looks for nodes that did not tell it that they had started.
pub const NODES_LIST_PERIOD: Duration = Duration::from_secs(30);

/// Leases that a node reads at once.
pub const NODES_READ_AT_ONCE: usize = 32;

/// A node whose lease is gone from the bucket is remembered for so long.
pub const NODE_GONE_KEPT: Duration = Duration::from_secs(300);

/// No event starts so shortly before the lease's horizon.
pub const LEASE_LAST_START: Duration = Duration::from_secs(1);

/// How long a node knows who has an actor without looking at its record again.
pub const OWNER_LEARNED: Duration = Duration::from_secs(1);

/// Actors of which a node knows that at once.
pub const LEARNED_OWNERS_MAX: usize = 100_000;

/// How long a request that changes nothing, or an upgrade, is held for an actor whose node is dead.
pub const TAKEOVER_WAIT: Duration = Duration::from_secs(25);

/// How often it is looked after meanwhile.
pub const TAKEOVER_LOOK_AGAIN: Duration = Duration::from_millis(500);

/// One operation of the bucket on a record, a listing, or one object of a restore.
pub const BUCKET_RECORD_WAIT: Duration = Duration::from_secs(10);

/// One upload to the bucket, and all attempts of it together.
pub const BUCKET_UPLOAD_WAIT: Duration = Duration::from_secs(30);

/// Before an operation whose outcome is not known is looked after or tried again: a random wait of
/// at most so much, doubled each time up to `BUCKET_BACKOFF_LONGEST`.
pub const BUCKET_BACKOFF_FIRST: Duration = Duration::from_millis(50);

/// Longest wait between two attempts at the bucket.
pub const BUCKET_BACKOFF_LONGEST: Duration = Duration::from_secs(1);

/// An object's key in the bucket, with the prefix of the bucket's URL: bytes of UTF-8.
pub const BUCKET_KEY_BYTES_MAX: usize = 1024;

/// The prefix in the bucket's URL: bytes.
pub const BUCKET_PREFIX_BYTES_MAX: usize = 400;

/// One object of the bucket. A larger one is not read.
pub const BUCKET_OBJECT_BYTES_MAX: usize = 1024 * MIB;

/// Keys of one page of a listing.
pub const BUCKET_PAGE_KEYS_MAX: u16 = 1000;

/// What the bucket answers instead of an object: an error, or a page of a listing.
pub const BUCKET_ANSWER_BYTES_MAX: usize = 8 * MIB;

/// A snapshot is due once the segments since the last one have so many bytes, and half as many as
/// the database compressed.
pub const SNAPSHOT_DELTA_BYTES_MIN: u64 = MIB as u64;

/// A merged object is due after so many segments, so a restore fetches at most a snapshot, one object
/// for each such run, and one segment fewer than this.
pub const MERGE_DELTAS: u64 = 64;

/// An actor that goes to sleep after so many segments leaves a snapshot, if its database is small.
pub const HIBERNATION_SNAPSHOT_DELTAS: u64 = 16;

/// A database below this is small in that sense.
pub const HIBERNATION_SNAPSHOT_BYTES_MAX: u64 = 4 * MIB as u64;

/// A hand-over names the node that shall take an actor next: so long others leave it to that one.
pub const HANDOVER_WAIT: Duration = Duration::from_secs(10);

/// When a history shows a generation as high as a hold's, the record is written above it, and the
/// history listed anew: at most so often for one hold.
pub const OWNER_REWRITES_MAX: usize = 4;

/// What the bucket's clock may show between a lease's renewal and a write that is acknowledged, beyond
/// `LEASE_TTL`: it tells whole seconds, and a write is dated when it lands.
pub const ACKNOWLEDGE_SLACK: Duration = Duration::from_secs(2);

/// Objects of one history that are fetched at once.
pub const RESTORE_FETCHES: usize = 8;

/// What those fetched ahead of the next one may have together.
pub const RESTORE_AHEAD_BYTES: u64 = 32 * MIB as u64;

/// An object above this is fetched with the wait of an upload.
pub const RESTORE_LARGE_BYTES: u64 = 8 * MIB as u64;

/// Objects of more pages are read and written apart from the threads that run actors.
pub const PAGES_ON_THREAD_MAX: u32 = 256;

/// Snapshots and merged objects that a node writes at once: each is in memory as a whole.
pub const STAND_INS_AT_ONCE: usize = 2;

/// Releases a node remembers, so that waking an actor again costs one write.
pub const RELEASES_KEPT_MAX: usize = 20_000;

/// A collection looks at the ownership record again after so many deletes.
pub const COLLECT_BATCH: usize = 100;

/// How often an event is passed on from node to node; past that it is refused with 503. More than one
/// is needed only while its actor moves.
pub const RELAY_HOPS_MAX: u8 = 3;

/// What one node writes about an event in the head of a request to another: the client's head, and who
/// waits for the answer. A longer chain of callers is refused.
pub const RELAY_HEAD_BYTES_MAX: usize = 120 * KIB;

/// The head of an actor's answer, as it stands in the head of one node's answer to another.
pub const RELAY_ANSWER_BYTES_MAX: usize = 256 * KIB;

/// How long a connection to another node may take to come about, its TLS included.
pub const PEER_CONNECT_WAIT: Duration = Duration::from_secs(3);

/// How long a node that connects may take to prove who it is.
pub const PEER_HANDSHAKE_WAIT: Duration = Duration::from_secs(5);

/// How long a node waits for the head of another's answer, the time in its actor's queue included.
/// One that is dead is noticed sooner: see `PEER_SILENCE`.
pub const PEER_HEAD_WAIT: Duration = Duration::from_secs(600);

/// A connection to another node whose machine acknowledges nothing for this long is lost.
pub const PEER_SILENCE: Duration = Duration::from_secs(10);

/// How long a node's word about itself to another may take (`hello`, `take`).
pub const PEER_WORD_WAIT: Duration = Duration::from_secs(3);

/// What a node says about itself to another: its lease, or names of actors.
pub const PEER_WORD_BYTES_MAX: usize = 256 * KIB;

/// Requests that one node has with another at once, open WebSockets apart; one more is refused with
/// 503.
pub const PEER_REQUESTS_MAX: usize = 4096;

/// Connections to one other node that are kept for further requests.
pub const PEER_CONNECTIONS_KEPT: usize = 64;

/// How long such a connection is kept unused. Below `KEEP_ALIVE_WAIT`, after which the other node
/// closes it: a request that meets its end would be lost.
pub const PEER_CONNECTION_IDLE: Duration = Duration::from_secs(30);

/// Connections of nodes that are not known as live: they may say hello, and are closed.
pub const PEER_STRANGERS_MAX: usize = 16;

/// How often a connection that the cluster port refuses is logged; all are counted.
pub const PEER_REFUSAL_LOG_EVERY: Duration = Duration::from_secs(60);

/// When the node stops: how long the cluster port goes on refusing what comes, before it closes idle
/// connections. A request that meets that end is lost, so it is longer than others go by what they
/// learned of who has an actor (`OWNER_LEARNED`).
pub const PEER_STOP_WAIT: Duration = Duration::from_millis(1500);
