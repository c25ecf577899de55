//! The actor's WebSockets.
//!
//! The host owns them: they stay open while the actor sleeps, and the next message wakes it. So
//! nothing about a socket may live in memory alone; what belongs to one, such as who it is, goes
//! into its [attachment](Socket::set_attachment).
//!
//! ```no_run
//! # use wasmkeep_sdk::{Actor, Request, Response, Result};
//! use wasmkeep_sdk::websockets::{self, Message, OpenRequest, Socket};
//!
//! # #[derive(Default)]
//! # struct Room;
//! impl Actor for Room {
//! #   fn request(&mut self, _: Request) -> Result<Response> { Ok(Response::not_found()) }
//!     fn socket_open(&mut self, socket: Socket, request: OpenRequest) -> Result<()> {
//!         let name = request.query("name").unwrap_or_else(|| "somebody".to_owned());
//!         socket.set_attachment(name.as_bytes())?;
//!         Ok(())
//!     }
//!
//!     fn socket_message(&mut self, _: Socket, message: Message) -> Result<()> {
//!         websockets::broadcast(&message);
//!         Ok(())
//!     }
//! }
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::wasmkeep::actor::websockets as host;
use crate::error::json_of_client;
use crate::front::Caller;
use crate::{Headers, Result, front, target};

/// One WebSocket of this actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Socket {
    id: u64,
}

/// A message, to or from a client: at most 1 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Vec<u8>),
}

impl Message {
    /// A value written as JSON: a text message.
    ///
    /// ```
    /// # use wasmkeep_sdk::{json, websockets::Message};
    /// let message = Message::json(&json!({ "n": 1 })).expect("a map with keys that are strings");
    /// assert_eq!(message, Message::Text(r#"{"n":1}"#.to_owned()));
    /// ```
    pub fn json(value: &(impl Serialize + ?Sized)) -> Result<Self> {
        Ok(Message::Text(serde_json::to_string(value)?))
    }

    /// The message read as JSON. What does not fit: an error that says why, for its
    /// [`message`](crate::Error::message) to be sent back.
    ///
    /// ```
    /// # use wasmkeep_sdk::websockets::Message;
    /// #[derive(serde::Deserialize)]
    /// struct Move { x: u32, y: u32 }
    ///
    /// let message = Message::Text(r#"{"x":1,"y":2}"#.to_owned());
    /// assert!(message.parse_json::<Move>().is_ok_and(|at| at.x == 1 && at.y == 2));
    /// ```
    pub fn parse_json<T: DeserializeOwned>(&self) -> Result<T> {
        let bytes = match self {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
        };
        json_of_client("the message", bytes)
    }
}

/// The actor's accepted, open sockets. One that is being opened is not among them until
/// [`socket_open`](crate::Actor::socket_open) has returned.
pub fn connections() -> Vec<Socket> {
    host::connections().into_iter().map(Socket::from_id).collect()
}

/// Sends a message to every socket, and says how many took it: the others have just left, or do
/// not keep up ([`SendError::Backpressure`]).
pub fn broadcast(message: &Message) -> usize {
    let sent = |socket: &Socket| socket.send(message).is_ok();
    connections().iter().filter(|socket| sent(socket)).count()
}

impl Socket {
    /// The socket with an id that was kept, say in a table. One that has ended is
    /// [`Closed`](SendError::Closed) to every operation.
    pub fn from_id(id: u64) -> Self {
        Socket { id }
    }

    /// The id: stable for the socket's life, also across sleep, and never used again.
    pub fn id(self) -> u64 {
        self.id
    }

    /// Queues a message for the client.
    pub fn send(self, message: &Message) -> Result<(), SendError> {
        host::send(self.id, message).map_err(|error| match error {
            host::SendError::Closed => SendError::Closed,
            host::SendError::Backpressure => SendError::Backpressure,
            host::SendError::TooLarge => SendError::TooLarge,
        })
    }

    /// Queues a text message for the client.
    pub fn send_text(self, text: impl Into<String>) -> Result<(), SendError> {
        self.send(&Message::Text(text.into()))
    }

    /// Queues a binary message for the client.
    pub fn send_binary(self, bytes: impl Into<Vec<u8>>) -> Result<(), SendError> {
        self.send(&Message::Binary(bytes.into()))
    }

    /// Closes the socket; [`socket_close`](crate::Actor::socket_close) follows. 1000 is an
    /// ordinary end, 1008 a broken rule, 3000 to 4999 are yours. The reason: at most 123 bytes.
    pub fn close(self, code: u16, reason: &str) -> Result<(), CloseError> {
        host::close(self.id, code, reason).map_err(|error| match error {
            host::CloseError::Closed => CloseError::Closed,
            host::CloseError::InvalidCode => CloseError::InvalidCode,
            host::CloseError::ReasonTooLong => CloseError::ReasonTooLong,
        })
    }

    /// The bytes kept with the socket, also across sleep and inside
    /// [`socket_close`](crate::Actor::socket_close). Empty at first; `None` for one that is gone.
    pub fn attachment(self) -> Option<Vec<u8>> {
        host::attachment(self.id)
    }

    /// Replaces the bytes kept with the socket: at most 2 KiB.
    pub fn set_attachment(self, bytes: &[u8]) -> Result<(), AttachmentError> {
        host::set_attachment(self.id, bytes).map_err(|error| match error {
            host::AttachmentError::Closed => AttachmentError::Closed,
            host::AttachmentError::TooLarge => AttachmentError::TooLarge,
        })
    }
}

/// The upgrade a client asked for.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    target: String,
    headers: Headers,
}

impl OpenRequest {
    /// The path below the actor's address.
    pub fn path(&self) -> &str {
        target::path(&self.target)
    }

    /// Path and query as they came.
    pub fn path_and_query(&self) -> &str {
        &self.target
    }

    /// The path's segments, percent-decoded.
    pub fn segments(&self) -> Vec<String> {
        let segments = target::segments(self.path()).into_iter();
        segments.map(|segment| segment.into_owned()).collect()
    }

    /// The first value of a query parameter, percent-decoded.
    pub fn query(&self, name: &str) -> Option<String> {
        let mut pairs = target::query_pairs(&self.target).into_iter();
        pairs.find_map(|(have, value)| (have == name).then_some(value))
    }

    /// The first value of a header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// Whether the front handed this socket over, or a client asked at the actor's own path. The
    /// host says it, and nobody else can.
    pub fn caller(&self) -> Caller {
        self.header(front::CALLER).map_or(Caller::Outside, front::caller_of)
    }

    /// Every header.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }
}

impl From<host::OpenRequest> for OpenRequest {
    fn from(request: host::OpenRequest) -> Self {
        OpenRequest { target: request.path, headers: Headers::from(request.headers) }
    }
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The socket is not open.
    #[error("the socket is not open")]
    Closed,
    /// 256 messages or 4 MiB wait for this client already: this one was dropped for it.
    #[error("the client does not keep up: the message was dropped")]
    Backpressure,
    /// The message is larger than 1 MiB.
    #[error("the message is larger than 1 MiB")]
    TooLarge,
}

/// Why a socket was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// The socket is not open.
    #[error("the socket is not open")]
    Closed,
    /// No peer may send this code: below 1000, 1004 to 1006, 1012 to 2999, above 4999.
    #[error("no peer may send this close code")]
    InvalidCode,
    /// The reason is longer than 123 bytes.
    #[error("the reason is longer than 123 bytes")]
    ReasonTooLong,
}

/// Why an attachment was not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachmentError {
    /// The socket is not open.
    #[error("the socket is not open")]
    Closed,
    /// More than 2 KiB. The attachment is as it was.
    #[error("the attachment is larger than 2 KiB")]
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_request_is_read_like_a_request() {
        let request = OpenRequest {
            target: "/rooms/a%20b?name=J%C3%B8rn".to_owned(),
            headers: Headers::from(vec![("origin".to_owned(), b"https://x".to_vec())]),
        };
        assert_eq!(request.path(), "/rooms/a%20b");
        assert_eq!(request.segments(), ["rooms", "a b"]);
        assert_eq!(request.query("name").as_deref(), Some("Jørn"));
        assert_eq!(request.header("Origin"), Some("https://x"));
    }
}
