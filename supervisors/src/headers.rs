//! Which headers are the host's. What the host says about an event, nobody else can say.

/// Names that only the host may say anything with.
const HOST_PREFIX: &[u8] = b"x-wasmkeep-";

/// Why the host answered instead of the actor: a word of `Reason`.
pub const REASON: &str = "x-wasmkeep-reason";
/// Whether the event ran: `not-run`, `ran` or `unknown`.
pub const EVENT: &str = "x-wasmkeep-event";
/// Who called: `tenant/class/name`, the name percent-encoded. Absent for a client.
pub const CALLER: &str = "x-wasmkeep-caller";
/// Tells the front that its client asks for a WebSocket: `websocket`.
pub const UPGRADE: &str = "x-wasmkeep-upgrade";
pub const UPGRADE_WEBSOCKET: &str = "websocket";
/// In the front's answer to such a request: which actor shall have the socket. The name is
/// percent-encoded, the path is what the actor sees, with its query.
pub const HANDOFF_CLASS: &str = "x-wasmkeep-handoff-class";
pub const HANDOFF_NAME: &str = "x-wasmkeep-handoff-name";
pub const HANDOFF_PATH: &str = "x-wasmkeep-handoff-path";

/// What the SDKs' key-value and queue clients say to the actors they call.
const FREE_ON_CALLS: [&[u8]; 4] = [
    b"x-wasmkeep-kv-expect",
    b"x-wasmkeep-kv-ttl-ms",
    b"x-wasmkeep-kv-durable",
    b"x-wasmkeep-queue-delay-ms",
];

/// Dropped from what clients send and from what guests answer.
pub fn is_hosts(name: &[u8]) -> bool {
    name.get(..HOST_PREFIX.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(HOST_PREFIX))
}

/// Dropped from what guests send to other actors.
pub fn is_dropped_on_calls(name: &[u8]) -> bool {
    is_hosts(name) && !FREE_ON_CALLS.iter().any(|free| name.eq_ignore_ascii_case(free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_headers_are_known_by_their_prefix_in_any_case() {
        for hosts in ["x-wasmkeep-caller", "X-WasmKeep-Caller", "x-wasmkeep-"] {
            assert!(is_hosts(hosts.as_bytes()), "{hosts}");
        }
        for theirs in ["x-wasmkeep", "x-wasm", "wasmkeep-caller", "content-type", ""] {
            assert!(!is_hosts(theirs.as_bytes()), "{theirs}");
        }
    }

    #[test]
    fn four_of_them_may_be_sent_with_a_call() {
        for free in ["x-wasmkeep-kv-expect", "X-Wasmkeep-KV-TTL-ms", "x-wasmkeep-kv-durable"] {
            assert!(!is_dropped_on_calls(free.as_bytes()), "{free}");
        }
        assert!(!is_dropped_on_calls(b"x-wasmkeep-queue-delay-ms"));
        assert!(!is_dropped_on_calls(b"content-type"));
        for dropped in ["x-wasmkeep-caller", "x-wasmkeep-kv-expect2", "x-wasmkeep-kv"] {
            assert!(is_dropped_on_calls(dropped.as_bytes()), "{dropped}");
        }
    }
}
