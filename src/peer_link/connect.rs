//! One connection to a peer, from TCP to HTTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::{CertificateError, ClientConfig, Error};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wasmkeep_supervisors::limits::{PEER_CONNECT_WAIT, RELAY_ANSWER_BYTES_MAX};
use wasmkeep_supervisors::ports::NotReached;

use super::body::Outgoing;
use crate::identity::watch;

/// What a TLS client has to call a server; no peer looks at it.
const ANY_NAME: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A connection for one request at a time. Dropped, it closes: that is how a peer learns that nobody
/// waits for its answer any more.
pub struct Connection {
    pub sender: SendRequest<Outgoing>,
    _task: Task,
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects to a peer that has the key `config` expects.
pub async fn connect(address: String, config: Arc<ClientConfig>) -> Result<Connection, NotReached> {
    timeout(PEER_CONNECT_WAIT, connect_at_all(&address, config))
        .await
        .unwrap_or(Err(NotReached::TooSlow))
}

async fn connect_at_all(
    address: &str,
    config: Arc<ClientConfig>,
) -> Result<Connection, NotReached> {
    let stream = TcpStream::connect(address).await.map_err(NotReached::Unreachable)?;
    watch(&stream).map_err(NotReached::Unreachable)?;
    let stream = TlsConnector::from(config).connect(ANY_NAME.into(), stream).await.map_err(why)?;
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(2 * RELAY_ANSWER_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| NotReached::Unreachable(io::Error::other(error)))?;
    let task = tokio::spawn(async move {
        // Who waits for an answer is told of its end.
        let _ = connection.with_upgrades().await;
    });
    Ok(Connection { sender, _task: Task(task) })
}

/// Why TLS did not come about.
fn why(error: io::Error) -> NotReached {
    let wrong_key = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(tls) if *tls == wrong_key => NotReached::WrongKey,
        _ => NotReached::Unreachable(error),
    }
}
