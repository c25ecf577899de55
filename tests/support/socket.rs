use std::io;
use std::net::SocketAddr;

use super::{Answer, Node, Raw};

pub const FIN: u8 = 0x80;
pub const CONTINUATION: u8 = 0x0;
pub const TEXT: u8 = 0x1;
pub const BINARY: u8 = 0x2;
pub const CLOSE: u8 = 0x8;
pub const PING: u8 = 0x9;
pub const PONG: u8 = 0xa;

/// The example of RFC 6455, with the answer that agrees to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The headers that ask for a WebSocket.
pub fn upgrade() -> String {
    format!(
        "host: test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n"
    )
}

/// A client that sends the frames it is given and hides none that it gets.
pub struct WebSocket(pub Raw);

/// One frame from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub opcode: u8,
    pub payload: Vec<u8>,
}

impl WebSocket {
    /// Opens a WebSocket at an actor's path: `probe/a?name=x`.
    #[track_caller]
    pub fn open(node: &Node, path: &str) -> Self {
        match Self::try_open(node.address(), path) {
            Ok(socket) => socket,
            Err(answer) => panic!("no WebSocket at {path}: {answer:?}"),
        }
    }

    /// Asks an actor for a WebSocket; the answer when it is another than 101.
    pub fn try_open(address: SocketAddr, path: &str) -> Result<Self, Answer> {
        Self::try_open_at(address, &format!("/actor/{path}"), "")
    }

    /// Asks for a WebSocket at a path of the node, with more headers.
    pub fn try_open_at(address: SocketAddr, path: &str, headers: &str) -> Result<Self, Answer> {
        let mut raw = Raw::connect(address);
        raw.send(format!("GET {path} HTTP/1.1\r\n{}{headers}\r\n", upgrade()));
        let head = raw.head().expect("an answer");
        if head.status != 101 {
            let body = raw.rest();
            return Err(Answer { body, ..head });
        }
        for (name, value) in
            [("upgrade", "websocket"), ("connection", "upgrade"), ("sec-websocket-accept", ACCEPT)]
        {
            assert_eq!(head.header(name), Some(value), "{head:?}");
        }
        for absent in ["sec-websocket-extensions", "sec-websocket-protocol", "transfer-encoding"] {
            assert_eq!(head.header(absent), None, "{head:?}");
        }
        Ok(Self(raw))
    }

    /// Sends one masked frame, whatever it is.
    pub fn send(&mut self, first: u8, payload: &[u8]) -> &mut Self {
        self.0.send(masked(first, payload));
        self
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.send(FIN | TEXT, text.as_bytes())
    }

    pub fn close(&mut self, code: u16, reason: &str) -> &mut Self {
        self.send(FIN | CLOSE, &[&code.to_be_bytes(), reason.as_bytes()].concat())
    }

    /// The next frame. The server's are whole and not masked.
    pub fn frame(&mut self) -> io::Result<Frame> {
        let head = self.0.bytes(2)?;
        assert_eq!(head[0] & 0xf0, FIN, "a server's frame is whole and uses no extension");
        let length = match head[1] {
            length @ 0..126 => usize::from(length),
            126 => self.0.bytes(2)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
            127 => self.0.bytes(8)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
            _ => panic!("a server's frame is not masked"),
        };
        Ok(Frame { opcode: head[0] & 0x0f, payload: self.0.bytes(length)? })
    }

    /// The next frame, which is a text.
    #[track_caller]
    pub fn next_text(&mut self) -> String {
        let frame = self.frame().expect("a frame");
        assert_eq!(frame.opcode, TEXT, "{frame:?}");
        String::from_utf8(frame.payload).expect("a text of UTF-8")
    }

    /// The next frame, which is a close: its code, 1005 without one, and its reason.
    #[track_caller]
    pub fn closed(&mut self) -> (u16, String) {
        let frame = self.frame().expect("a frame");
        assert_eq!(frame.opcode, CLOSE, "{frame:?}");
        let Some((code, reason)) = frame.payload.split_first_chunk() else {
            return (1005, String::new());
        };
        (u16::from_be_bytes(*code), String::from_utf8(reason.to_vec()).expect("UTF-8"))
    }

    /// The connection ends in the regular way, without another frame.
    #[track_caller]
    pub fn ends(&mut self) {
        let rest = self.0.rest_to_its_end().expect("a regular end");
        assert_eq!(rest, b"", "nothing follows a close");
    }

    /// Sends a text and waits until it has come back.
    #[track_caller]
    pub fn echoes(&mut self, text: &str) {
        self.text(text);
        assert_eq!(self.next_text(), text);
    }
}

/// The bytes of a client's frame.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..126 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}
