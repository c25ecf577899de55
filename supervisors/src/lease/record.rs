//! `nodes/<node>`: a node's lease, and what the node tells of itself. One value a line.
//!
//! ```text
//! wasmkeep node 1
//! <node>
//! <session>
//! live | draining | released | fenced <by> <reason>
//! <number of the beat>
//! <nonce>
//! <address for other nodes>
//! <SHA-256 of the key it shows there>
//! <tenant>/<app> <class>,<class> ...
//! <version of the program>
//! <feature> ...
//! <ttl in ms> <grace in ms>
//! <actors resident> <at most> <sockets>
//! ```
//!
//! A text or list with nothing in it is `-`. Lines after these are of later programs and are ignored.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use super::session::Session;
use crate::address::{App, Class, NodeId, Tenant};
use crate::bucket::Nonce;
use crate::limits::{LEASE_BYTES_MAX, LEASE_GRACE, LEASE_TEXT_BYTES_MAX, LEASE_TTL};
use crate::one_line::in_one_line;

const FORMAT: &str = "wasmkeep node ";
const VERSION: u64 = 1;
const NONE: &str = "-";

/// Below it are all leases.
pub const LEASES: &str = "nodes/";

pub fn lease_key(node: &NodeId) -> String {
    format!("{LEASES}{node}")
}

/// None when the key is no lease's.
pub fn node_of_key(key: &str) -> Option<NodeId> {
    NodeId::parse(key.strip_prefix(LEASES)?).ok()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRecord {
    pub node: NodeId,
    pub session: Session,
    pub state: LeaseState,
    /// Of this session, from 1.
    pub beat: u64,
    /// Makes every version another.
    pub nonce: Nonce,
    /// Where other nodes reach this one.
    pub address: String,
    /// SHA-256 of the key by which they know it there.
    pub key: [u8; 32],
    pub serves: Vec<Serves>,
    /// Of the program.
    pub version: String,
    /// Words for what the program can do beyond the first version.
    pub features: Vec<String>,
    /// What the writer goes by; who watches it goes by these numbers too.
    pub ttl: Duration,
    pub grace: Duration,
    pub load: Load,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    Live,
    /// As live, but it acquires nothing more.
    Draining,
    /// Ended by the node itself.
    Released,
    /// Ended by another, or for an operator.
    Fenced {
        by: NodeId,
        reason: String,
    },
}

/// The classes of one app that a node runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serves {
    pub tenant: Tenant,
    pub app: App,
    pub classes: Vec<Class>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Resident actors.
    pub resident: u64,
    /// The most there may be.
    pub capacity: u64,
    pub sockets: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LeaseRecordError {
    #[error("it is no lease of a node")]
    Foreign,
    #[error("a newer node wrote it (format {0})")]
    Newer(u64),
    #[error("its line {line} is wrong: {why}")]
    Line { line: usize, why: &'static str },
    #[error("it is longer than {LEASE_BYTES_MAX} bytes")]
    TooLong,
}

impl LeaseState {
    /// Its holds may be valid.
    pub fn is_acting(&self) -> bool {
        matches!(self, LeaseState::Live | LeaseState::Draining)
    }
}

impl LeaseRecord {
    /// Unchanged for so long, the lease is suspect. Never less than this node's own number: a writer
    /// that goes by a smaller one gives no cause to hurry.
    pub fn suspect_after(&self) -> Duration {
        self.ttl.max(LEASE_TTL)
    }

    /// Unchanged for so long, it has expired.
    pub fn expired_after(&self) -> Duration {
        self.suspect_after().saturating_add(self.grace.max(LEASE_GRACE))
    }

    pub fn encode(&self) -> Bytes {
        let mut key = String::with_capacity(64);
        for byte in self.key {
            let _ = write!(key, "{byte:02x}");
        }
        let features: Vec<&str> =
            self.features.iter().map(String::as_str).filter(|word| is_word(word)).collect();
        let lines = [
            format!("{FORMAT}{VERSION}"),
            self.node.to_string(),
            self.session.to_string(),
            state_line(&self.state),
            self.beat.to_string(),
            self.nonce.to_string(),
            text_line(&self.address),
            key,
            serves_line(&self.serves),
            text_line(&self.version),
            if features.is_empty() { NONE.to_owned() } else { features.join(" ") },
            format!("{} {}", self.ttl.as_millis(), self.grace.as_millis()),
            format!("{} {} {}", self.load.resident, self.load.capacity, self.load.sockets),
        ];
        let mut text = lines.join("\n");
        text.push('\n');
        Bytes::from(text)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, LeaseRecordError> {
        if bytes.len() > LEASE_BYTES_MAX {
            return Err(LeaseRecordError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| LeaseRecordError::Foreign)?;
        let mut lines = Lines { rest: text, line: 0 };
        let format = lines.next("it is missing")?.strip_prefix(FORMAT).and_then(number);
        match format.ok_or(LeaseRecordError::Foreign)? {
            VERSION => {}
            newer if newer > VERSION => return Err(LeaseRecordError::Newer(newer)),
            _ => return Err(LeaseRecordError::Foreign),
        }
        let node = lines.read("it is no node's name", |text| NodeId::parse(text).ok())?;
        let session = lines.parse("it is no session")?;
        let state = lines.read("it is no state", read_state)?;
        let beat = lines.read("it is no number", number)?;
        let nonce = lines.parse("it is no nonce")?;
        let address = lines.read("it is no text", read_text)?;
        let key = lines.read("it is no hash", read_hash)?;
        let serves = lines.read("it is no list of apps and classes", read_serves)?;
        let version = lines.read("it is no text", read_text)?;
        let features = lines.read("it is no list of words", read_features)?;
        let [ttl, grace] = lines.read("it has not two numbers", numbers)?;
        let [resident, capacity, sockets] = lines.read("it has not three numbers", numbers)?;
        let (ttl, grace) = (Duration::from_millis(ttl), Duration::from_millis(grace));
        let load = Load { resident, capacity, sockets };
        Ok(Self {
            node,
            session,
            state,
            beat,
            nonce,
            address,
            key,
            serves,
            version,
            features,
            ttl,
            grace,
            load,
        })
    }
}

struct Lines<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self, why: &'static str) -> Result<&'a str, LeaseRecordError> {
        self.line += 1;
        let (line, rest) =
            self.rest.split_once('\n').ok_or(LeaseRecordError::Line { line: self.line, why })?;
        self.rest = rest;
        Ok(line)
    }

    fn read<T>(
        &mut self,
        why: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, LeaseRecordError> {
        let line = self.next("it is missing or cut")?;
        read(line).ok_or(LeaseRecordError::Line { line: self.line, why })
    }

    fn parse<T: FromStr>(&mut self, why: &'static str) -> Result<T, LeaseRecordError> {
        self.read(why, |text| text.parse().ok())
    }
}

/// As `to_string` writes it, and no other way.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let numbers: Vec<u64> = text.split(' ').map(number).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// A text as one line that says the same when it is read and written again.
fn text_line(text: &str) -> String {
    let mut line = in_one_line(text).replace('\t', " ");
    line.truncate(line.floor_char_boundary(LEASE_TEXT_BYTES_MAX));
    match line.trim() {
        "" => NONE.to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

fn read_text(line: &str) -> Option<String> {
    let text = if line == NONE { "" } else { line };
    (text_line(text) == line).then(|| text.to_owned())
}

fn state_line(state: &LeaseState) -> String {
    match state {
        LeaseState::Live => "live".to_owned(),
        LeaseState::Draining => "draining".to_owned(),
        LeaseState::Released => "released".to_owned(),
        LeaseState::Fenced { by, reason } => format!("fenced {by} {}", text_line(reason)),
    }
}

fn read_state(line: &str) -> Option<LeaseState> {
    match line {
        "live" => Some(LeaseState::Live),
        "draining" => Some(LeaseState::Draining),
        "released" => Some(LeaseState::Released),
        fenced => {
            let (by, reason) = fenced.strip_prefix("fenced ")?.split_once(' ')?;
            let by = NodeId::parse(by).ok()?;
            Some(LeaseState::Fenced { by, reason: read_text(reason)? })
        }
    }
}

fn read_hash(line: &str) -> Option<[u8; 32]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if line.len() != 64 || !line.bytes().all(is_digit) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&line[at..at + 2], 16).ok()?;
    }
    Some(hash)
}

fn serves_line(serves: &[Serves]) -> String {
    let app = |Serves { tenant, app, classes }: &Serves| {
        let classes: Vec<&str> = classes.iter().map(Class::as_str).collect();
        let classes = if classes.is_empty() { NONE.to_owned() } else { classes.join(",") };
        format!("{tenant}/{app} {classes}")
    };
    let apps: Vec<String> = serves.iter().map(app).collect();
    if apps.is_empty() { NONE.to_owned() } else { apps.join(" ") }
}

fn read_serves(line: &str) -> Option<Vec<Serves>> {
    if line == NONE {
        return Some(Vec::new());
    }
    let mut words = line.split(' ');
    let mut serves = Vec::new();
    while let Some(app) = words.next() {
        let (tenant, app) = app.split_once('/')?;
        let classes = match words.next()? {
            NONE => Vec::new(),
            classes => classes.split(',').map(Class::parse).collect::<Result<_, _>>().ok()?,
        };
        let (tenant, app) = (Tenant::parse(tenant).ok()?, App::parse(app).ok()?);
        serves.push(Serves { tenant, app, classes });
    }
    Some(serves)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text != NONE && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn read_features(line: &str) -> Option<Vec<String>> {
    if line == NONE {
        return Some(Vec::new());
    }
    line.split(' ').map(|word| is_word(word).then(|| word.to_owned())).collect()
}
