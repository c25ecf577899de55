//! One client's connection: its requests in order, one after the other.
//!
//! actix-http has a loop of its own, which reads ahead: it answers a request by the method and the
//! version of the last one it has read, so that a HEAD sent ahead empties the answer before it, and
//! it answers what it cannot parse itself. This one reads the next head once the answer before it
//! has left; actix-http's codec parses and encodes.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_codec::{Decoder, Encoder};
use actix_http::body::{BodySize, BoxBody, MessageBody};
use actix_http::error::{ParseError, PayloadError};
use actix_http::h1::{Codec, Message, MessageType};
use actix_http::header::CONTENT_LENGTH;
use actix_http::{ConnectionType, Payload, Request, Response, ServiceConfig, StatusCode, Version};
use actix_service::Service;
use actix_web::dev::ServiceResponse;
use bytes::{Buf, Bytes};
use tokio::net::TcpStream;
use tokio::time::Instant;
use wasmkeep_supervisors::event::{Reason, Refusal};
use wasmkeep_supervisors::limits::{BODY_BYTES_MAX, BODY_DRAIN_WAIT};

use super::respond;
use super::upload::{self, Demand, Upload};
use super::wire::Wire;

/// How long a connection may be idle.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long a client may take to send a request's head.
const HEAD_WAIT: Duration = Duration::from_secs(10);
/// How long a client may read nothing of an answer that waits for it.
const WRITE_STALL_WAIT: Duration = Duration::from_secs(60);
/// The codec refuses a head that is not whole by then.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// Read of what nobody asked for yet, only to notice that the client leaves.
const READ_AHEAD_BYTES_MAX: usize = 64 * 1024;
/// Encoded of an answer before it is written.
const WRITE_AHEAD_BYTES_MAX: usize = 64 * 1024;
/// Room for the next read: for a head, and for a piece of a body.
const HEAD_ROOM: usize = 4 * 1024;
const BODY_ROOM: usize = 64 * 1024;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Serves one connection to its end. `stop` is ready once no further request shall be read.
pub async fn serve<A>(
    stream: TcpStream,
    config: &ServiceConfig,
    app: &A,
    refused: impl Fn(Reason),
    stop: impl Future<Output = ()>,
) where
    A: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
{
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().ok();
    let mut stop = pin!(stop);
    let wire = Wire::new(stream, HEAD_WAIT);
    let mut connection = Connection { wire, codec: Codec::new(config.clone()), rest: Rest::none() };
    let mut patience = HEAD_WAIT;
    let end = loop {
        match connection.next_request(patience, stop.as_mut()).await {
            Ok(mut request) => {
                request.head_mut().peer_addr = peer;
                if let Err(end) = connection.answer(request, app).await {
                    break end;
                }
            }
            Err(NoRequest::Left) => break End::Left,
            Err(NoRequest::Refused(status, refusal)) => {
                refused(refusal.reason);
                // Neither method nor version of an earlier request has a say in this answer.
                connection.codec = Codec::new(config.clone());
                connection.rest = Rest { state: RestState::Lost, ..Rest::none() };
                let response = respond::refusal_as(status, &refusal).into();
                break connection.send(response).await.err().unwrap_or(End::Closed);
            }
        }
        connection.wire.trim();
        patience = KEEP_ALIVE;
    };
    match end {
        End::Left => {}
        End::Closed => connection.wire.linger().await,
        End::Cut { reset } => {
            if reset {
                connection.wire.reset();
            }
        }
    }
}

/// Why a connection ends.
enum End {
    /// Its client is gone, or was silent for too long.
    Left,
    /// After an answer that was sent whole.
    Closed,
    /// Within an answer.
    Cut { reset: bool },
}

enum NoRequest {
    Left,
    Refused(StatusCode, Refusal),
}

struct Connection {
    wire: Wire,
    codec: Codec,
    rest: Rest,
}

/// What is still to come of the present request.
struct Rest {
    state: RestState,
    upload: Option<Upload>,
    /// Its client waits to be told to send the body.
    awaits_continue: bool,
    /// It asks for another protocol: what follows belongs to that, or to nobody.
    upgrades: bool,
    version: Version,
    received: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestState {
    /// The body has been read, or there is none.
    Done,
    Open,
    /// Nobody can tell where the next request begins.
    Lost,
}

impl Rest {
    const fn none() -> Self {
        Self {
            state: RestState::Done,
            upload: None,
            awaits_continue: false,
            upgrades: false,
            version: Version::HTTP_11,
            received: 0,
        }
    }

    fn lose(&mut self, error: PayloadError) {
        self.state = RestState::Lost;
        if let Some(upload) = &self.upload {
            upload.fail(error);
        }
    }
}

impl Connection {
    /// Reads the next request's head.
    async fn next_request(
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
            if incoming[scanned..].contains(&b'\n') || incoming.len() >= HEAD_BYTES_MAX {
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
        self.rest = Rest { version: request.version(), ..Rest::none() };
        match self.codec.message_type() {
            MessageType::None => {}
            MessageType::Payload => {
                let (upload, pieces) = upload::channel();
                *request.payload() = Payload::Stream { payload: Box::pin(pieces) };
                self.rest.upload = Some(upload);
                self.rest.state = RestState::Open;
                self.rest.awaits_continue = request.head().expect();
            }
            MessageType::Stream => {
                // The codec takes all that follows for the other protocol's, whatever is declared.
                if request.head().headers().get(CONTENT_LENGTH).is_some_and(|length| length != "0")
                {
                    return Err(bad("a request for another protocol has no body"));
                }
                let (upload, pieces) = upload::channel();
                *request.payload() = Payload::Stream { payload: Box::pin(pieces) };
                self.rest.upload = Some(upload);
                self.rest.upgrades = true;
            }
        }
        Ok(request)
    }

    /// Has a request handled and sends the answer.
    async fn answer<A>(&mut self, request: Request, app: &A) -> Result<(), End>
    where
        A: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
    {
        let response = {
            let mut handler = pin!(app.call(request));
            poll_fn(|context| {
                if let Poll::Ready(answer) = handler.as_mut().poll(context) {
                    return Poll::Ready(Ok(answer));
                }
                if self.poll_rest(context).is_ready() {
                    return Poll::Ready(Err(End::Left));
                }
                // What may be there to write is a 100.
                match self.wire.poll_flush(context) {
                    Poll::Ready(Err(_)) => Poll::Ready(Err(End::Left)),
                    _ => Poll::Pending,
                }
            })
            .await?
        };
        let response = match response {
            Ok(response) => Response::from(response),
            Err(error) => Response::from(error),
        };
        self.send(response).await?;
        self.read_out().await
    }

    /// Feeds the handler what it asks for, and drops what it does not want. Ready when the client
    /// is gone.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let demand = match &self.rest.upload {
                Some(upload) if self.rest.state == RestState::Open => upload.poll_demand(context),
                _ => Poll::Pending,
            };
            let wanted = match demand {
                Poll::Ready(Demand::Piece) => {
                    if std::mem::take(&mut self.rest.awaits_continue)
                        && self.wire.incoming.is_empty()
                    {
                        self.wire.outgoing.extend_from_slice(CONTINUE);
                    }
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

    /// Sends an answer whole.
    async fn send(&mut self, response: Response<BoxBody>) -> Result<(), End> {
        let (mut head, mut body) = response.into_parts();
        let size = body.size();
        let mut first = self.settle_continue(&mut body).await?;
        let upgraded = self.rest.upgrades && head.upgrade();
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
        }
        let cut = || End::Cut { reset: ends_with_connection };
        self.encode(Message::Item((head, size))).map_err(|_| cut())?;

        let (mut ended, mut gone) = (false, false);
        let mut deadline = Instant::now() + WRITE_STALL_WAIT;
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
                if self.wire.outgoing.len() < waiting {
                    deadline = Instant::now() + WRITE_STALL_WAIT;
                }
                return self
                    .wire
                    .poll_deadline(context, deadline)
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
    async fn settle_continue(&mut self, body: &mut BoxBody) -> Result<Option<FirstPiece>, End> {
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

    /// After an answer: reads what is left of the request's body, up to the limit, so that the
    /// client can finish sending and the next request can be found.
    async fn read_out(&mut self) -> Result<(), End> {
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

type FirstPiece = Option<Result<Bytes, <BoxBody as MessageBody>::Error>>;

fn unparsed(error: &ParseError) -> NoRequest {
    match error {
        ParseError::TooLarge => NoRequest::Refused(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Refusal::not_run(Reason::BadRequest)
                .with_detail("the request's head is larger than 128 KiB or has over 96 headers"),
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
