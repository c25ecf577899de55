//! Answers operators on the socket of a running node. One request a connection.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::answer::answer;
use super::lines::{read_line, write_line};
use super::operator::Operator;
use super::protocol::{Failure, FailureKind, Line, REQUEST_BYTES_MAX};
use super::socket;
use super::tail::Over;

/// Operators served at once; one more is told so.
const CONNECTIONS_MAX: usize = 32;
/// How long a client may take to say what it wants.
const REQUEST_WAIT: Duration = Duration::from_secs(10);
/// How long clients may take to read the last of their answers when the node stops.
const STOP_WAIT: Duration = Duration::from_secs(1);
/// After a failed `accept`: out of descriptors, it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listening socket of a running node.
pub struct AdminServer {
    directory: PathBuf,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl AdminServer {
    /// Listens in the data directory, on the present runtime.
    pub fn start(directory: &Path, operator: Arc<Operator>) -> io::Result<Self> {
        let listener = socket::listen(directory)?;
        let (stop, stopping) = watch::channel(false);
        let serving = tokio::spawn(serve(listener, operator, stopping));
        Ok(Self { directory: directory.to_owned(), stop, serving })
    }

    /// Ends all answers, and removes the socket.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.serving.await;
        if let Err(error) = socket::remove(&self.directory) {
            tracing::warn!(%error, "admin socket not removed");
        }
    }
}

async fn serve(
    listener: UnixListener,
    operator: Arc<Operator>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Of those that ended nothing is kept.
            Some(_) = connections.join_next() => continue,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        match accepted {
            Ok((client, _)) if is_operator(&client) => {
                let (operator, places) = (Arc::clone(&operator), Arc::clone(&places));
                let stopping = stopping.clone();
                connections.spawn(async move {
                    // An error is a client that left.
                    let _ = serve_one(client, &operator, &places, stopping).await;
                });
            }
            Ok(_) => tracing::warn!("another user's connection to the admin socket is refused"),
            Err(error) => {
                tracing::warn!(%error, "admin connection not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(STOP_WAIT, all).await;
}

/// The socket is its owner's alone from a moment after it is made; this holds before that too.
fn is_operator(client: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    client.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn serve_one(
    client: UnixStream,
    operator: &Arc<Operator>,
    places: &Semaphore,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let (from, mut to) = client.into_split();
    let refuse = |message: String| Line::Failed(Failure::new(FailureKind::Refused, message));
    let Ok(_place) = places.try_acquire() else {
        let why = format!("{CONNECTIONS_MAX} operators are served already; try again");
        return write_line(&mut to, &refuse(why)).await;
    };
    let mut from = BufReader::new(from);
    let line = match timeout(REQUEST_WAIT, read_line(&mut from, REQUEST_BYTES_MAX)).await {
        Ok(Ok(Some(line))) => line,
        Ok(Ok(None)) => return Ok(()),
        Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => {
            return write_line(&mut to, &Line::Failed(Failure::bad_request(error))).await;
        }
        Ok(Err(error)) => return Err(error),
        Err(_) => return write_line(&mut to, &refuse("no request came".into())).await,
    };
    let until = std::pin::pin!(async {
        let mut more = [0];
        tokio::select! {
            // A client that closes its end has left; it has nothing more to say either.
            _ = from.read(&mut more) => Over::ClientLeft,
            _ = stopping.wait_for(|stopping| *stopping) => Over::NodeStops,
        }
    });
    answer(operator, &line, &mut to, until).await
}
