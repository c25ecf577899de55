//! A connection of another node, from TCP to the key it has proven.

use actix_http::body::BoxBody;
use actix_http::{HttpMessage, Request, ServiceConfig};
use actix_service::Service;
use actix_web::dev::ServiceResponse;
use rustls::Error;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use wasmkeep_supervisors::limits::{PEER_HANDSHAKE_WAIT, RELAY_HEAD_BYTES_MAX};
use wasmkeep_supervisors::ports::PeerKey;

use super::ClusterState;
use super::refusals::Why;
use crate::edge::connection::{self, Handling};
use crate::identity::{key_of, watch};

/// With what a TLS connection begins.
const HANDSHAKE_RECORD: u8 = 0x16;
/// What a head has beside the hop.
const OTHER_HEAD_BYTES: usize = 4 * 1024;

/// A connection whose other side has proven this key.
pub struct Peer {
    stream: TlsStream<TcpStream>,
    key: PeerKey,
    /// Of those whose key is of no live lease that is known.
    _stranger: Option<OwnedSemaphorePermit>,
}

/// Stands among the extensions of a request.
#[derive(Clone, Copy)]
pub struct OfKey(pub PeerKey);

/// None when the connection is refused, or closed from the other side.
pub async fn accept(stream: TcpStream, state: &ClusterState) -> Option<Peer> {
    let from = stream.peer_addr().ok();
    match timeout(PEER_HANDSHAKE_WAIT, prove(stream, state))
        .await
        .unwrap_or(Err(Some(Why::Handshake)))
    {
        Ok(peer) => Some(peer),
        Err(why) => {
            if let Some(why) = why {
                state.refusals.refuse(why, from);
            }
            None
        }
    }
}

async fn prove(stream: TcpStream, state: &ClusterState) -> Result<Peer, Option<Why>> {
    watch(&stream).map_err(|_| None)?;
    let mut first = [0];
    match stream.peek(&mut first).await {
        // Whoever asks whether the port is open.
        Ok(0) | Err(_) => return Err(None),
        Ok(_) if first[0] != HANDSHAKE_RECORD => return Err(Some(Why::PlainText)),
        Ok(_) => {}
    }
    let stream = state.acceptor.accept(stream).await.map_err(|error| {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        Some(match tls {
            Some(Error::NoCertificatesPresented) => Why::NoCertificate,
            _ => Why::Handshake,
        })
    })?;
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let key = shown.and_then(|certificate| key_of(certificate).ok());
    let key = key.ok_or(Some(Why::NoCertificate))?;
    let stranger = match state.node.peer(&key) {
        Some(_) => None,
        None => {
            let place = state.strangers.clone().try_acquire_owned();
            Some(place.map_err(|_| Some(Why::TooMany))?)
        }
    };
    Ok(Peer { stream, key, _stranger: stranger })
}

/// Serves its requests, to the end of the connection.
pub async fn serve<A>(
    peer: Peer,
    app: &A,
    config: &ServiceConfig,
    state: &ClusterState,
    stop: impl Future<Output = ()>,
) where
    A: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
{
    let of_key = OfKey(peer.key);
    let mark = move |request: &mut Request| {
        request.extensions_mut().insert(of_key);
    };
    let head_bytes_max = RELAY_HEAD_BYTES_MAX + OTHER_HEAD_BYTES;
    let handling = Handling { app, config, head_bytes_max, mark: &mark };
    let refused = |reason| state.metrics.refused(reason);
    connection::serve(peer.stream, handling, refused, stop).await;
}
