//! Which headers are the host's. Pure.

/// Names that only the host may say anything with.
const HOST_PREFIX: &[u8] = b"x-wasmkeep-";

/// Why the host answered instead of the actor: a word of `Reason`.
pub const REASON: &str = "x-wasmkeep-reason";
/// Whether the event ran: `not-run`, `ran` or `unknown`.
pub const EVENT: &str = "x-wasmkeep-event";

pub fn is_hosts(name: &[u8]) -> bool {
    name.get(..HOST_PREFIX.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(HOST_PREFIX))
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
}
