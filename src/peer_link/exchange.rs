//! One event, from here to a peer and its answer back.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONNECTION, EXPECT, HOST, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use wasmkeep_supervisors::event::{Event, Reason, Refusal, Reply};
use wasmkeep_supervisors::limits::{PEER_HEAD_WAIT, PEER_WORD_WAIT};
use wasmkeep_supervisors::ports::{Hops, NotReached, PeerSocket, RelayError, SocketAsked};
use wasmkeep_supervisors::relay::{
    Answer, Carried, HOP, Hop, HopError, HopRefused, RELAY_PATH, SOCKET_PATH,
};

use super::answer::{self, Ongoing};
use super::body::{Gate, Outgoing};
use super::connect::Connection;
use super::line::Line;
use super::outcome::{Outcome, Unanswered};
use super::taken::Taken;

/// HTTP has every request name a host; no peer looks at it.
const ANY_HOST: HeaderValue = HeaderValue::from_static("peer");
/// Of a handshake that nobody but two nodes sees: what it protects from are caches.
const ANY_KEY: HeaderValue = HeaderValue::from_static("d2FzbWtlZXAtcGVlci0wMQ==");

/// One request to a peer, with its place among those there may be.
pub struct Exchange {
    pub line: Arc<Line>,
    pub place: OwnedSemaphorePermit,
}

impl Exchange {
    pub async fn event(
        self,
        hops: Hops,
        event: Event,
        outcome: Outcome<'_>,
    ) -> Result<Reply, RelayError<Box<Event>>> {
        let taken = match Taken::apart(hops, event) {
            Ok(taken) => taken,
            Err(event) => return outcome.not_reached(event, NotReached::NotForPeers),
        };
        let mut request = match request(&taken.hop, Method::POST, RELAY_PATH) {
            Ok(request) => request,
            Err(error) => return outcome.refused(too_large(error)),
        };
        *request.body_mut() = taken.body.outgoing();
        let gate = taken.body.gate();
        if let Some(gate) = gate.clone() {
            opens_at_continue(&mut request, gate);
        }
        let (connection, response) = match send(&self.line, request).await {
            Ok(answered) => answered,
            Err(unanswered) => return outcome.unanswered(unanswered, || taken.together()),
        };
        let ongoing = self.goes_on(connection, gate);
        let Ok(said) = answer::read(&response) else { return outcome.lost() };
        match said {
            Some(Answer::Reply { status, headers }) => {
                match answer::reply(status, headers, response.into_body(), ongoing).await {
                    Some(reply) => {
                        outcome.answered();
                        Ok(reply)
                    }
                    None => outcome.lost(),
                }
            }
            said => {
                ongoing.ends_if_empty(&response);
                outcome.said(said, || taken.together())
            }
        }
    }

    pub async fn socket(
        self,
        hops: Hops,
        asked: SocketAsked,
        outcome: Outcome<'_>,
    ) -> Result<PeerSocket, RelayError<Box<SocketAsked>>> {
        let SocketAsked { address, request: opened, caller } = asked.clone();
        let hop = Hop { hops, address, caller, carried: Carried::Socket(opened) };
        let mut request = match request(&hop, Method::GET, SOCKET_PATH) {
            Ok(request) => request,
            Err(error) => return outcome.refused(too_large(error)),
        };
        let headers = request.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, ANY_KEY);
        let returned = || Some(Box::new(asked));
        let (connection, response) = match send(&self.line, request).await {
            Ok(answered) => answered,
            Err(unanswered) => return outcome.unanswered(unanswered, returned),
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let Ok(said) = answer::read(&response) else { return outcome.lost() };
            self.goes_on(connection, None).ends_if_empty(&response);
            return outcome.said(said, returned);
        }
        match hyper::upgrade::on(response).await {
            Ok(upgraded) => {
                outcome.answered();
                Ok(Box::pin(TokioIo::new(upgraded)))
            }
            Err(_) => outcome.lost(),
        }
    }

    /// Says something that is no event.
    pub async fn word(self, path: &'static str, said: Bytes) -> Result<(), NotReached> {
        let mut request = Request::new(Outgoing::Whole(said));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(path);
        request.headers_mut().insert(HOST, ANY_HOST);
        let (connection, response) = match timeout(PEER_WORD_WAIT, send(&self.line, request)).await
        {
            Ok(Ok(answered)) => answered,
            Ok(Err(Unanswered::NotSent(cause))) => return Err(cause),
            Ok(Err(Unanswered::Lost)) => {
                return Err(NotReached::Unreachable(io::ErrorKind::ConnectionReset.into()));
            }
            Err(_) => return Err(NotReached::TooSlow),
        };
        let said = answer::read(&response).ok().flatten();
        self.goes_on(connection, None).ends_if_empty(&response);
        match said {
            Some(Answer::NotTaken(HopRefused::Stranger)) => Err(NotReached::Stranger),
            _ if response.status() == StatusCode::NO_CONTENT => Ok(()),
            _ => Err(NotReached::NotUnderstood),
        }
    }

    fn goes_on(self, connection: Connection, gate: Option<Gate>) -> Ongoing {
        Ongoing { line: self.line, connection, _place: self.place, gate }
    }
}

/// Has the peer say when its actor asks for the body.
fn opens_at_continue(request: &mut Request<Outgoing>, gate: Gate) {
    request.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
    hyper::ext::on_informational(request, move |response| {
        if response.status() == StatusCode::CONTINUE {
            gate.open();
        }
    });
}

impl Ongoing {
    /// After an answer that is all head.
    fn ends_if_empty(self, response: &Response<Incoming>) {
        if http_body::Body::is_end_stream(response.body()) {
            self.ends();
        }
    }
}

fn request(hop: &Hop, method: Method, path: &'static str) -> Result<Request<Outgoing>, HopError> {
    let hop = HeaderValue::try_from(hop.encode()?).map_err(|_| HopError::Malformed)?;
    let mut request = Request::new(Outgoing::Whole(Bytes::new()));
    *request.method_mut() = method;
    *request.uri_mut() = http::Uri::from_static(path);
    request.headers_mut().insert(HOST, ANY_HOST);
    request.headers_mut().insert(HOP, hop);
    Ok(request)
}

fn too_large(error: HopError) -> Refusal {
    Refusal::not_run(Reason::BadRequest).with_detail(format!("it cannot be passed on: {error}"))
}

/// Sends a request on a connection that was kept, or on a new one. One that closed before it took
/// anything of the request gives it back.
async fn send(
    line: &Line,
    mut request: Request<Outgoing>,
) -> Result<(Connection, Response<Incoming>), Unanswered> {
    loop {
        let (mut connection, is_new) = match line.reuse().await {
            Some(kept) => (kept, false),
            None => (line.connect().await.map_err(Unanswered::NotSent)?, true),
        };
        match timeout(PEER_HEAD_WAIT, connection.sender.try_send_request(request)).await {
            Ok(Ok(response)) => return Ok((connection, response)),
            Ok(Err(mut error)) => match error.take_message() {
                Some(unsent) if !is_new => request = unsent,
                Some(_) => {
                    let cause = io::Error::other(error.into_error());
                    return Err(Unanswered::NotSent(NotReached::Unreachable(cause)));
                }
                None => return Err(Unanswered::Lost),
            },
            Err(_) => return Err(Unanswered::Lost),
        }
    }
}
