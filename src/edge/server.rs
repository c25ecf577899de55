//! Binds the public port and runs actix's workers, on threads of their own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use actix_web::web::{self, Data, Payload};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use thiserror::Error;
use wasmkeep_supervisors::address::Tenant;
use wasmkeep_supervisors::event::{Reason, Refusal};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::tree::Tree;

use super::{actor, health, respond};

const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long a client may take to send a request's head.
const HEAD_WAIT: Duration = Duration::from_secs(10);
/// After the actors have stopped: how long answers already made may take to leave.
const LAST_ANSWERS_SECS: u64 = 2;
const BACKLOG: u32 = 4096;

#[derive(Debug, Error)]
pub enum EdgeError {
    #[error("{address} cannot be listened on: {cause}; choose another --listen")]
    NotBound { address: SocketAddr, cause: io::Error },
    #[error("the HTTP server did not start: {0}")]
    NotStarted(io::Error),
}

/// What every worker shares.
pub struct EdgeState {
    pub tree: Arc<Tree>,
    pub metrics: Arc<Metrics>,
    pub tenant: Tenant,
    pub ready: Arc<AtomicBool>,
}

/// A listening server.
pub struct Edge {
    pub address: SocketAddr,
    handle: ServerHandle,
    thread: JoinHandle<io::Result<()>>,
}

impl Edge {
    pub fn start(address: SocketAddr, workers: usize, state: EdgeState) -> Result<Self, EdgeError> {
        let (started, bound) = std::sync::mpsc::channel();
        // The server is made on its thread: what a worker builds its app from cannot move.
        let thread = std::thread::Builder::new()
            .name("edge".into())
            .spawn(move || {
                actix_web::rt::System::new().block_on(async move {
                    match serve(address, workers, state) {
                        Ok((address, server)) => {
                            let _ = started.send(Ok((address, server.handle())));
                            server.await
                        }
                        Err(cause) => {
                            let _ = started.send(Err(cause));
                            Ok(())
                        }
                    }
                })
            })
            .map_err(EdgeError::NotStarted)?;
        let (address, handle) = bound
            .recv()
            .map_err(|_| EdgeError::NotStarted(io::Error::other("its thread ended")))?
            .map_err(|cause| EdgeError::NotBound { address, cause })?;
        Ok(Self { address, handle, thread })
    }

    /// Stops listening, and waits for the answers still leaving.
    pub async fn stop(self) {
        self.handle.stop(true).await;
        let thread = self.thread;
        match tokio::task::spawn_blocking(move || thread.join()).await {
            Ok(Ok(Ok(()))) => {}
            ended => tracing::error!(?ended, "the HTTP server ended badly"),
        }
    }
}

fn serve(
    address: SocketAddr,
    workers: usize,
    state: EdgeState,
) -> io::Result<(SocketAddr, Server)> {
    let state = Data::new(state);
    let server = HttpServer::new(move || {
        App::new().app_data(Data::clone(&state)).default_service(web::to(route))
    })
    .workers(workers)
    .disable_signals()
    .keep_alive(KEEP_ALIVE)
    .client_request_timeout(HEAD_WAIT)
    // A client that closes its side has left: its waiting event is not run.
    .h1_allow_half_closed(false)
    .tcp_nodelay(true)
    .backlog(BACKLOG)
    .shutdown_timeout(LAST_ANSWERS_SECS)
    .bind(address)?;
    let bound = server.addrs().first().copied().unwrap_or(address);
    Ok((bound, server.run()))
}

async fn route(request: HttpRequest, payload: Payload, state: Data<EdgeState>) -> HttpResponse {
    let path = request.uri().path();
    if path.starts_with(actor::PREFIX) {
        return actor::handle(request, payload, state).await;
    }
    if path.starts_with(health::PREFIX) {
        return health::handle(path, &state);
    }
    state.metrics.refused(Reason::NotFound);
    respond::refusal(
        &Refusal::not_run(Reason::NotFound)
            .with_detail("actors are at /actor/<class>/<name>; this node has no front"),
    )
}
