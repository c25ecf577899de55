use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tungstenite::protocol::CloseFrame;
use tungstenite::{Error, Message};

use crate::PATIENCE;

/// A WebSocket of a client. Pings of the server are answered while it is read.
#[derive(Debug)]
pub struct WebSocket(tungstenite::WebSocket<TcpStream>);

/// How a WebSocket was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The close code; 1005 when there was none, 1006 when the connection was lost.
    pub code: u16,
    /// The reason, often empty.
    pub reason: String,
}

impl WebSocket {
    #[track_caller]
    pub(crate) fn open(url: &str, path: &str) -> Self {
        let address = url.trim_start_matches("http://");
        let stream = TcpStream::connect(address).expect("connect to the node");
        stream.set_read_timeout(Some(PATIENCE)).expect("set an option of a socket");
        match tungstenite::client(format!("ws://{address}{path}"), stream) {
            Ok((socket, _)) => Self(socket),
            Err(error) => panic!("no WebSocket at {path}: {error}"),
        }
    }

    /// Sends a text message.
    #[track_caller]
    pub fn send(&mut self, text: impl Into<String>) {
        self.0.send(Message::text(text.into())).expect("the message is sent");
    }

    /// Sends a binary message.
    #[track_caller]
    pub fn send_binary(&mut self, bytes: impl Into<Vec<u8>>) {
        self.0.send(Message::binary(bytes.into())).expect("the message is sent");
    }

    /// The next message, which is a text.
    #[track_caller]
    pub fn next_text(&mut self) -> String {
        match self.read() {
            Ok(Message::Text(text)) => text.to_string(),
            other => panic!("a text was expected: {other:?}"),
        }
    }

    /// The next message, which is a text, read as JSON.
    #[track_caller]
    pub fn next_json<T: DeserializeOwned>(&mut self) -> T {
        let text = self.next_text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The next message, which is binary.
    #[track_caller]
    pub fn next_binary(&mut self) -> Vec<u8> {
        match self.read() {
            Ok(Message::Binary(bytes)) => bytes.to_vec(),
            other => panic!("a binary message was expected: {other:?}"),
        }
    }

    /// Whether no message comes for so long.
    #[track_caller]
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        self.0.get_ref().set_read_timeout(Some(time)).expect("set an option of a socket");
        let read = self.read();
        self.0.get_ref().set_read_timeout(Some(PATIENCE)).expect("set an option of a socket");
        matches!(read, Err(Error::Io(error)) if is_timeout(error.kind()))
    }

    /// Waits until the server closes, whatever comes before.
    #[track_caller]
    pub fn closed(&mut self) -> Closed {
        loop {
            match self.read() {
                Ok(Message::Close(frame)) => return Closed::from(frame),
                Ok(_) => {}
                Err(Error::Io(error)) if is_timeout(error.kind()) => {
                    panic!("the socket is not closed within {PATIENCE:?}")
                }
                Err(_) => return Closed { code: 1006, reason: String::new() },
            }
        }
    }

    /// Closes, and waits for the server's answer to that.
    #[track_caller]
    pub fn close(mut self, code: u16, reason: &str) {
        let frame = CloseFrame { code: code.into(), reason: reason.to_owned().into() };
        self.0.close(Some(frame)).expect("the close is sent");
        self.closed();
    }

    fn read(&mut self) -> Result<Message, Error> {
        loop {
            match self.0.read() {
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                read => return read,
            }
        }
    }
}

impl From<Option<CloseFrame>> for Closed {
    fn from(frame: Option<CloseFrame>) -> Self {
        match frame {
            Some(frame) => Self { code: frame.code.into(), reason: frame.reason.to_string() },
            None => Self { code: 1005, reason: String::new() },
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
