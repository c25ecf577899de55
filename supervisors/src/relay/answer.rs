//! The head of an answer on its way back: one header of an HTTP response, as `record` has it for the
//! event. What the actor wrote stands within it; the response's own status and headers say nothing
//! to the node that reads it. Pure.

use super::bytes::{Writer, from_header, to_header};
use super::record::HopError;
use crate::address::NodeId;
use crate::event::{Header, Ran, Reason, Refusal};
use crate::limits::RELAY_ANSWER_BYTES_MAX;

/// The header that has all of it.
pub const ANSWER: &str = "x-wasmkeep-answer";

/// What a node says to an event of another. The body of an actor's answer follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Reply {
        status: u16,
        headers: Vec<Header>,
    },
    Refused(Refusal),
    /// It has not run: this node has the actor.
    Elsewhere(NodeId),
    /// Nothing that comes so is taken. It has not run.
    NotTaken(HopRefused),
}

/// Why a node takes nothing of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopRefused {
    /// No live lease that it knows has the other's key.
    Stranger,
    NotUnderstood,
}

/// What a refusal says is for people. A guest may have written it.
const DETAIL_BYTES_MAX: usize = 16 * 1024;

fn cut(detail: &str) -> &str {
    &detail[..detail.floor_char_boundary(DETAIL_BYTES_MAX)]
}

const REPLY: u8 = 0;
const REFUSED: u8 = 1;
const ELSEWHERE: u8 = 2;
const STRANGER: u8 = 3;
const NOT_UNDERSTOOD: u8 = 4;

impl Answer {
    pub fn encode(&self) -> Result<String, HopError> {
        let mut to = Writer(Vec::with_capacity(256));
        match self {
            Answer::Reply { status, headers } => {
                to.0.push(REPLY);
                to.0.extend_from_slice(&status.to_le_bytes());
                to.headers(headers);
            }
            Answer::Refused(refusal) => {
                to.0.push(REFUSED);
                to.bytes(refusal.reason.as_str().as_bytes());
                to.bytes(refusal.ran.as_str().as_bytes());
                to.0.push(u8::from(refusal.detail.is_some()));
                to.bytes(cut(refusal.detail.as_deref().unwrap_or_default()).as_bytes());
            }
            Answer::Elsewhere(node) => {
                to.0.push(ELSEWHERE);
                to.bytes(node.as_str().as_bytes());
            }
            Answer::NotTaken(HopRefused::Stranger) => to.0.push(STRANGER),
            Answer::NotTaken(HopRefused::NotUnderstood) => to.0.push(NOT_UNDERSTOOD),
        }
        to_header(&to, RELAY_ANSWER_BYTES_MAX)
    }

    /// Reads what another node wrote. What follows the fields known here is a newer node's.
    pub fn decode(text: &[u8]) -> Result<Self, HopError> {
        let mut from = from_header(text, RELAY_ANSWER_BYTES_MAX)?;
        Ok(match from.byte()? {
            REPLY => {
                let status = u16::from_le_bytes([from.byte()?, from.byte()?]);
                Answer::Reply { status, headers: from.headers()? }
            }
            REFUSED => {
                let (reason, ran) = (from.text()?, Ran::of_word(&from.text()?));
                let reason = Reason::of_word(&reason, ran);
                let has_detail = from.byte()? != 0;
                let detail = Some(from.text()?).filter(|_| has_detail);
                Answer::Refused(Refusal { reason, ran, detail })
            }
            ELSEWHERE => {
                let node = NodeId::parse(&from.text()?).map_err(|_| HopError::Malformed)?;
                Answer::Elsewhere(node)
            }
            STRANGER => Answer::NotTaken(HopRefused::Stranger),
            NOT_UNDERSTOOD => Answer::NotTaken(HopRefused::NotUnderstood),
            _ => return Err(HopError::Malformed),
        })
    }
}
