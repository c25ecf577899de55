//! The connections to one peer: those kept for further requests, and how many requests there are.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use wasmkeep_supervisors::limits::{
    BODY_DRAIN_WAIT, PEER_CONNECTION_IDLE, PEER_CONNECTIONS_KEPT, PEER_REQUESTS_MAX,
};
use wasmkeep_supervisors::ports::NotReached;

use super::body::Gate;
use super::connect::{Connection, connect};

/// How long a kept connection may take to be done with the request before.
const READY_WAIT: Duration = Duration::from_millis(100);

pub struct Line {
    address: String,
    config: Arc<ClientConfig>,
    runtime: Handle,
    places: Arc<Semaphore>,
    /// The one used last stands last, and is used next: the others grow old and are closed.
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    connection: Connection,
    since: Instant,
}

impl Line {
    pub fn new(address: String, config: ClientConfig, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            address,
            config: Arc::new(config),
            runtime,
            places: Arc::new(Semaphore::new(PEER_REQUESTS_MAX)),
            kept: Mutex::default(),
        })
    }

    /// A place for one request, until it is dropped.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, NotReached> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| NotReached::Busy)
    }

    /// Whether a request is under way or a connection is kept.
    pub fn is_in_use(&self) -> bool {
        let mut kept = self.kept();
        kept.retain(|kept| kept.is_fresh());
        !kept.is_empty() || self.places.available_permits() < PEER_REQUESTS_MAX
    }

    /// A connection that served a request before.
    pub async fn reuse(&self) -> Option<Connection> {
        loop {
            let mut kept = self.kept().pop()?;
            if !kept.is_fresh() {
                continue;
            }
            let ready = timeout(READY_WAIT, kept.connection.sender.ready()).await;
            if matches!(ready, Ok(Ok(()))) {
                return Some(kept.connection);
            }
        }
    }

    pub async fn connect(&self) -> Result<Connection, NotReached> {
        let connecting = connect(self.address.clone(), Arc::clone(&self.config));
        match self.runtime.spawn(connecting).await {
            Ok(connected) => connected,
            Err(error) => Err(NotReached::Unreachable(io::Error::other(error))),
        }
    }

    /// Keeps a connection whose request is over.
    pub fn keep(&self, connection: Connection) {
        let mut kept = self.kept();
        kept.retain(Kept::is_fresh);
        if kept.len() < PEER_CONNECTIONS_KEPT {
            kept.push(Kept { connection, since: Instant::now() });
        }
    }

    /// Keeps it once the rest of the request's body has been sent, which its actor may still read.
    pub fn keep_after(self: &Arc<Self>, connection: Connection, body: Gate) {
        let line = Arc::clone(self);
        self.runtime.spawn(async move {
            if timeout(BODY_DRAIN_WAIT, body.ended()).await.is_ok() {
                line.keep(connection);
            }
        });
    }

    #[cfg(test)]
    pub fn kept_connections(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        // No change of the list can panic half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn is_fresh(&self) -> bool {
        !self.connection.sender.is_closed() && self.since.elapsed() < PEER_CONNECTION_IDLE
    }
}
