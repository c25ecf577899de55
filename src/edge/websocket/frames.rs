//! Frames to messages, and back.

use actix_codec::Decoder;
use actix_http::ws::{Codec, Frame, Item};
use bytes::{BufMut, Bytes, BytesMut};
use wasmkeep_supervisors::event::{Closing, Message, Utf8};
use wasmkeep_supervisors::limits::SOCKET_MESSAGE_BYTES_MAX;
use wasmkeep_supervisors::socket::rules;

/// The payload of a ping, a pong or a close.
const CONTROL_BYTES_MAX: u64 = 125;
/// The head of a frame that the server sends.
pub const HEAD_BYTES_MAX: usize = 10;

/// What a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    Message(Message),
    Ping(Bytes),
    Pong,
    /// With `NO_CODE` when it had none.
    Close(Closing),
}

/// Puts messages together from the frames of one client.
pub struct Reader {
    codec: Codec,
    partial: Option<Partial>,
}

/// A message whose last frame has not come.
struct Partial {
    is_text: bool,
    bytes: BytesMut,
    /// So much of a text has been found to be UTF-8.
    checked: usize,
}

impl Reader {
    pub fn new() -> Self {
        Self { codec: Codec::new().max_size(SOCKET_MESSAGE_BYTES_MAX), partial: None }
    }

    /// The next of what a client has sent, once it is whole. An error says with what the
    /// connection has to be closed.
    pub fn next(&mut self, incoming: &mut BytesMut) -> Result<Option<Received>, Closing> {
        loop {
            self.check_length(incoming)?;
            let frame = self
                .codec
                .decode(incoming)
                .map_err(|error| broken(rules::PROTOCOL_ERROR, &error.to_string()))?;
            let Some(frame) = frame else { return Ok(None) };
            if let Some(received) = self.take(frame)? {
                return Ok(Some(received));
            }
        }
    }

    /// The codec would wait for all of a frame before it finds it too long.
    fn check_length(&self, incoming: &[u8]) -> Result<(), Closing> {
        let Some((is_control, length)) = declared(incoming) else { return Ok(()) };
        if is_control && length > CONTROL_BYTES_MAX {
            return Err(broken(rules::PROTOCOL_ERROR, "a control frame has at most 125 bytes"));
        }
        let before = self.partial.as_ref().map_or(0, |partial| partial.bytes.len() as u64);
        if !is_control && before.saturating_add(length) > SOCKET_MESSAGE_BYTES_MAX as u64 {
            return Err(broken(rules::TOO_LARGE, "a message has at most 1 MiB"));
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame) -> Result<Option<Received>, Closing> {
        let received = match frame {
            Frame::Text(bytes) => Received::Message(text(bytes)?),
            Frame::Binary(bytes) => Received::Message(Message::Binary(bytes)),
            Frame::Ping(bytes) => Received::Ping(bytes),
            Frame::Pong(_) => Received::Pong,
            Frame::Close(None) => Received::Close(Closing::new(rules::NO_CODE, "")),
            Frame::Close(Some(reason)) => {
                let text = reason.description.unwrap_or_default();
                Received::Close(Closing::new(reason.code.into(), text))
            }
            Frame::Continuation(Item::FirstText(bytes)) => {
                self.partial = Some(Partial::new(true));
                return self.continues(&bytes);
            }
            Frame::Continuation(Item::FirstBinary(bytes)) => {
                self.partial = Some(Partial::new(false));
                return self.continues(&bytes);
            }
            Frame::Continuation(Item::Continue(bytes)) => return self.continues(&bytes),
            Frame::Continuation(Item::Last(bytes)) => {
                self.continues(&bytes)?;
                let Some(partial) = self.partial.take() else { return Ok(None) };
                let bytes = partial.bytes.freeze();
                Received::Message(if partial.is_text {
                    text(bytes)?
                } else {
                    Message::Binary(bytes)
                })
            }
        };
        Ok(Some(received))
    }

    fn continues(&mut self, bytes: &[u8]) -> Result<Option<Received>, Closing> {
        let Some(partial) = &mut self.partial else { return Ok(None) };
        partial.bytes.extend_from_slice(bytes);
        if partial.is_text {
            match std::str::from_utf8(&partial.bytes[partial.checked..]) {
                Ok(_) => partial.checked = partial.bytes.len(),
                // Cut within a character, which the next frame goes on with.
                Err(error) if error.error_len().is_none() => {
                    partial.checked += error.valid_up_to();
                }
                Err(_) => return Err(not_utf8()),
            }
        }
        Ok(None)
    }
}

impl Partial {
    fn new(is_text: bool) -> Self {
        Self { is_text, bytes: BytesMut::new(), checked: 0 }
    }
}

fn text(bytes: Bytes) -> Result<Message, Closing> {
    Utf8::checked(bytes).map(Message::Text).ok_or_else(not_utf8)
}

fn not_utf8() -> Closing {
    broken(rules::NOT_UTF8, "a text is not UTF-8")
}

fn broken(code: u16, why: &str) -> Closing {
    Closing::new(code, rules::shortened(why))
}

/// Whether a frame is a control frame, and how long its payload will be, once its head says so.
pub fn declared(incoming: &[u8]) -> Option<(bool, u64)> {
    let (first, second) = (incoming.first()?, incoming.get(1)?);
    let length = match second & 0x7f {
        126 => u64::from(u16::from_be_bytes(incoming.get(2..4)?.try_into().ok()?)),
        127 => u64::from_be_bytes(incoming.get(2..10)?.try_into().ok()?),
        length => u64::from(length),
    };
    Some((first & 0x08 != 0, length))
}

const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

/// Whether a frame that begins with this byte is a close.
pub fn is_close(first: u8) -> bool {
    first & 0x0f == CLOSE
}

/// Whether a frame that begins with this byte is a message or a part of one.
pub fn is_data(first: u8) -> bool {
    first & 0x08 == 0
}

/// The head of a message's one frame. The message itself follows it.
pub fn put_message_head(frames: &mut BytesMut, message: &Message) {
    put_head(frames, if message.is_text() { TEXT } else { BINARY }, message.len());
}

pub fn ping() -> BytesMut {
    head(PING, 0)
}

pub fn pong(payload: &[u8]) -> BytesMut {
    with(PONG, payload)
}

/// A close; without a code when the code says that there was none.
pub fn close(closing: &Closing) -> BytesMut {
    if closing.code == rules::NO_CODE {
        return head(CLOSE, 0);
    }
    with(CLOSE, &[&closing.code.to_be_bytes(), closing.reason.as_bytes()].concat())
}

fn with(opcode: u8, payload: &[u8]) -> BytesMut {
    let mut frame = head(opcode, payload.len());
    frame.extend_from_slice(payload);
    frame
}

fn head(opcode: u8, length: usize) -> BytesMut {
    let mut head = BytesMut::with_capacity(HEAD_BYTES_MAX);
    put_head(&mut head, opcode, length);
    head
}

fn put_head(head: &mut BytesMut, opcode: u8, length: usize) {
    head.put_u8(0x80 | opcode);
    match length {
        0..126 => head.put_u8(length as u8),
        126..=0xffff => {
            head.put_u8(126);
            head.put_u16(length as u16);
        }
        _ => {
            head.put_u8(127);
            head.put_u64(length as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIN: u8 = 0x80;
    const MASK: [u8; 4] = [1, 2, 3, 4];

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = head(first & 0x0f, payload.len()).to_vec();
        frame[0] = first;
        frame[1] |= 0x80;
        frame.extend(MASK);
        frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    /// All that comes of the bytes, given one at a time or at once; the code it ends with.
    fn read(bytes: &[u8], at_once: bool) -> (Vec<Received>, Option<u16>) {
        let (mut reader, mut incoming) = (Reader::new(), BytesMut::new());
        let mut all = Vec::new();
        let pieces: Vec<&[u8]> = if at_once { vec![bytes] } else { bytes.chunks(1).collect() };
        for piece in pieces {
            incoming.extend_from_slice(piece);
            loop {
                match reader.next(&mut incoming) {
                    Ok(Some(received)) => all.push(received),
                    Ok(None) => break,
                    Err(closing) => return (all, Some(closing.code)),
                }
            }
        }
        (all, None)
    }

    fn text(text: &str) -> Received {
        Received::Message(Message::Text(text.to_owned().into()))
    }

    #[test]
    fn a_message_is_the_same_in_one_frame_or_in_several_with_pings_between() {
        let frames = [
            masked(FIN | TEXT, "héllo".as_bytes()),
            masked(TEXT, b"h\xc3"),
            masked(FIN | PING, b"p"),
            masked(0, b"\xa9l"),
            masked(FIN, b"lo"),
            masked(BINARY, b""),
            masked(FIN, b"\xff"),
            masked(FIN | CLOSE, b"\x0f\xa0bye"),
            masked(FIN | CLOSE, b""),
        ]
        .concat();
        for at_once in [true, false] {
            let expected = vec![
                text("héllo"),
                Received::Ping(Bytes::from_static(b"p")),
                text("héllo"),
                Received::Message(Message::Binary(Bytes::from_static(b"\xff"))),
                Received::Close(Closing::new(4000, "bye")),
                Received::Close(Closing::new(1005, "")),
            ];
            assert_eq!(read(&frames, at_once), (expected, None), "at once: {at_once}");
        }
    }

    #[test]
    fn what_breaks_the_protocol_ends_with_its_code() {
        let unmasked = with(FIN | TEXT, b"x").to_vec();
        let long = |opcode: u8, length: u64| {
            [&[FIN | opcode, 0xff][..], &length.to_be_bytes(), &MASK].concat()
        };
        let mib = SOCKET_MESSAGE_BYTES_MAX as u64;
        let fragments = [masked(BINARY, &vec![0; 1 << 19]), masked(0, &vec![0; 1 << 19])].concat();
        for (bytes, code) in [
            (unmasked, 1002),
            (masked(FIN | 0x40 | TEXT, b"x"), 1002),
            (masked(FIN | 0x3, b"x"), 1002),
            (masked(FIN | 0xb, b"x"), 1002),
            (masked(PING, b"x"), 1002),
            (masked(FIN | PING, &[0; 126]), 1002),
            (masked(FIN, b"x"), 1002),
            ([masked(TEXT, b"x"), masked(FIN | TEXT, b"x")].concat(), 1002),
            (masked(FIN | CLOSE, b"\x03"), 1002),
            (masked(FIN | CLOSE, &1005_u16.to_be_bytes()), 1002),
            (masked(FIN | CLOSE, &5000_u16.to_be_bytes()), 1002),
            (masked(FIN | TEXT, b"\xff"), 1007),
            (masked(FIN | TEXT, b"\xc3"), 1007),
            (masked(TEXT, b"a\xc3\xc3"), 1007),
            ([masked(TEXT, b"\xc3"), masked(FIN, b"")].concat(), 1007),
            // Refused by their heads alone.
            (long(BINARY, mib + 1), 1009),
            (long(BINARY, u64::MAX), 1009),
            ([fragments, long(0, 1)].concat(), 1009),
        ] {
            let start = &bytes[..bytes.len().min(16)];
            assert_eq!(read(&bytes, true).1, Some(code), "{start:?}");
        }
    }

    #[test]
    fn a_message_may_have_1_mib_and_heads_say_their_lengths() {
        let message = Message::Binary(vec![7; SOCKET_MESSAGE_BYTES_MAX].into());
        let (all, code) = read(&masked(FIN | BINARY, message.bytes()), true);
        assert_eq!((all, code), (vec![Received::Message(message)], None));
        for (length, head_length) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            assert_eq!(head(BINARY, length).len(), head_length, "{length}");
            assert_eq!(declared(&head(BINARY, length)), Some((false, length as u64)));
        }
    }
}
