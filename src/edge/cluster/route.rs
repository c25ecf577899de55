//! One request of another node.

use actix_web::http::Method;
use actix_web::web::{Data, Payload};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use wasmkeep_supervisors::event::{
    Body, Event, Header, Reason, Refusal, ReplyTo, Request, Task, Ticket,
};
use wasmkeep_supervisors::limits::{BODY_BYTES_MAX, PEER_WORD_BYTES_MAX};
use wasmkeep_supervisors::ports::{PeerKey, SocketAsked};
use wasmkeep_supervisors::relay::{
    Carried, HELLO_PATH, HOP, Hop, HopError, RELAY_PATH, SOCKET_PATH, TAKE_PATH, decode_actors,
};
use wasmkeep_supervisors::socket::Opened;

use super::accept::OfKey;
use super::refusals::Why;
use super::{ClusterState, answer};
use crate::edge::actor::Leaves;
use crate::edge::body;
use crate::edge::connection::WantsBody;
use crate::edge::websocket::{self, Accepted};

pub async fn route(
    request: HttpRequest,
    payload: Payload,
    state: Data<ClusterState>,
) -> HttpResponse {
    let key = request.extensions().get::<OfKey>().copied();
    let Some(OfKey(key)) = key else { return answer::not_understood() };
    let (method, path) = (request.method().clone(), request.path().to_owned());
    if method == Method::POST && path == HELLO_PATH {
        return hello(&request, payload, key, &state).await;
    }
    let Some(peer) = state.node.peer(&key) else {
        state.refusals.refuse(Why::Stranger, request.peer_addr());
        return answer::stranger();
    };
    match path.as_str() {
        RELAY_PATH if method == Method::POST => relay(&request, payload, &state).await,
        SOCKET_PATH if method == Method::GET => socket(&request, &state).await,
        TAKE_PATH if method == Method::POST => {
            let Some(actors) = read_whole(payload, PEER_WORD_BYTES_MAX).await else {
                return answer::not_understood();
            };
            match decode_actors(&actors) {
                Ok(actors) => {
                    state.node.take(peer, actors).await;
                    HttpResponse::NoContent().finish()
                }
                Err(error) => answer::no_hop(error),
            }
        }
        _ => answer::not_understood(),
    }
}

/// A stranger is one no longer once its lease has been read; its connection ends, as it still counts
/// among those of strangers.
async fn hello(
    request: &HttpRequest,
    payload: Payload,
    key: PeerKey,
    state: &ClusterState,
) -> HttpResponse {
    let Some(lease) = read_whole(payload, PEER_WORD_BYTES_MAX).await else {
        return answer::not_understood();
    };
    state.node.hello(key, lease).await;
    if state.node.peer(&key).is_some() {
        return HttpResponse::NoContent().force_close().finish();
    }
    state.refusals.refuse(Why::Stranger, request.peer_addr());
    answer::stranger()
}

async fn relay(request: &HttpRequest, payload: Payload, state: &ClusterState) -> HttpResponse {
    let hop = match hop(request) {
        Ok(hop) => hop,
        Err(error) => return answer::no_hop(error),
    };
    let Hop { hops, address, caller, carried } = hop;
    let comes_in_pieces = matches!(body::awaits_continue(request), Ok(true));
    let mut wants_body = false;
    let task = match carried {
        Carried::Request(head) => {
            wants_body = comes_in_pieces && !awaits_continue(&head.headers);
            let body = match take_body(request, payload, comes_in_pieces).await {
                Ok(body) => body,
                Err(refusal) => return answer::refused(refusal),
            };
            Task::Request(Request { head, body, caller })
        }
        Carried::Alarm => Task::Alarm,
        Carried::Socket(_) => return answer::not_understood(),
    };
    let (reply, answered) = ReplyTo::channel();
    let ticket = Ticket::default();
    // Nothing of such a body is on its way while its event waits: who leaves then has sent nothing.
    let _leaves = comes_in_pieces.then(|| Leaves(ticket.clone()));
    let event = Event { address, task, reply, ticket };
    match state.node.deliver(hops, event, answered).await {
        Ok(reply) => {
            let mut response = answer::reply(reply);
            if wants_body {
                // Its client sends the body in any case, and its actor may still read it.
                response.extensions_mut().insert(WantsBody);
            }
            response
        }
        Err(why) => answer::not_taken(why),
    }
}

async fn socket(request: &HttpRequest, state: &ClusterState) -> HttpResponse {
    let hop = match hop(request) {
        Ok(hop) => hop,
        Err(error) => return answer::no_hop(error),
    };
    let Hop { hops, address, caller, carried } = hop;
    let (Carried::Socket(asked), Ok(response)) = (carried, websocket::agreed(request)) else {
        return answer::not_understood();
    };
    let asked = SocketAsked { address, request: asked, caller };
    let accepted = match state.node.open_socket(hops, asked).await {
        Ok(Opened::Accepted(line)) => Accepted::Here(line),
        Ok(Opened::Relayed(owner)) => Accepted::There(owner),
        Ok(Opened::Refused(refusal)) => return answer::refused(refusal),
        Err(why) => return answer::not_taken(why),
    };
    websocket::opened::<TlsStream<TcpStream>>(response, accepted)
}

fn hop(request: &HttpRequest) -> Result<Hop, HopError> {
    let header = request.headers().get(HOP).ok_or(HopError::Malformed)?;
    Hop::decode(header.as_bytes())
}

/// Whether the client itself waits to be told to send the body.
fn awaits_continue(headers: &[Header]) -> bool {
    headers.iter().any(|(name, value)| {
        name.as_ref() == b"expect" && value.trim_ascii().eq_ignore_ascii_case(b"100-continue")
    })
}

async fn take_body(
    request: &HttpRequest,
    payload: Payload,
    comes_in_pieces: bool,
) -> Result<Body, Refusal> {
    if comes_in_pieces {
        return body::take(request, payload, true).await;
    }
    // Its sender had all of it, and nothing of its event starts without.
    match read_whole(payload, BODY_BYTES_MAX).await {
        Some(bytes) if bytes.is_empty() => Ok(Body::Empty),
        Some(bytes) => Ok(Body::Whole(bytes)),
        None => Err(Refusal::not_run(Reason::BodyTooLarge)),
    }
}

/// None when it is larger, or broke off: then nobody reads what this comes to.
async fn read_whole(mut payload: Payload, bytes_max: usize) -> Option<Bytes> {
    let mut whole = BytesMut::new();
    while let Some(piece) = body::next(&mut payload).await {
        let piece = piece.ok()?;
        if whole.len() + piece.len() > bytes_max {
            return None;
        }
        whole.extend_from_slice(&piece);
    }
    Some(whole.freeze())
}
