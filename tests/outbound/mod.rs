//! Requests that actors send, to servers outside the node.

mod bodies;
mod limits;
mod reach;
mod tls;

use serde_json::Value as Json;

use crate::support::{Actor, Node};

/// A node whose actors may reach this machine.
fn open_node() -> Node {
    Node::probe().flag("--allow-outbound", "127.0.0.0/8").start()
}

/// Has the actor fetch a URL; what came of it.
#[track_caller]
fn fetch(actor: &Actor, url: &str) -> Json {
    actor.get(&asking("/fetch", url)).json()
}

/// What came of it, when the guest waits so long for each step.
#[track_caller]
fn fetch_within(actor: &Actor, url: &str, ms: u64) -> Json {
    actor.get(&format!("{}&timeout_ms={ms}", asking("/fetch", url))).json()
}

/// `/route?url=…`
fn asking(route: &str, url: &str) -> String {
    let mut encoded = String::new();
    for byte in url.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'/' | b':' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02x}"),
        }
    }
    format!("{route}?url={encoded}")
}

/// No request is open any more.
#[track_caller]
fn none_open(node: &Node) {
    crate::support::eventually("no outbound request is open", || {
        node.metric("wasmkeep_outbound_open_requests", &[]) == 0.0
    });
}
