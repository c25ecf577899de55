//! Who may write an actor's history: one object an actor, compared and set, never deleted.
//!
//! ```text
//! wasmkeep owner 1
//! <generation>
//! <node> <session>, or - when it is free
//! held, or free
//! next <node>, or next - : who a free one was handed to
//! <nonce>
//! <deploy that the actor ran last>
//! <name, percent-encoded>
//! ```

use std::fmt::Display;
use std::str::FromStr;

use bytes::Bytes;
use thiserror::Error;

use crate::address::{ActorName, Address, App, NodeId};
use crate::bucket::Nonce;
use crate::history::Generation;
use crate::lease::Session;

const FORMAT: &str = "wasmkeep owner ";
const VERSION: u32 = 1;
/// A record is some 500 bytes; newer ones may have more lines.
const BYTES_MAX: usize = 8 * 1024;

/// The key of an actor's record, below the bucket's own prefix.
pub fn owner_key(address: &Address, app: &App) -> String {
    let Address { tenant, class, name } = address;
    format!("state/{tenant}/{app}/owners/{class}/{}", name.stem())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRecord {
    /// Of the hold, or of the last one.
    pub generation: Generation,
    pub holder: Holder,
    pub nonce: Nonce,
    /// The deploy whose component ran last; 0 before any did.
    pub deploy_seq: u64,
    /// Keys of long names do not tell them.
    pub name: ActorName,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    Held {
        node: NodeId,
        session: Session,
    },
    /// `next` was asked to take it, and is left some time to do so.
    Free {
        next: Option<NodeId>,
    },
}

/// Why bytes are no record that can be used. Nobody may write over them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OwnerRecordError {
    #[error("a newer wasmkeep wrote it (version {0}): upgrade this node")]
    Newer(u32),
    #[error("its line {line} is wrong: {why}")]
    Line { line: usize, why: &'static str },
}

impl OwnerRecord {
    pub fn encode(&self) -> Bytes {
        let (who, state, next) = match &self.holder {
            Holder::Held { node, session } => (format!("{node} {session}"), "held", None),
            Holder::Free { next } => ("-".to_owned(), "free", next.as_ref()),
        };
        let next = next.map_or("-", NodeId::as_str);
        let Self { generation, nonce, deploy_seq, name, .. } = self;
        let name = name.percent_encoded();
        let text = format!(
            "{FORMAT}{VERSION}\n{generation}\n{who}\n{state}\nnext {next}\n{nonce}\n{deploy_seq}\n{name}\n"
        );
        Bytes::from(text)
    }

    /// Reads what `encode` writes; lines after those are a newer node's and ignored.
    pub fn decode(bytes: &[u8]) -> Result<Self, OwnerRecordError> {
        let wrong = |line, why| OwnerRecordError::Line { line, why };
        if bytes.len() > BYTES_MAX {
            return Err(wrong(1, "it is too long"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| wrong(1, "it is not UTF-8"))?;
        let mut lines = text.split_inclusive('\n').map(|line| line.strip_suffix('\n'));
        let mut next = |line| lines.next().flatten().ok_or(wrong(line, "it is missing or cut"));
        let version = next(1)?.strip_prefix(FORMAT).and_then(exactly::<u32>);
        match version.ok_or(wrong(1, "it is no ownership record"))? {
            VERSION => {}
            newer if newer > VERSION => return Err(OwnerRecordError::Newer(newer)),
            _ => return Err(wrong(1, "there is no such version")),
        }
        let generation = exactly(next(2)?).and_then(Generation::new);
        let generation = generation.ok_or(wrong(2, "a generation counts from 1"))?;
        let who = who(next(3)?).ok_or(wrong(3, "neither a node and its session nor -"))?;
        let state = next(4)?;
        let to = next(5)?.strip_prefix("next ").ok_or(wrong(5, "it does not say who is next"))?;
        let to = match to {
            "-" => None,
            node => Some(node.parse().map_err(|_| wrong(5, "it names no node"))?),
        };
        let holder = match (state, who, to) {
            ("held", Some((node, session)), None) => Holder::Held { node, session },
            ("free", None, next) => Holder::Free { next },
            _ => return Err(wrong(4, "it is neither held by one nor free")),
        };
        let nonce = next(6)?.parse().map_err(|_| wrong(6, "it is no nonce"))?;
        let deploy_seq = exactly(next(7)?).ok_or(wrong(7, "it is no number"))?;
        let written = next(8)?;
        let name = ActorName::from_url_segment(written).ok();
        let name = name.filter(|name| name.percent_encoded() == written);
        let name = name.ok_or(wrong(8, "it is no actor's name"))?;
        Ok(Self { generation, holder, nonce, deploy_seq, name })
    }
}

fn who(line: &str) -> Option<Option<(NodeId, Session)>> {
    if line == "-" {
        return Some(None);
    }
    let (node, session) = line.split_once(' ')?;
    Some(Some((node.parse().ok()?, session.parse().ok()?)))
}

/// A number that is written in the one way there is: no sign, no zeros before it.
fn exactly<N: FromStr + Display>(text: &str) -> Option<N> {
    text.parse().ok().filter(|number: &N| number.to_string() == text)
}
