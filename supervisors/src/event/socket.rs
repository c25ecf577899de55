//! What reaches an actor from a WebSocket.

use std::fmt;

use bytes::Bytes;
use thiserror::Error;

use super::{Caller, Header};

/// One socket of an actor: stable for the socket's life, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message, to or from a client. Clones share its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Always UTF-8.
    Text(Utf8),
    Binary(Bytes),
}

/// Bytes that are UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utf8(Bytes);

impl Utf8 {
    /// None when the bytes are no UTF-8.
    pub fn checked(bytes: Bytes) -> Option<Self> {
        std::str::from_utf8(&bytes).is_ok().then_some(Self(bytes))
    }

    pub fn into_string(self) -> String {
        String::from_utf8(Vec::from(self.0)).expect("checked when it was made")
    }
}

impl From<String> for Utf8 {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl Message {
    pub fn bytes(&self) -> &Bytes {
        match self {
            Message::Text(Utf8(bytes)) | Message::Binary(bytes) => bytes,
        }
    }

    pub fn is_text(&self) -> bool {
        matches!(self, Message::Text(_))
    }

    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }
}

/// How a socket ends: a code and a reason of at most 123 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    pub code: u16,
    pub reason: String,
}

impl Closing {
    pub fn new(code: u16, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

/// The upgrade a client asked for.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// Path and query below the actor's address.
    pub path: String,
    pub headers: Vec<Header>,
}

/// What happened to a socket.
#[derive(Debug, Clone)]
pub enum SocketEvent {
    Open(OpenRequest),
    Message(Message),
    Close(Closing),
}

/// An event of a socket, for the actor whose socket it is.
#[derive(Debug)]
pub struct SocketTask {
    pub socket: SocketId,
    /// Who opened it: all its events come as from there.
    pub caller: Caller,
    pub event: SocketEvent,
    /// Other messages came together with this one and wait with the socket.
    pub followed: bool,
}

/// Why a message was not queued. The cases are those of `send-error` in `wit/websockets.wit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    #[error("closed")]
    Closed,
    #[error("backpressure")]
    Backpressure,
    #[error("too-large")]
    TooLarge,
}

/// Why a socket was not closed. The cases are those of `close-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CloseError {
    #[error("closed")]
    Closed,
    #[error("invalid-code")]
    InvalidCode,
    #[error("reason-too-long")]
    ReasonTooLong,
}

/// Why an attachment is as before. The cases are those of `attachment-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AttachmentError {
    #[error("closed")]
    Closed,
    #[error("too-large")]
    TooLarge,
}
