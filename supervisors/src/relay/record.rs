//! The head of an event between two nodes, as one header of an HTTP request.
//!
//! What a client or a guest wrote stands within it, so no header of theirs can be taken for the
//! host's, none steers the connection between the nodes, and none is lost on the way.

use bytes::Bytes;
use thiserror::Error;

use super::bytes::{Writer, from_header, to_header};
use crate::address::{ActorName, Address, Class, Tenant};
use crate::event::{Caller, Hops, OpenRequest, RequestHead};
use crate::limits::RELAY_HEAD_BYTES_MAX;

/// The header that has all of it.
pub const HOP: &str = "x-wasmkeep-hop";
pub const RELAY_PATH: &str = "/_wasmkeep/relay";
pub const SOCKET_PATH: &str = "/_wasmkeep/socket";
pub const HELLO_PATH: &str = "/_wasmkeep/hello";
pub const TAKE_PATH: &str = "/_wasmkeep/take";

/// Everything about an event but its body.
#[derive(Debug, Clone)]
pub struct Hop {
    /// The present one counted.
    pub hops: Hops,
    pub address: Address,
    pub caller: Caller,
    pub carried: Carried,
}

/// What is passed on.
#[derive(Debug, Clone)]
pub enum Carried {
    Request(RequestHead),
    Alarm,
    Socket(OpenRequest),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HopError {
    #[error("the head and the chain of callers together are larger than nodes pass on")]
    TooLarge,
    #[error("the hop is of another version")]
    OtherVersion,
    #[error("the hop breaks off or holds what cannot be")]
    Malformed,
    #[error("the event was passed on too often")]
    TooManyHops,
}

const REQUEST: u8 = 0;
const ALARM: u8 = 1;
const SOCKET: u8 = 2;

impl Hop {
    /// As the value of a header.
    pub fn encode(&self) -> Result<String, HopError> {
        let mut to = Writer(Vec::with_capacity(1024));
        to.0.push(self.hops.count());
        to.address(&self.address);
        to.caller(&self.caller);
        match &self.carried {
            Carried::Request(head) => {
                to.0.push(REQUEST);
                to.bytes(head.method.as_bytes());
                to.bytes(head.path.as_bytes());
                to.bytes(head.authority.as_bytes());
                to.headers(&head.headers);
            }
            Carried::Alarm => to.0.push(ALARM),
            Carried::Socket(request) => {
                to.0.push(SOCKET);
                to.bytes(request.path.as_bytes());
                to.headers(&request.headers);
            }
        }
        to_header(&to, RELAY_HEAD_BYTES_MAX)
    }

    /// Reads what another node wrote. What follows the fields known here is a newer node's.
    pub fn decode(text: &[u8]) -> Result<Self, HopError> {
        let mut from = from_header(text, RELAY_HEAD_BYTES_MAX)?;
        let hops = Hops::counted(from.byte()?).ok_or(HopError::TooManyHops)?;
        let address = from.address()?;
        let caller = from.caller()?;
        let carried = match from.byte()? {
            REQUEST => Carried::Request(RequestHead {
                method: from.text()?,
                path: from.text()?,
                authority: from.text()?,
                headers: from.headers()?,
            }),
            ALARM => Carried::Alarm,
            SOCKET => Carried::Socket(OpenRequest { path: from.text()?, headers: from.headers()? }),
            _ => return Err(HopError::Malformed),
        };
        Ok(Self { hops, address, caller, carried })
    }
}

/// Actors, one a line.
pub fn encode_actors(actors: &[Address]) -> Bytes {
    actors.iter().map(|actor| format!("{actor}\n")).collect::<String>().into()
}

pub fn decode_actors(text: &[u8]) -> Result<Vec<Address>, HopError> {
    let text = std::str::from_utf8(text).map_err(|_| HopError::Malformed)?;
    text.lines().map(actor_of_line).collect::<Option<_>>().ok_or(HopError::Malformed)
}

fn actor_of_line(line: &str) -> Option<Address> {
    let mut parts = line.split('/');
    let tenant = Tenant::parse(parts.next()?).ok()?;
    let class = Class::parse(parts.next()?).ok()?;
    let name = ActorName::from_url_segment(parts.next()?).ok()?;
    parts.next().is_none().then_some(Address { tenant, class, name })
}
