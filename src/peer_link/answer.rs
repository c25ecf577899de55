//! What comes back of a peer: an actor's answer, or what the peer says in its place.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use wasmkeep_supervisors::event::{Body, BodyError, Header, Reply};
use wasmkeep_supervisors::limits::PEER_HEAD_WAIT;
use wasmkeep_supervisors::relay::{ANSWER, Answer, HopError};

use super::body::Gate;
use super::connect::Connection;
use super::line::Line;

/// A body no larger than this is taken whole, as the actor's node had it.
const WHOLE_BYTES_MAX: u64 = 64 * 1024;
const CONTENT_LENGTH: &[u8] = b"content-length";

/// What is read of a response's head; none when no node of WasmKeep wrote it. One that was written and
/// cannot be read may be an answer of any kind: then the event may have run.
pub fn read(response: &http::Response<Incoming>) -> Result<Option<Answer>, HopError> {
    let said = response.headers().get(ANSWER);
    said.map(|said| Answer::decode(said.as_bytes())).transpose()
}

/// An exchange that is not over: its connection, and its place among those of the peer.
pub struct Ongoing {
    pub line: Arc<Line>,
    pub connection: Connection,
    pub _place: OwnedSemaphorePermit,
    pub gate: Option<Gate>,
}

impl Ongoing {
    /// The answer has come whole.
    pub fn ends(self) {
        match self.gate {
            None => self.line.keep(self.connection),
            Some(gate) if gate.has_ended() => self.line.keep(self.connection),
            Some(gate) if gate.is_open() => self.line.keep_after(self.connection, gate),
            // The peer waits for a body that nobody asked for: it cannot be used again.
            Some(_) => {}
        }
    }
}

/// An actor's answer. None when its connection broke within it.
pub async fn reply(
    status: u16,
    mut headers: Vec<Header>,
    incoming: Incoming,
    ongoing: Ongoing,
) -> Option<Reply> {
    let whole = incoming.size_hint().exact();
    let body = match whole {
        Some(0) => {
            ongoing.ends();
            Body::Empty
        }
        Some(..=WHOLE_BYTES_MAX) => {
            let collected = timeout(PEER_HEAD_WAIT, incoming.collect()).await.ok()?.ok()?;
            ongoing.ends();
            Body::Whole(collected.to_bytes())
        }
        Some(length) => {
            // It was whole there, so its length was known.
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(CONTENT_LENGTH)) {
                let length = Bytes::from(length.to_string());
                headers.push((Bytes::from_static(CONTENT_LENGTH), length));
            }
            Body::Stream(Box::pin(Arriving { incoming, ongoing: Some(ongoing) }))
        }
        None => Body::Stream(Box::pin(Arriving { incoming, ongoing: Some(ongoing) })),
    };
    Some(Reply { status, headers, body })
}

/// The body of an answer. Dropped before its end, it closes the connection.
struct Arriving {
    incoming: Incoming,
    ongoing: Option<Ongoing>,
}

impl Stream for Arriving {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            if self.ongoing.is_none() {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.incoming).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
                Some(Err(_)) => {
                    self.ongoing = None;
                    return Poll::Ready(Some(Err(BodyError::EventFailed)));
                }
                None => {
                    if let Some(ongoing) = self.ongoing.take() {
                        ongoing.ends();
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }
}
