//! The cluster port: what other nodes hand over.
//!
//! Promises: nothing is taken but over TLS from a node that has proven its key, and an event only while
//! that key is of a live lease, which is asked for each request. Caller, chain and headers are the
//! sender's word in one header that is read here alone, so nobody on the public port can forge them.
//! The answer, a refusal with its reason, or the node that has the actor instead go back unchanged.
//! A stranger may say hello: its lease is then read in the bucket, and nothing else of what it says
//! counts. Neither the front nor `/_wasmkeep/` for operators is here.

mod accept;
mod answer;
mod refusals;
mod route;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use actix_http::{KeepAlive, ServiceConfigBuilder};
use actix_server::{GracefulShutdownSignal, Server};
use actix_service::{IntoServiceFactory, Service, ServiceFactory, fn_factory, fn_service};
use actix_web::App;
use actix_web::dev::AppConfig;
use actix_web::web::{self, Data};
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use wasmkeep_supervisors::limits::{KEEP_ALIVE_WAIT, PEER_STOP_WAIT, PEER_STRANGERS_MAX};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::relay::FromPeers;

use self::refusals::Refusals;
use super::server::{Edge, EdgeError, builder, listen};

/// What the cluster port stands on.
pub struct ClusterSpec {
    /// `Identity::of_peers`.
    pub tls: ServerConfig,
    pub node: Arc<dyn FromPeers>,
    pub metrics: Arc<Metrics>,
}

/// What every worker shares.
struct ClusterState {
    acceptor: TlsAcceptor,
    node: Arc<dyn FromPeers>,
    metrics: Arc<Metrics>,
    refusals: Refusals,
    strangers: Arc<Semaphore>,
}

/// The listening port.
pub struct ClusterPort(Edge);

impl ClusterPort {
    pub fn start(
        address: SocketAddr,
        workers: usize,
        spec: ClusterSpec,
    ) -> Result<Self, EdgeError> {
        let ClusterSpec { tls, node, metrics } = spec;
        let state = ClusterState {
            acceptor: TlsAcceptor::from(Arc::new(tls)),
            node,
            refusals: Refusals::new(Arc::clone(&metrics)),
            metrics,
            strangers: Arc::new(Semaphore::new(PEER_STRANGERS_MAX)),
        };
        Edge::on_a_thread("cluster", move || serve(address, workers, state))?
            .map(Self)
            .map_err(|cause| EdgeError::NotBound { address, cause, flag: "cluster-listen" })
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Stops listening, and waits for the answers still leaving, refusals of what comes yet among them.
    pub async fn stop(self) {
        self.0.stop().await;
    }
}

fn serve(
    address: SocketAddr,
    workers: usize,
    state: ClusterState,
) -> io::Result<(SocketAddr, Server)> {
    let listener = listen(address)?;
    let bound = listener.local_addr()?;
    let state = Data::new(state);
    let builder = builder(workers);
    let stop = builder.graceful_shutdown_signal();
    let server = builder.listen("cluster", listener, move || {
        let state = Data::clone(&state);
        let stop = stop.clone();
        fn_factory(move || worker(Data::clone(&state), stop.clone()))
    })?;
    Ok((bound, server.run()))
}

/// What one worker does with each connection it is given.
async fn worker(
    state: Data<ClusterState>,
    stop: GracefulShutdownSignal,
) -> Result<impl Service<TcpStream, Response = (), Error = Infallible, Future: 'static>, ()> {
    let app = App::new().app_data(Data::clone(&state)).default_service(web::to(route::route));
    let app = Rc::new(app.into_factory().new_service(AppConfig::default()).await?);
    let config =
        ServiceConfigBuilder::new().keep_alive(KeepAlive::Timeout(KEEP_ALIVE_WAIT)).build();
    Ok(fn_service(move |stream: TcpStream| {
        let (app, config) = (Rc::clone(&app), config.clone());
        let (state, stop) = (Data::clone(&state), stop.clone());
        async move {
            if let Some(peer) = accept::accept(stream, &state).await {
                let stop = async {
                    stop.notified().await;
                    sleep(PEER_STOP_WAIT).await;
                };
                accept::serve(peer, &*app, &config, &state, stop).await;
            }
            Ok(())
        }
    }))
}
