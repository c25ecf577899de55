//! What is still to come of a request once its head has been read.

use std::future::poll_fn;
use std::task::{Context, Poll};

use actix_codec::Decoder;
use actix_http::Version;
use actix_http::error::PayloadError;
use actix_http::h1::Message;
use tokio::time::Instant;
use wasmkeep_supervisors::limits::{BODY_BYTES_MAX, BODY_DRAIN_WAIT};

use super::upload::{self, Demand, Pieces, Upload};
use super::{BODY_ROOM, Connection, End, HEAD_ROOM};
use crate::edge::stream::Stream;

/// Read of what nobody asked for yet, only to notice that the client leaves.
const READ_AHEAD_BYTES_MAX: usize = 64 * 1024;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What is still to come of the present request.
pub struct Rest {
    pub(super) state: RestState,
    upload: Option<Upload>,
    /// Its client waits to be told to send the body.
    pub(super) awaits_continue: bool,
    /// It asks for another protocol: what follows belongs to that, or to nobody.
    pub(super) upgrades: bool,
    pub(super) version: Version,
    received: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestState {
    /// The body has been read, or there is none.
    Done,
    Open,
    /// Nobody can tell where the next request begins.
    Lost,
}

impl Rest {
    /// Of a request without a body.
    pub fn of(version: Version) -> Self {
        Self {
            state: RestState::Done,
            upload: None,
            awaits_continue: false,
            upgrades: false,
            version,
            received: 0,
        }
    }

    /// Of something that is no request.
    pub fn lost() -> Self {
        Self { state: RestState::Lost, ..Self::of(Version::HTTP_11) }
    }

    /// The request has a body.
    pub fn open(&mut self, awaits_continue: bool) -> Pieces {
        let (upload, pieces) = upload::channel();
        self.upload = Some(upload);
        self.state = RestState::Open;
        self.awaits_continue = awaits_continue;
        pieces
    }

    /// The request asks for another protocol, whose bytes begin after the answer that agrees.
    pub fn upgrade(&mut self) -> Pieces {
        let (upload, pieces) = upload::channel();
        self.upload = Some(upload);
        self.upgrades = true;
        pieces
    }

    /// What follows is left for who takes the connection over.
    pub fn leave(&mut self) {
        self.upload = None;
    }

    pub fn lose(&mut self, error: PayloadError) {
        self.state = RestState::Lost;
        if let Some(upload) = &self.upload {
            upload.fail(error);
        }
    }
}

impl<S: Stream> Connection<S> {
    /// Feeds the handler what it asks for, and drops what it does not want. Ready when the client
    /// is gone.
    pub(super) fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let demand = match &self.rest.upload {
                Some(upload) if self.rest.state == RestState::Open => upload.poll_demand(context),
                _ => Poll::Pending,
            };
            let wanted = match demand {
                Poll::Ready(Demand::Piece) => {
                    self.tell_to_send();
                    true
                }
                Poll::Ready(Demand::Nothing) => !self.rest.awaits_continue,
                Poll::Pending => false,
            };
            if wanted && self.hand_on() {
                continue;
            }
            if !wanted && self.wire.incoming.len() >= READ_AHEAD_BYTES_MAX {
                return Poll::Pending;
            }
            let room = if wanted { BODY_ROOM } else { HEAD_ROOM };
            match self.wire.poll_fill(context, room) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0) | Err(_)) => {
                    if self.rest.state == RestState::Open {
                        self.rest.lose(PayloadError::Incomplete(None));
                    }
                    return Poll::Ready(());
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Tells a client that waits for it to send the body.
    pub(super) fn tell_to_send(&mut self) {
        if std::mem::take(&mut self.rest.awaits_continue) && self.wire.incoming.is_empty() {
            self.wire.outgoing.extend_from_slice(CONTINUE);
        }
    }

    /// Passes on what has been read of the body; false when that is not enough for a piece.
    fn hand_on(&mut self) -> bool {
        let Some(upload) = &self.rest.upload else { return false };
        match self.codec.decode(&mut self.wire.incoming) {
            Ok(Some(Message::Chunk(Some(piece)))) => {
                self.rest.received += piece.len();
                if upload.is_wanted() {
                    upload.give(piece);
                } else if self.rest.received > BODY_BYTES_MAX {
                    self.rest.lose(PayloadError::Overflow);
                }
                true
            }
            Ok(Some(Message::Chunk(None))) => {
                upload.end();
                self.rest.state = RestState::Done;
                true
            }
            Ok(None) => false,
            Ok(Some(Message::Item(_))) | Err(_) => {
                self.rest.lose(PayloadError::EncodingCorrupted);
                true
            }
        }
    }

    /// After an answer: reads what is left of the request's body, up to the limit, so that the
    /// client can finish sending and the next request can be found.
    pub(super) async fn read_out(&mut self) -> Result<(), End<S>> {
        if self.rest.upgrades {
            return Err(End::Closed);
        }
        if self.rest.state == RestState::Open {
            let deadline = Instant::now() + BODY_DRAIN_WAIT;
            poll_fn(|context| {
                if self.poll_rest(context).is_ready() {
                    return Poll::Ready(Err(End::Left));
                }
                if self.rest.state != RestState::Open {
                    return Poll::Ready(Ok(()));
                }
                self.wire.poll_deadline(context, deadline).map(|()| Err(End::Closed))
            })
            .await?;
        }
        let keeps = self.rest.state == RestState::Done && self.codec.keep_alive();
        if keeps { Ok(()) } else { Err(End::Closed) }
    }
}
