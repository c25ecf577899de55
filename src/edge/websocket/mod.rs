//! WebSockets at an actor's path and through the front: the handshake, and who talks afterwards.
//!
//! The actor is asked before the client sees the 101. actix-http's codec frames; the loop is ours,
//! so that an idle socket holds no buffer and what waits for a client is counted in one place
//! ([ADR 0011](../../../docs/adr/0011-websockets.md)).

mod frames;
mod splice;
mod talk;

use actix_http::ws::{HandshakeError, handshake};
use actix_web::http::header::{SEC_WEBSOCKET_VERSION, UPGRADE};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use bytes::BytesMut;
use tokio::net::TcpStream;
use wasmkeep_supervisors::address::Address;
use wasmkeep_supervisors::event::{Caller, Closing, OpenRequest, Reason, Refusal, Request};
use wasmkeep_supervisors::front::Front;
use wasmkeep_supervisors::front::handoff::Offer;
use wasmkeep_supervisors::ports::PeerSocket;
use wasmkeep_supervisors::socket::{Line, Opened, rules};

use super::connection::Takeover;
use super::respond;
use super::server::EdgeState;
use super::stream::Stream;

/// Whether a request asks for a WebSocket. One that names it and does not ask for it is an
/// ordinary request, as HTTP has it.
pub fn is_asked_for(request: &HttpRequest) -> bool {
    let names_it = request.headers().get_all(UPGRADE).any(|upgrade| {
        let mut protocols = upgrade.as_bytes().split(|byte| *byte == b',');
        protocols.any(|protocol| protocol.trim_ascii().eq_ignore_ascii_case(b"websocket"))
    });
    request.method() == Method::GET && names_it && request.head().upgrade()
}

/// Asks the actor, and answers for it.
pub async fn at_actor(
    request: &HttpRequest,
    address: &Address,
    asked: OpenRequest,
    state: &EdgeState,
) -> HttpResponse {
    let response = match agreed(request) {
        Ok(response) => response,
        Err(error) => return no_handshake(error, state),
    };
    match state.tree.open_socket(address, asked, Caller::Outside).await {
        Ok(Opened::Accepted(line)) => opened::<TcpStream>(response, Accepted::Here(line)),
        Ok(Opened::Relayed(owner)) => opened::<TcpStream>(response, Accepted::There(owner)),
        Ok(Opened::Refused(refusal)) => {
            let closing = Closing::new(rules::REFUSED, rules::shortened(refusal.sentence()));
            taken_over(response, |stream: TcpStream, _| {
                actix_web::rt::spawn(talk::refuse(stream, closing));
            })
        }
        Err(refusal) => respond::refusal(&refusal),
    }
}

/// Asks the front, and then the actor it names. The client of a front gets a socket or an answer
/// of HTTP, never a socket that closes at once.
pub async fn at_front(
    request: &HttpRequest,
    asked: Request,
    front: &Front,
    state: &EdgeState,
) -> HttpResponse {
    let response = match agreed(request) {
        Ok(response) => response,
        Err(error) => return no_handshake(error, state),
    };
    let client_headers = asked.head.headers.clone();
    let handoff = match front.offer(asked).await {
        Ok(Offer::HandOff(handoff)) => handoff,
        Ok(Offer::Answer(reply)) => return super::front::answer(Ok(reply), request),
        Err(refusal) => return respond::refusal(&refusal),
    };
    let front = front.address();
    let (address, asked) = handoff.of_client(front, client_headers);
    match state.tree.open_socket(&address, asked, Caller::Front(front.clone())).await {
        Ok(Opened::Accepted(line)) => opened::<TcpStream>(response, Accepted::Here(line)),
        Ok(Opened::Relayed(owner)) => opened::<TcpStream>(response, Accepted::There(owner)),
        Ok(Opened::Refused(refusal)) | Err(refusal) => respond::refusal(&refusal),
    }
}

/// Who has the actor of a socket that was accepted.
pub enum Accepted {
    Here(Line),
    There(PeerSocket),
}

/// The 101 for a handshake that is one.
pub fn agreed(request: &HttpRequest) -> Result<HttpResponse, HandshakeError> {
    let mut response = handshake(request.head())?;
    Ok(HttpResponse::from(response.finish().map_into_boxed_body()))
}

/// The 101, and whoever talks after it.
pub fn opened<S: Stream>(response: HttpResponse, opened: Accepted) -> HttpResponse {
    taken_over(response, |stream: S, incoming| {
        match opened {
            Accepted::Here(line) => actix_web::rt::spawn(talk::talk(stream, incoming, line)),
            Accepted::There(owner) => actix_web::rt::spawn(splice::splice(stream, incoming, owner)),
        };
    })
}

fn taken_over<S: Stream>(
    mut response: HttpResponse,
    takeover: impl FnOnce(S, BytesMut) + 'static,
) -> HttpResponse {
    response.extensions_mut().insert(Takeover::new(takeover));
    response
}

fn no_handshake(error: HandshakeError, state: &EdgeState) -> HttpResponse {
    state.metrics.refused(Reason::BadRequest);
    let no_version =
        matches!(error, HandshakeError::UnsupportedVersion | HandshakeError::NoVersionHeader);
    let refusal = Refusal::not_run(Reason::BadRequest).with_detail(match error {
        _ if no_version => "this server speaks version 13 of the WebSocket protocol".to_owned(),
        HandshakeError::BadWebsocketKey => {
            "Sec-WebSocket-Key is missing or is not the base64 of 16 bytes".to_owned()
        }
        error => error.to_string(),
    });
    if !no_version {
        return respond::refusal(&refusal);
    }
    let mut response = respond::refusal_as(StatusCode::UPGRADE_REQUIRED, &refusal);
    let headers = response.headers_mut();
    headers.insert(SEC_WEBSOCKET_VERSION, 13.into());
    headers.insert(UPGRADE, actix_web::http::header::HeaderValue::from_static("websocket"));
    response
}
