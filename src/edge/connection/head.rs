//! The head of the next request.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use actix_codec::Decoder;
use actix_http::error::ParseError;
use actix_http::h1::{Message, MessageType};
use actix_http::header::{CONTENT_LENGTH, HOST};
use actix_http::uri::Authority;
use actix_http::{HttpMessage, Payload, Request, StatusCode};
use bytes::Buf;
use tokio::time::Instant;
use wasmkeep_supervisors::event::{Reason, Refusal};
use wasmkeep_supervisors::limits::HEAD_WAIT;

use super::rest::Rest;
use super::{Connection, HEAD_ROOM};
use crate::edge::stream::Stream;

/// Why there is no further request on a connection.
pub enum NoRequest {
    /// Its client is gone, or was idle for too long.
    Left,
    Refused(StatusCode, Refusal),
}

impl<S: Stream> Connection<S> {
    /// Reads the next request's head.
    pub(super) async fn next_request(
        &mut self,
        patience: Duration,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Request, NoRequest> {
        let mut deadline = Instant::now() + patience;
        let mut begun = false;
        let mut scanned = 0;
        loop {
            while let Some(b'\r' | b'\n') = self.wire.incoming.first().filter(|_| !begun) {
                self.wire.incoming.advance(1);
            }
            // A head ends with a line: without a new one there is nothing new to parse.
            let incoming = &self.wire.incoming;
            if is_too_large(incoming, self.head_bytes_max) {
                return Err(unparsed(&ParseError::TooLarge));
            }
            if incoming[scanned..].contains(&b'\n') {
                match self.codec.decode(&mut self.wire.incoming) {
                    Ok(Some(Message::Item(request))) => return self.take(request),
                    Ok(Some(Message::Chunk(_))) => return Err(NoRequest::Left),
                    Ok(None) => {}
                    Err(error) => return Err(unparsed(&error)),
                }
            }
            scanned = self.wire.incoming.len();
            if !begun && scanned > 0 {
                begun = true;
                deadline = deadline.min(Instant::now() + HEAD_WAIT);
            }
            poll_fn(|context| {
                if let Poll::Ready(read) = self.wire.poll_fill(context, HEAD_ROOM) {
                    return Poll::Ready(match read {
                        Ok(1..) => Ok(()),
                        Ok(0) | Err(_) => Err(NoRequest::Left),
                    });
                }
                if !begun && stop.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(NoRequest::Left));
                }
                self.wire
                    .poll_deadline(context, deadline)
                    .map(|()| Err(if begun { head_too_slow() } else { NoRequest::Left }))
            })
            .await?;
        }
    }

    /// Notes what is to come of a request, and lends its handler the body.
    fn take(&mut self, mut request: Request) -> Result<Request, NoRequest> {
        self.rest = Rest::of(request.version());
        if let Some(host) = request.headers().get(HOST)
            && !is_a_host(host.as_bytes())
        {
            return Err(bad("the Host header is no host"));
        }
        match self.codec.message_type() {
            MessageType::None => {}
            MessageType::Payload => {
                let pieces = self.rest.open(request.head().expect());
                *request.payload() = Payload::Stream { payload: Box::pin(pieces) };
            }
            MessageType::Stream => {
                // The codec takes all that follows for the other protocol's, whatever is declared.
                if request.head().headers().get(CONTENT_LENGTH).is_some_and(|length| length != "0")
                {
                    return Err(bad("a request for another protocol has no body"));
                }
                let pieces = self.rest.upgrade();
                *request.payload() = Payload::Stream { payload: Box::pin(pieces) };
            }
        }
        Ok(request)
    }
}

/// Whether no head ends within what one may have. The codec takes more, and panics at a header's
/// name of 64 KiB.
fn is_too_large(incoming: &[u8], bytes_max: usize) -> bool {
    let ends = |head: &[u8]| {
        let line_ends = head.windows(3).filter(|bytes| bytes[0] == b'\n');
        line_ends.map(|bytes| &bytes[1..]).any(|next| next[0] == b'\n' || next == b"\r\n")
    };
    incoming.len() > bytes_max && !ends(&incoming[..bytes_max])
}

/// Empty where a client knows of none.
fn is_a_host(host: &[u8]) -> bool {
    host.is_empty() || (!host.contains(&b'@') && Authority::try_from(host).is_ok())
}

fn unparsed(error: &ParseError) -> NoRequest {
    match error {
        ParseError::TooLarge => NoRequest::Refused(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Refusal::not_run(Reason::BadRequest)
                .with_detail("the request's head is larger than 64 KiB or has over 96 headers"),
        ),
        ParseError::Uri(error) => bad(format!("the request's target is malformed: {error}")),
        ParseError::Method | ParseError::Version => {
            bad("the request does not begin with a method, a target and HTTP/1.1")
        }
        _ => bad(
            "a header is malformed, missing (Host), given twice (Host, Content-Length) or at odds \
             with another (Content-Length with Transfer-Encoding)",
        ),
    }
}

fn bad(detail: impl Into<String>) -> NoRequest {
    let refusal = Refusal::not_run(Reason::BadRequest).with_detail(detail);
    NoRequest::Refused(StatusCode::BAD_REQUEST, refusal)
}

fn head_too_slow() -> NoRequest {
    let refusal = Refusal::not_run(Reason::BadRequest)
        .with_detail("the request's head was not whole within 10 s");
    NoRequest::Refused(StatusCode::REQUEST_TIMEOUT, refusal)
}
