//! A request's body on its way to an actor: whole when it is small and there, in pieces otherwise.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::error::PayloadError;
use actix_web::http::Version;
use actix_web::http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use actix_web::web::Payload;
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use wasmkeep_supervisors::event::{Body, BodyError, Reason, Refusal};
use wasmkeep_supervisors::limits::BODY_BYTES_MAX;

/// A body no larger than this is read whole before its event is queued, if it comes soon.
const WHOLE_BYTES_MAX: usize = 64 * 1024;
const WHOLE_PATIENCE: Duration = Duration::from_millis(10);
/// Pieces read ahead of the guest.
const PIECES_AHEAD: usize = 2;

/// Whether the client waits to be told to send its body; an error when it expects anything else.
pub fn awaits_continue(request: &HttpRequest) -> Result<bool, Refusal> {
    if request.version() < Version::HTTP_11 {
        return Ok(false);
    }
    let mut awaits = false;
    for expected in request.headers().get_all(EXPECT) {
        if !expected.as_bytes().trim_ascii().eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal::not_run(Reason::BadRequest)
                .with_detail("the only expectation this server meets is 100-continue"));
        }
        awaits = true;
    }
    Ok(awaits)
}

/// Takes a request's body, refusing one that is declared too large.
pub async fn take(
    request: &HttpRequest,
    mut payload: Payload,
    awaits_continue: bool,
) -> Result<Body, Refusal> {
    let declared = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.trim().parse::<u64>().ok());
    let chunked = request.headers().contains_key(TRANSFER_ENCODING);
    let soon_whole = match declared {
        Some(length) if length > BODY_BYTES_MAX as u64 => {
            return Err(Refusal::not_run(Reason::BodyTooLarge));
        }
        None | Some(0) if !chunked => return Ok(Body::Empty),
        Some(length) => length <= WHOLE_BYTES_MAX as u64,
        None => true,
    };
    if awaits_continue {
        return Ok(in_pieces(payload, Bytes::new()));
    }
    let mut arrived = BytesMut::new();
    let until = Instant::now() + WHOLE_PATIENCE;
    while soon_whole && arrived.len() <= WHOLE_BYTES_MAX {
        match timeout_at(until, next(&mut payload)).await {
            Ok(Some(Ok(piece))) => arrived.extend_from_slice(&piece),
            Ok(Some(Err(error))) => {
                return Err(Refusal::not_run(Reason::BadRequest)
                    .with_detail(format!("the request's body broke off: {error}")));
            }
            Ok(None) if arrived.is_empty() => return Ok(Body::Empty),
            Ok(None) => return Ok(Body::Whole(arrived.freeze())),
            Err(_) => break,
        }
    }
    Ok(in_pieces(payload, arrived.freeze()))
}

/// A body that is read as the guest asks for it: not a byte before it does.
fn in_pieces(payload: Payload, arrived: Bytes) -> Body {
    let (ask, asked) = oneshot::channel();
    let (pieces, arriving) = mpsc::channel(PIECES_AHEAD);
    actix_web::rt::spawn(async move {
        if asked.await.is_ok() {
            forward(payload, arrived, pieces).await;
        }
    });
    Body::Stream(Box::pin(Arriving { ask: Some(ask), pieces: arriving, ended: false }))
}

/// A piece, or the body's regular end.
type Piece = Result<Option<Bytes>, BodyError>;

/// Feeds the guest until the body ends or the guest wants no more. Its connection reads the rest.
async fn forward(mut payload: Payload, arrived: Bytes, pieces: mpsc::Sender<Piece>) {
    let mut total = arrived.len();
    if !arrived.is_empty() && pieces.send(Ok(Some(arrived))).await.is_err() {
        return;
    }
    loop {
        let piece = tokio::select! {
            piece = next(&mut payload) => piece,
            () = pieces.closed() => return,
        };
        let piece = match piece {
            None => Ok(None),
            Some(Err(_)) => Err(BodyError::SenderLeft),
            Some(Ok(piece)) => {
                total += piece.len();
                if total > BODY_BYTES_MAX {
                    Err(BodyError::TooLarge(BODY_BYTES_MAX))
                } else {
                    Ok(Some(piece))
                }
            }
        };
        let last = !matches!(piece, Ok(Some(_)));
        if pieces.send(piece).await.is_err() || last {
            return;
        }
    }
}

pub async fn next(payload: &mut Payload) -> Option<Result<Bytes, PayloadError>> {
    std::future::poll_fn(|context| Pin::new(&mut *payload).poll_next(context)).await
}

/// The guest's side of a body in pieces.
struct Arriving {
    ask: Option<oneshot::Sender<()>>,
    pieces: mpsc::Receiver<Piece>,
    ended: bool,
}

impl Stream for Arriving {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(ask) = self.ask.take() {
            let _ = ask.send(());
        }
        // A connection that goes away does not make a body look whole.
        let piece = ready!(self.pieces.poll_recv(context)).unwrap_or(Err(BodyError::SenderLeft));
        self.ended = !matches!(piece, Ok(Some(_)));
        Poll::Ready(piece.transpose())
    }
}
