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
use tokio::net::TcpStream;
use wasmkeep_supervisors::event::Reason;
use wasmkeep_supervisors::limits::{HEAD_WAIT, KEEP_ALIVE_WAIT};

use self::head::NoRequest;
use self::rest::Rest;
use self::wire::Wire;
use super::respond;

/// Room for the next read: for a head, and for a piece of a body.
const HEAD_ROOM: usize = 4 * 1024;
const BODY_ROOM: usize = 64 * 1024;

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
    let mut connection = Connection { wire, codec: Codec::new(config.clone()), rest: Rest::lost() };
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
enum End {
    /// Its client is gone, or was silent for too long.
    Left,
    /// After an answer that was sent whole.
    Closed,
    /// Within an answer.
    Cut { reset: bool },
    /// Another protocol goes on with it.
    TakenOver(Takeover),
}

/// Stands among the extensions of an answer that agrees to another protocol: takes the connection
/// over once the answer has left, with what has been read beyond the request.
pub struct Takeover(Box<dyn FnOnce(TcpStream, BytesMut)>);

impl Takeover {
    pub fn new(takeover: impl FnOnce(TcpStream, BytesMut) + 'static) -> Self {
        Self(Box::new(takeover))
    }
}

struct Connection {
    wire: Wire,
    codec: Codec,
    rest: Rest,
}

impl Connection {
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
        let mut response = match response {
            Ok(response) => Response::from(response),
            Err(error) => Response::from(error),
        };
        let takeover = response.extensions_mut().remove::<Takeover>();
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
