//! Binds the public port and runs actix's workers, on threads of their own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use actix_http::{KeepAlive, ServiceConfigBuilder};
use actix_server::{GracefulShutdownSignal, Server, ServerBuilder, ServerHandle};
use actix_service::{IntoServiceFactory, Service, ServiceFactory, fn_factory, fn_service};
use actix_web::dev::AppConfig;
use actix_web::http::StatusCode;
use actix_web::web::{self, Data, Payload};
use actix_web::{App, HttpRequest, HttpResponse};
use thiserror::Error;
use tokio::net::{TcpSocket, TcpStream};
use wasmkeep_supervisors::address::Tenant;
use wasmkeep_supervisors::event::{Reason, Refusal};
use wasmkeep_supervisors::front::Front;
use wasmkeep_supervisors::limits::{HEAD_BYTES_MAX, KEEP_ALIVE_WAIT};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::tree::Tree;

use super::connection::Handling;
use super::console::ConsoleSpec;
use super::{actor, body, connection, console, front, health, respond};

/// After the actors have stopped: how long answers already made may take to leave.
const LAST_ANSWERS_SECS: u64 = 2;
const BACKLOG: u32 = 4096;

#[derive(Debug, Error)]
pub enum EdgeError {
    #[error("{address} cannot be listened on: {cause}; choose another --{flag}")]
    NotBound { address: SocketAddr, cause: io::Error, flag: &'static str },
    #[error("the HTTP server did not start: {0}")]
    NotStarted(io::Error),
}

/// What every worker shares.
#[derive(Clone)]
pub struct EdgeState {
    pub tree: Arc<Tree>,
    pub front: Option<Arc<Front>>,
    pub metrics: Arc<Metrics>,
    pub tenant: Tenant,
    pub ready: Arc<AtomicBool>,
    pub console: Option<ConsoleSpec>,
    pub serves: Serves,
}

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// Actors, the front, and what is the server's own.
    Everything,
    /// What is the server's own, alone.
    Operators,
}

/// A listening server.
pub struct Edge {
    pub address: SocketAddr,
    handle: ServerHandle,
    thread: JoinHandle<io::Result<()>>,
}

impl Edge {
    pub fn start(address: SocketAddr, workers: usize, state: EdgeState) -> Result<Self, EdgeError> {
        let flag = match state.serves {
            Serves::Everything => "listen",
            Serves::Operators => "admin-listen",
        };
        Self::on_a_thread("edge", move || serve(address, workers, state))?
            .map_err(|cause| EdgeError::NotBound { address, cause, flag })
    }

    /// Runs a server where it is made: what a worker builds its app from cannot move.
    pub(super) fn on_a_thread(
        name: &str,
        make: impl FnOnce() -> io::Result<(SocketAddr, Server)> + Send + 'static,
    ) -> Result<io::Result<Self>, EdgeError> {
        let (started, bound) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                actix_web::rt::System::new().block_on(async move {
                    match make() {
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
        let bound = bound
            .recv()
            .map_err(|_| EdgeError::NotStarted(io::Error::other("its thread ended")))?;
        Ok(bound.map(|(address, handle)| Self { address, handle, thread }))
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
    let listener = listen(address)?;
    let bound = listener.local_addr()?;
    let state = Data::new(state);
    let builder = builder(workers);
    let stop = builder.graceful_shutdown_signal();
    let server = builder.listen("edge", listener, move || {
        let state = Data::clone(&state);
        let stop = stop.clone();
        fn_factory(move || worker(Data::clone(&state), stop.clone()))
    })?;
    Ok((bound, server.run()))
}

/// How each of this node's ports is served. The node itself says when it stops.
pub(super) fn builder(workers: usize) -> ServerBuilder {
    Server::build().workers(workers).disable_signals().shutdown_timeout(LAST_ANSWERS_SECS)
}

pub(super) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// What one worker does with each connection it is given.
async fn worker(
    state: Data<EdgeState>,
    stop: GracefulShutdownSignal,
) -> Result<impl Service<TcpStream, Response = (), Error = Infallible, Future: 'static>, ()> {
    let app = App::new().app_data(Data::clone(&state)).default_service(web::to(route));
    let app = Rc::new(app.into_factory().new_service(AppConfig::default()).await?);
    let config =
        ServiceConfigBuilder::new().keep_alive(KeepAlive::Timeout(KEEP_ALIVE_WAIT)).build();
    Ok(fn_service(move |stream: TcpStream| {
        let (app, config) = (Rc::clone(&app), config.clone());
        let (state, stop) = (Data::clone(&state), stop.clone());
        async move {
            let _ = stream.set_nodelay(true);
            let refused = |reason| state.metrics.refused(reason);
            let handling = Handling {
                app: &*app,
                config: &config,
                head_bytes_max: HEAD_BYTES_MAX,
                mark: &|_| {},
            };
            connection::serve(stream, handling, refused, stop.notified()).await;
            Ok(())
        }
    }))
}

async fn route(request: HttpRequest, payload: Payload, state: Data<EdgeState>) -> HttpResponse {
    let path = request.uri().path();
    let awaits_continue = match body::awaits_continue(&request) {
        Ok(awaits) => awaits,
        Err(refusal) => {
            state.metrics.refused(refusal.reason);
            return respond::refusal_as(StatusCode::EXPECTATION_FAILED, &refusal);
        }
    };
    if state.serves == Serves::Operators && !path.starts_with(health::PREFIX) {
        state.metrics.refused(Reason::NotFound);
        let detail = "this address is for operators: it has nothing outside /_wasmkeep/";
        return respond::refusal(&Refusal::not_run(Reason::NotFound).with_detail(detail));
    }
    if path.starts_with(actor::PREFIX) {
        return actor::handle(request, payload, state, awaits_continue).await;
    }
    if path.starts_with(health::PREFIX) {
        if let Some(console) = &state.console
            && let Some(answer) = Box::pin(console::handle(&request, payload, console)).await
        {
            return answer;
        }
        return health::handle(path, &state);
    }
    if let Some(front) = &state.front {
        return Box::pin(front::handle(request, payload, &state, front, awaits_continue)).await;
    }
    state.metrics.refused(Reason::NotFound);
    respond::refusal(
        &Refusal::not_run(Reason::NotFound)
            .with_detail("actors are at /actor/<class>/<name>; this node has no front"),
    )
}
