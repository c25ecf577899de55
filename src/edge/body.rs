//! A request's body on its way to an actor: whole when it is small and there, in pieces otherwise.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use actix_web::web::Payload;
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use wasmkeep_supervisors::event::{Body, BodyError, BodyStream, Reason, Refusal, Reply};
use wasmkeep_supervisors::limits::{BODY_BYTES_MAX, BODY_DRAIN_WAIT};

/// A body declared no larger than this is read whole before its event is queued, if it comes soon.
const WHOLE_BYTES_MAX: usize = 64 * 1024;
const WHOLE_PATIENCE: Duration = Duration::from_millis(10);
/// Pieces read ahead of the guest.
const PIECES_AHEAD: usize = 2;

/// Becomes ready when a request's body has been read out, by the actor or past it. An answer ends
/// after that: a client that still sends could not read it, and its connection would be closed.
pub type ReadOut = oneshot::Receiver<()>;

/// Takes a request's body, refusing one that is declared too large.
pub async fn take(
    request: &HttpRequest,
    mut payload: Payload,
) -> Result<(Body, Option<ReadOut>), Refusal> {
    let declared = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    let chunked = request.headers().contains_key(TRANSFER_ENCODING);
    let declared = match declared {
        Some(length) if length > BODY_BYTES_MAX as u64 => {
            return Err(Refusal::not_run(Reason::BodyTooLarge));
        }
        None | Some(0) if !chunked => return Ok((Body::Empty, None)),
        Some(length) => length as usize,
        None => usize::MAX,
    };
    let mut arrived = BytesMut::new();
    if declared <= WHOLE_BYTES_MAX {
        let until = Instant::now() + WHOLE_PATIENCE;
        loop {
            match timeout_at(until, next(&mut payload)).await {
                Ok(Some(Ok(piece))) => arrived.extend_from_slice(&piece),
                Ok(Some(Err(error))) => {
                    return Err(Refusal::not_run(Reason::BadRequest).with_detail(error.to_string()));
                }
                Ok(None) => return Ok((Body::Whole(arrived.freeze()), None)),
                Err(_) => break,
            }
        }
    }
    let (pieces, arriving) = mpsc::channel(PIECES_AHEAD);
    let (done, read_out) = oneshot::channel();
    actix_web::rt::spawn(async move {
        forward(payload, arrived.freeze(), pieces).await;
        let _ = done.send(());
    });
    // Who asked whether to send at all may never send: nothing waits for that body.
    let waits = !request.headers().contains_key(EXPECT);
    Ok((Body::Stream(Box::pin(Arriving(arriving))), waits.then_some(read_out)))
}

/// Feeds the guest, and reads out what it does not want, so that the client can read its answer.
async fn forward(
    mut payload: Payload,
    arrived: Bytes,
    pieces: mpsc::Sender<Result<Bytes, BodyError>>,
) {
    let mut total = arrived.len();
    if !arrived.is_empty() && pieces.send(Ok(arrived)).await.is_err() {
        return drain(payload, total).await;
    }
    loop {
        let piece = tokio::select! {
            piece = next(&mut payload) => piece,
            () = pieces.closed() => return drain(payload, total).await,
        };
        let piece = match piece {
            None => return,
            Some(Ok(piece)) => {
                total += piece.len();
                if total > BODY_BYTES_MAX {
                    Err(BodyError::TooLarge(BODY_BYTES_MAX))
                } else {
                    Ok(piece)
                }
            }
            Some(Err(_)) => Err(BodyError::SenderLeft),
        };
        let failed = piece.is_err();
        if pieces.send(piece).await.is_err() && !failed {
            return drain(payload, total).await;
        }
        if failed {
            return;
        }
    }
}

async fn drain(mut payload: Payload, mut total: usize) {
    let _ = timeout(BODY_DRAIN_WAIT, async {
        while let Some(Ok(piece)) = next(&mut payload).await {
            total += piece.len();
            if total > BODY_BYTES_MAX {
                break;
            }
        }
    })
    .await;
}

async fn next(payload: &mut Payload) -> Option<Result<Bytes, actix_web::error::PayloadError>> {
    std::future::poll_fn(|context| Pin::new(&mut *payload).poll_next(context)).await
}

/// The guest's side of a body in pieces.
struct Arriving(mpsc::Receiver<Result<Bytes, BodyError>>);

impl Stream for Arriving {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.0.poll_recv(context)
    }
}

/// Lets an answer end only once its request's body has been read out.
pub async fn end_after(
    answer: Result<Reply, Refusal>,
    read_out: Option<ReadOut>,
) -> Result<Reply, Refusal> {
    match (answer, read_out) {
        (Ok(Reply { status, headers, body: Body::Stream(pieces) }), Some(read_out)) => {
            let body = EndsAfter { pieces, read_out, ended: false };
            Ok(Reply { status, headers, body: Body::Stream(Box::pin(body)) })
        }
        (answer, Some(read_out)) => {
            // The task that reads ends by itself, at its limits at the latest.
            let _ = read_out.await;
            answer
        }
        (answer, None) => answer,
    }
}

/// A streamed answer that ends only once the request's body has been read out.
struct EndsAfter {
    pieces: BodyStream,
    read_out: ReadOut,
    ended: bool,
}

impl Stream for EndsAfter {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        if !self.ended {
            match std::task::ready!(self.pieces.as_mut().poll_next(context)) {
                Some(piece) => return Poll::Ready(Some(piece)),
                None => self.ended = true,
            }
        }
        Pin::new(&mut self.read_out).poll(context).map(|_| None)
    }
}
