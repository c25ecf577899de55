//! Requests that guests send: the only way out of an instance.
//!
//! Promises: a guest reaches public addresses, ordinary ports, and what the operator opened; the
//! address that was checked is the one connected to; no request outlives its event, and none is
//! counted longer than it is open. It follows no redirects, asks no proxy, keeps no connection and
//! no cookie: each request is one connection.

mod body;
mod connect;
mod exchange;
mod failure;
mod headers;
mod open;
mod policy;
mod progress;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;

use ::http::{Request, Response};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, oneshot};
use wasmkeep_supervisors::event::NotDurable;
use wasmkeep_supervisors::limits::OUTBOUND_NODE_OPEN_MAX;
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::ports::ScopeFuture;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use self::body::{AnswerBody, RequestBody};
use self::connect::Network;
use self::exchange::{Waits, exchange};
use self::failure::Failure;
use self::open::{OpenRequest, OpenRequests};
use self::policy::{Destination, Policy};
use self::progress::Progress;
use self::tls::Tls;

pub use self::policy::{AddressRange, RangeError};
pub use self::tls::OutboundError;

/// What an operator allows guests beyond the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboundConfig {
    pub ranges: Vec<AddressRange>,
    pub ports: Vec<u16>,
    pub ca_files: Vec<PathBuf>,
}

/// The way out of a node.
#[derive(Clone)]
pub struct Outbound(Arc<Shared>);

struct Shared {
    policy: Policy,
    network: Network,
    tls: Tls,
    places: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Outbound {
    pub fn new(config: OutboundConfig, metrics: Arc<Metrics>) -> Result<Self, OutboundError> {
        let tls = Tls::trusting(&config.ca_files)?;
        let policy = Policy::new(config.ranges, config.ports);
        Ok(Self::over(policy, Network::of_the_system(), tls, metrics))
    }

    fn over(policy: Policy, network: Network, tls: Tls, metrics: Arc<Metrics>) -> Self {
        let places = Arc::new(Semaphore::new(OUTBOUND_NODE_OPEN_MAX));
        Self(Arc::new(Shared { policy, network, tls, places, metrics }))
    }

    /// The way out of one instance.
    pub fn of_an_instance(&self) -> InstanceOutbound {
        let Shared { places, metrics, .. } = &*self.0;
        InstanceOutbound {
            shared: Arc::clone(&self.0),
            open: OpenRequests::new(Arc::clone(places), Arc::clone(metrics)),
        }
    }
}

/// What one instance sends. Dropped, it ends all of it.
pub struct InstanceOutbound {
    shared: Arc<Shared>,
    open: OpenRequests,
}

/// What has to end before a request may leave; after an error it must not.
pub type Before = Option<ScopeFuture<'static, Result<(), NotDurable>>>;

pub type Answer = Result<Response<WasiBody>, Error>;

impl InstanceOutbound {
    /// Sends a request, once `before` has ended. What can be refused is refused at once, before
    /// anything is looked up; the future gives the answer's head.
    pub fn send(
        &self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        before: Before,
    ) -> impl Future<Output = Answer> + Send + 'static {
        let waits = Waits::asked(options);
        let begun = self.begin(request, waits, before);
        let counted = Counted::new(Arc::clone(&self.shared.metrics));
        async move {
            let answered = match begun {
                Ok(begun) => begun.answered(waits).await,
                Err(failure) => Err(failure),
            };
            counted.ended(answered)
        }
    }

    /// The event is over: nothing it sent goes on.
    pub fn end_event(&self) {
        self.open.end_all();
    }

    fn begin(
        &self,
        request: Request<WasiBody>,
        waits: Waits,
        before: Before,
    ) -> Result<Begun, Failure> {
        let to = destination(&self.shared.policy, request.uri())?;
        let progress = Arc::new(Progress::new());
        let request = headers::outgoing(request, &to)
            .map_err(Failure::denied)?
            .map(|body| RequestBody::new(body, Arc::clone(&progress)));
        let open = self.open.open().ok_or(Failure::failed(Error::ConnectionLimitReached))?;
        let (answer_to, answer) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let exchange = exchange(shared, to, request, waits, Arc::clone(&progress), answer_to);
        let running = async {
            let may_leave = match before {
                Some(before) => before.await.is_ok(),
                None => true,
            };
            // Otherwise it is dropped, and with it what waits for the answer.
            if may_leave {
                exchange.await;
            }
        };
        open.runs(tokio::spawn(running).abort_handle());
        Ok(Begun { open, answer, progress })
    }
}

fn destination(policy: &Policy, uri: &::http::Uri) -> Result<Destination, Failure> {
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(Failure::denied(Error::HttpRequestUriInvalid));
    };
    Ok(policy.destination(scheme, authority.as_str())?)
}

/// A request on its way.
struct Begun {
    open: OpenRequest,
    answer: oneshot::Receiver<Result<Response<hyper::body::Incoming>, Failure>>,
    progress: Arc<Progress>,
}

impl Begun {
    async fn answered(self, waits: Waits) -> Result<Response<WasiBody>, Failure> {
        let Self { open, answer, progress } = self;
        // Nobody is left to answer: the event that asked is over.
        let stopped = |_| Failure::failed(Error::ConnectionTerminated);
        let response = answer.await.map_err(stopped)??;
        Ok(response.map(|incoming| {
            AnswerBody::new(incoming, open, progress, waits.between_bytes).boxed_unsync()
        }))
    }
}

/// Counts a request once, also one that nobody waits for any more.
struct Counted {
    metrics: Arc<Metrics>,
    outcome: &'static str,
}

impl Counted {
    fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, outcome: "failed" }
    }

    fn ended(mut self, answered: Result<Response<WasiBody>, Failure>) -> Answer {
        match answered {
            Ok(response) => {
                self.outcome = "answered";
                Ok(response)
            }
            Err(failure) => {
                tracing::debug!(error = %failure.code, denied = failure.denied, "not answered");
                self.outcome = match failure.code {
                    Error::ConnectionLimitReached => "limited",
                    _ if failure.denied => "denied",
                    _ => "failed",
                };
                Err(failure.code)
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.outbound(self.outcome);
    }
}
