//! An answer on its way out.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use actix_codec::Encoder;
use actix_http::body::{BodySize, BoxBody, MessageBody};
use actix_http::error::PayloadError;
use actix_http::h1::Message;
use actix_http::{ConnectionType, Response, Version};
use bytes::Bytes;
use tokio::time::Instant;
use wasmkeep_supervisors::limits::ANSWER_STALL_WAIT;

use super::rest::RestState;
use super::{Connection, End};
use crate::edge::stream::Stream;

/// Encoded of an answer before it is written.
const WRITE_AHEAD_BYTES_MAX: usize = 64 * 1024;

type FirstPiece = Option<Result<Bytes, <BoxBody as MessageBody>::Error>>;

impl<S: Stream> Connection<S> {
    /// Sends an answer whole.
    pub(super) async fn send(&mut self, response: Response<BoxBody>) -> Result<(), End<S>> {
        let (mut head, mut body) = response.into_parts();
        let size = body.size();
        let mut first = self.settle_continue(&mut body).await?;
        let upgraded = self.rest.upgrades && head.upgrade();
        // A response that says nothing of its connection is asked by its version, and its head may
        // be one used again, with the version of an earlier request.
        head.head_mut().version = Version::HTTP_11;
        let closes = head.head().connection_type() == ConnectionType::Close;
        if upgraded {
            self.rest.state = RestState::Open;
        } else if closes && self.rest.state == RestState::Open {
            self.rest.lose(PayloadError::Incomplete(None));
        }
        let ends_with_connection = size == BodySize::Stream
            && !upgraded
            && (self.rest.upgrades || self.rest.version < Version::HTTP_11);
        if ends_with_connection {
            head.head_mut().no_chunking(true);
        }
        let lost = self.rest.state == RestState::Lost || (self.rest.upgrades && !upgraded);
        if lost || ends_with_connection {
            head.head_mut().set_connection_type(ConnectionType::Close);
        } else if !upgraded && self.codec.upgrade() {
            // A protocol was asked for that is not spoken here: the request is answered in this
            // one, and then the connection ends, which the client is told.
            head.head_mut().set_connection_type(ConnectionType::Close);
        }
        let cut = || End::Cut { reset: ends_with_connection };
        self.encode(Message::Item((head, size))).map_err(|_| cut())?;

        let (mut ended, mut gone) = (false, false);
        let mut stalled_since = None;
        poll_fn(|context| {
            loop {
                while !ended && self.wire.outgoing.len() < WRITE_AHEAD_BYTES_MAX {
                    let next = first
                        .take()
                        .map_or_else(|| Pin::new(&mut body).poll_next(context), Poll::Ready);
                    let encoded = match next {
                        // An empty chunk would be the last one.
                        Poll::Ready(Some(Ok(piece))) if piece.is_empty() => Ok(()),
                        Poll::Ready(Some(Ok(piece))) => self.encode(Message::Chunk(Some(piece))),
                        Poll::Ready(Some(Err(_))) => Err(io::ErrorKind::UnexpectedEof.into()),
                        Poll::Ready(None) => {
                            ended = true;
                            self.encode(Message::Chunk(None))
                        }
                        Poll::Pending => break,
                    };
                    if encoded.is_err() {
                        // What the client can be given of it still leaves.
                        let _ = self.wire.poll_flush(context);
                        return Poll::Ready(Err(cut()));
                    }
                }
                let waiting = self.wire.outgoing.len();
                let flushed = match self.wire.poll_flush(context) {
                    Poll::Ready(Ok(())) => true,
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(End::Left)),
                    Poll::Pending => false,
                };
                if flushed || self.wire.outgoing.len() < waiting {
                    stalled_since = None;
                }
                if flushed && ended {
                    return Poll::Ready(Ok(()));
                }
                if flushed && waiting >= WRITE_AHEAD_BYTES_MAX {
                    continue;
                }
                if !gone && self.poll_rest(context).is_ready() {
                    if !ended {
                        return Poll::Ready(Err(End::Left));
                    }
                    gone = true;
                }
                if flushed {
                    return Poll::Pending;
                }
                let since = *stalled_since.get_or_insert_with(Instant::now);
                return self
                    .wire
                    .poll_deadline(context, since + ANSWER_STALL_WAIT)
                    .map(|()| Err(End::Cut { reset: true }));
            }
        })
        .await
    }

    fn encode(&mut self, message: Message<(Response<()>, BodySize)>) -> io::Result<()> {
        self.codec.encode(message, &mut self.wire.outgoing)
    }

    /// A client that waits to be told to send its body learns it before the answer's head goes out
    /// or never: so the head waits until the body is asked for or the answer has a first piece,
    /// which this returns.
    async fn settle_continue(&mut self, body: &mut BoxBody) -> Result<Option<FirstPiece>, End<S>> {
        if !self.rest.awaits_continue {
            return Ok(None);
        }
        let first = poll_fn(|context| {
            if self.poll_rest(context).is_ready() {
                return Poll::Ready(Err(End::Left));
            }
            if !self.rest.awaits_continue {
                return Poll::Ready(Ok(None));
            }
            Pin::new(&mut *body).poll_next(context).map(|first| Ok(Some(first)))
        })
        .await?;
        if std::mem::take(&mut self.rest.awaits_continue) {
            self.rest.lose(PayloadError::Incomplete(None));
        }
        Ok(first)
    }
}
