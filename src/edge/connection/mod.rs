//! One client's connection: its requests in order, one after the other.
//!
//! actix-http has a loop of its own, which reads ahead: it answers a request by the method and the
//! version of the last one it has read, so that a HEAD sent ahead empties the answer before it, and
//! it answers itself, barely, what it cannot parse. This one reads the next head once the answer
//! before it has left; actix-http's codec parses and encodes.

mod head;
mod rest;
mod send;
#[cfg(test)]
mod tests;
mod upload;
mod wire;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use actix_http::body::BoxBody;
use actix_http::h1::Codec;
use actix_http::{Request, Response, ServiceConfig};
use actix_service::Service;
use actix_web::dev::ServiceResponse;
use bytes::BytesMut;
use wasmkeep_supervisors::event::Reason;
use wasmkeep_supervisors::limits::{HEAD_WAIT, KEEP_ALIVE_WAIT};

use self::head::NoRequest;
use self::rest::Rest;
use self::wire::Wire;
use super::respond;
use super::stream::{SHORT_READ, Stream};

/// Room for the next read: for a head, and for a piece of a body.
const HEAD_ROOM: usize = SHORT_READ;
const BODY_ROOM: usize = 64 * 1024;

/// What handles the requests of a connection.
pub struct Handling<'a, A> {
    pub app: &'a A,
    pub config: &'a ServiceConfig,
    pub head_bytes_max: usize,
    /// Notes on a request whose connection it is of.
    pub mark: &'a dyn Fn(&mut Request),
}

/// Serves one connection to its end. `stop` is ready once no further request shall be read.
pub async fn serve<S, A>(
    stream: S,
    handling: Handling<'_, A>,
    refused: impl Fn(Reason),
    stop: impl Future<Output = ()>,
) where
    S: Stream,
    A: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
{
    let Handling { app, config, head_bytes_max, mark } = handling;
    let peer = stream.peer();
    let mut stop = pin!(stop);
    let wire = Wire::new(stream, HEAD_WAIT);
    let codec = Codec::new(config.clone());
    let mut connection = Connection { wire, codec, rest: Rest::lost(), head_bytes_max };
    let mut patience = HEAD_WAIT;
    let end = loop {
        match connection.next_request(patience, stop.as_mut()).await {
            Ok(mut request) => {
                request.head_mut().peer_addr = peer;
                mark(&mut request);
                if let Err(end) = connection.answer(request, app).await {
                    break end;
                }
            }
            Err(NoRequest::Left) => break End::Left,
            Err(NoRequest::Refused(status, refusal)) => {
                refused(refusal.reason);
                // Neither method nor version of an earlier request has a say in this answer.
                connection.codec = Codec::new(config.clone());
                connection.rest = Rest::lost();
                let response = respond::refusal_as(status, &refusal).into();
                break connection.send(response).await.err().unwrap_or(End::Closed);
            }
        }
        connection.wire.trim();
        patience = KEEP_ALIVE_WAIT;
    };
    match end {
        End::Left => {}
        End::TakenOver(takeover) => {
            let (stream, incoming) = connection.wire.into_parts();
            (takeover.0)(stream, incoming);
        }
        End::Closed => connection.wire.linger().await,
        End::Cut { reset } => {
            if reset {
                connection.wire.reset();
            }
        }
    }
}

/// Why a connection ends.
enum End<S> {
    /// Its client is gone, or was silent for too long.
    Left,
    /// After an answer that was sent whole.
    Closed,
    /// Within an answer.
    Cut { reset: bool },
    /// Another protocol goes on with it.
    TakenOver(Takeover<S>),
}

/// Stands among the extensions of an answer that agrees to another protocol: takes the connection
/// over once the answer has left, with what has been read beyond the request.
pub struct Takeover<S>(Box<dyn FnOnce(S, BytesMut)>);

impl<S: Stream> Takeover<S> {
    pub fn new(takeover: impl FnOnce(S, BytesMut) + 'static) -> Self {
        Self(Box::new(takeover))
    }
}

/// Stands among the extensions of an answer whose request's body is still wanted, though its client
/// was not told to send it: it is, before the answer.
pub struct WantsBody;

struct Connection<S> {
    wire: Wire<S>,
    codec: Codec,
    rest: Rest,
    head_bytes_max: usize,
}

impl<S: Stream> Connection<S> {
    /// Has a request handled and sends the answer.
    async fn answer<A>(&mut self, request: Request, app: &A) -> Result<(), End<S>>
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
        let mut response = match response {
            Ok(response) => Response::from(response),
            Err(error) => Response::from(error),
        };
        if response.extensions_mut().remove::<WantsBody>().is_some() {
            self.tell_to_send();
        }
        let takeover = response.extensions_mut().remove::<Takeover<S>>();
        if takeover.is_some() {
            self.rest.leave();
        }
        self.send(response).await?;
        if let Some(takeover) = takeover {
            return Err(End::TakenOver(takeover));
        }
        self.read_out().await
    }
}
