//! Requests to other nodes: `ports::PeerLink` over HTTP/1.1 within TLS.
//!
//! One request at a time has a connection, which serves further ones afterwards. So a client that
//! leaves is a connection that closes, a WebSocket is a connection that is taken over, and nothing of
//! one request waits behind another's: none of which HTTP/2 has for free, and connections between a
//! few nodes are cheap. An event is sent once. What the peer was never given is sent anew on another
//! connection; what it may have got is lost with its connection.

mod answer;
mod body;
mod connect;
mod exchange;
mod line;
mod outcome;
mod taken;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::runtime::Handle;
use wasmkeep_supervisors::address::Address;
use wasmkeep_supervisors::event::{Event, Reply};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::ports::{
    Hops, LinkFuture, NotReached, PeerAt, PeerLink, PeerSocket, RelayError, SocketAsked,
};
use wasmkeep_supervisors::relay::{HELLO_PATH, TAKE_PATH, encode_actors};

use self::exchange::Exchange;
use self::line::Line;
use self::outcome::Outcome;
use crate::identity::Identity;

/// The connections of this node to others.
pub struct PeerLinks {
    identity: Arc<Identity>,
    /// Where connections live: those who ask may be on threads that end before them.
    runtime: Handle,
    lines: Mutex<HashMap<PeerAt, Arc<Line>>>,
    /// What was said at the last hello.
    lease: Mutex<Option<Bytes>>,
    metrics: Arc<Metrics>,
}

impl PeerLinks {
    /// Its connections run on the current runtime.
    pub fn new(identity: Arc<Identity>, metrics: Arc<Metrics>) -> Arc<Self> {
        let runtime = Handle::current();
        let (lines, lease) = (Mutex::default(), Mutex::default());
        Arc::new(Self { identity, runtime, lines, lease, metrics })
    }

    /// The connections to one peer. A peer that was started anew is another one.
    fn line(&self, to: PeerAt) -> Result<Arc<Line>, NotReached> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(&to) {
            return Ok(Arc::clone(line));
        }
        lines.retain(|_, line| line.is_in_use());
        let config = self.identity.to_peer(to.key).map_err(|error| {
            tracing::error!(%error, "no TLS to peers");
            NotReached::Unreachable(std::io::Error::other(error))
        })?;
        let line = Line::new(to.address.clone(), config, self.runtime.clone());
        lines.insert(to, Arc::clone(&line));
        Ok(line)
    }

    fn exchange(&self, to: PeerAt) -> Result<Exchange, NotReached> {
        let line = self.line(to)?;
        Ok(Exchange { place: line.place()?, line })
    }

    async fn word(&self, to: PeerAt, path: &'static str, said: Bytes) -> Result<(), NotReached> {
        self.exchange(to)?.word(path, said).await
    }

    /// This node's lease, for peers that have not seen it yet.
    pub fn says(&self, lease: Bytes) {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
    }

    /// To a peer that has not seen this node's lease yet: it is told to look. False when there is
    /// nothing to tell, or it does not help.
    async fn is_known_after_hello(&self, to: &PeerAt) -> bool {
        let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match lease {
            Some(lease) => self.word(to.clone(), HELLO_PATH, lease).await.is_ok(),
            None => false,
        }
    }

    async fn relay_once(
        &self,
        to: PeerAt,
        hops: Hops,
        event: Event,
    ) -> Result<Reply, RelayError<Box<Event>>> {
        let outcome = Outcome::of(&self.metrics);
        match self.exchange(to) {
            Ok(exchange) => exchange.event(hops, event, outcome).await,
            Err(cause) => outcome.not_reached(Box::new(event), cause),
        }
    }

    async fn open_once(
        &self,
        to: PeerAt,
        hops: Hops,
        asked: SocketAsked,
    ) -> Result<PeerSocket, RelayError<Box<SocketAsked>>> {
        let outcome = Outcome::of(&self.metrics);
        match self.exchange(to) {
            Ok(exchange) => exchange.socket(hops, asked, outcome).await,
            Err(cause) => outcome.not_reached(Box::new(asked), cause),
        }
    }
}

impl PeerLink for PeerLinks {
    fn relay(
        &self,
        to: PeerAt,
        hops: Hops,
        event: Event,
    ) -> LinkFuture<'_, Result<Reply, RelayError<Box<Event>>>> {
        Box::pin(async move {
            let returned = match self.relay_once(to.clone(), hops, event).await {
                Err(RelayError::NotReached { returned, cause: NotReached::Stranger }) => returned,
                answered => return answered,
            };
            if self.is_known_after_hello(&to).await {
                return self.relay_once(to, hops, *returned).await;
            }
            Err(RelayError::NotReached { returned, cause: NotReached::Stranger })
        })
    }

    fn open_socket(
        &self,
        to: PeerAt,
        hops: Hops,
        asked: SocketAsked,
    ) -> LinkFuture<'_, Result<PeerSocket, RelayError<Box<SocketAsked>>>> {
        Box::pin(async move {
            let returned = match self.open_once(to.clone(), hops, asked).await {
                Err(RelayError::NotReached { returned, cause: NotReached::Stranger }) => returned,
                opened => return opened,
            };
            if self.is_known_after_hello(&to).await {
                return self.open_once(to, hops, *returned).await;
            }
            Err(RelayError::NotReached { returned, cause: NotReached::Stranger })
        })
    }

    fn hello(&self, to: PeerAt, lease: Bytes) -> LinkFuture<'_, Result<(), NotReached>> {
        self.says(lease.clone());
        Box::pin(self.word(to, HELLO_PATH, lease))
    }

    fn take(&self, to: PeerAt, actors: Vec<Address>) -> LinkFuture<'_, Result<(), NotReached>> {
        Box::pin(self.word(to, TAKE_PATH, encode_actors(&actors)))
    }
}
