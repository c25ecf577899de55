//! Answers one request, line by line.

use std::future::Future;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::mpsc;

use super::lines::write_line;
use super::operator::Operator;
use super::protocol::{
    ActorRequest, Command, Failure, FailureKind, Line, ListRequest, Request, SqlCell, SqlRequest,
    VERSION,
};
use super::tail::{self, Over, UntilOver};

/// Lines of a list on their way. Who reads slowly holds up the reading of the disk.
const LINES_WAITING: usize = 256;

/// A list or an export goes to its client in pieces of so many bytes.
const PIECE_BYTES: usize = 128 * 1024;

/// Why an answer has no regular end.
enum Stop {
    /// Told to the client.
    Failed(Failure),
    /// The client left.
    Left(io::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Left(error)
    }
}

/// Answers the request in `line`, one without an end of its own until it is over. An error means
/// that the client left.
pub async fn answer(
    operator: &Arc<Operator>,
    line: &[u8],
    to: &mut (impl AsyncWrite + Unpin),
    until: UntilOver<'_>,
) -> io::Result<()> {
    let ended = match parse(line) {
        Ok(command) => carry_out(operator, command, to, until).await,
        Err(failure) => Err(failure.into()),
    };
    match ended {
        Ok(()) => {}
        Err(Stop::Failed(failure)) => write_line(to, &Line::Failed(failure)).await?,
        Err(Stop::Left(error)) => return Err(error),
    }
    to.flush().await
}

fn parse(line: &[u8]) -> Result<Command, Failure> {
    let wrong = |error: serde_json::Error| Failure::bad_request(format!("no request: {error}"));
    let json: serde_json::Value = serde_json::from_slice(line).map_err(wrong)?;
    let version = json.get("version").and_then(serde_json::Value::as_u64);
    if version != Some(u64::from(VERSION)) {
        let found = version.map_or("none".to_owned(), |version| version.to_string());
        return Err(Failure::bad_request(format!(
            "this node speaks version {VERSION}, the command {found}: use the same wasmkeep for both"
        )));
    }
    let request: Request = serde_json::from_value(json).map_err(wrong)?;
    Ok(request.command)
}

async fn carry_out(
    operator: &Arc<Operator>,
    command: Command,
    to: &mut (impl AsyncWrite + Unpin),
    until: UntilOver<'_>,
) -> Result<(), Stop> {
    match command {
        Command::List(request) => list(operator, request, to).await,
        Command::Show(request) => {
            let facts = operator.show(&request).await?;
            write_line(to, &Line::Facts(Box::new(facts))).await?;
            Ok(write_line(to, &Line::end()).await?)
        }
        Command::Sql(request) => unless_over(until, sql(operator, request, to)).await,
        Command::Export(request) => unless_over(until, export(operator, &request, to)).await,
        Command::Hibernate(request) => {
            operator.hibernate(&request).await?;
            Ok(write_line(to, &Line::end()).await?)
        }
        Command::Advance { ms } => {
            let now = operator.advance(Duration::from_millis(ms)).await?;
            write_line(to, &Line::Clock { now_ms: now.0 }).await?;
            Ok(write_line(to, &Line::end()).await?)
        }
        Command::Tail(request) => match &operator.node {
            Some(node) => Ok(tail::follow(node, request, to, until).await??),
            None => Err(Failure::failed("no node runs on this data directory").into()),
        },
    }
}

/// Stops what holds up an actor's events when nobody waits for it any more.
async fn unless_over(
    until: UntilOver<'_>,
    work: impl Future<Output = Result<(), Stop>>,
) -> Result<(), Stop> {
    tokio::select! {
        biased;
        ended = work => ended,
        over = until => match over {
            Over::ClientLeft => Err(io::Error::from(ErrorKind::BrokenPipe).into()),
            Over::NodeStops => {
                Err(Failure::new(FailureKind::Refused, "the node stopped meanwhile").into())
            }
        },
    }
}

async fn list(
    operator: &Arc<Operator>,
    request: ListRequest,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), Stop> {
    let (sender, mut listed) = mpsc::channel(LINES_WAITING);
    let operator = Arc::clone(operator);
    let reading = tokio::task::spawn_blocking(move || {
        let mut left = request.limit.unwrap_or(u64::MAX);
        let mut cut = false;
        operator.list(&request, |actor| {
            cut = left == 0;
            left = left.saturating_sub(1);
            // The client left when nobody receives.
            !cut && sender.blocking_send(actor).is_ok()
        })?;
        Ok::<bool, Failure>(cut)
    });
    let mut gathered = BufWriter::with_capacity(PIECE_BYTES, &mut *to);
    while let Some(actor) = listed.recv().await {
        write_line(&mut gathered, &Line::Actor(actor)).await?;
    }
    gathered.flush().await?;
    let cut = reading.await.map_err(Failure::failed)??;
    Ok(write_line(to, &Line::End { cut }).await?)
}

async fn sql(
    operator: &Operator,
    request: SqlRequest,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), Stop> {
    let rows = operator.sql(request).await?;
    write_line(to, &Line::Columns { columns: rows.set.columns }).await?;
    for row in rows.set.rows {
        let row = row.into_iter().map(SqlCell::from).collect();
        write_line(to, &Line::Row { row }).await?;
    }
    Ok(write_line(to, &Line::End { cut: rows.cut }).await?)
}

async fn export(
    operator: &Operator,
    request: &ActorRequest,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), Stop> {
    let mut file = operator.export(request).await?;
    let length = file.metadata().map_err(Failure::failed)?.len();
    write_line(to, &Line::Bytes { length }).await?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = length;
    while left > 0 {
        // Written a moment ago, so it comes from the system's cache: this does not wait for a disk.
        let read = file.read(&mut piece)?;
        if read == 0 {
            // Shorter than it was said to be: the answer has no regular end.
            return Ok(());
        }
        to.write_all(&piece[..read]).await?;
        left = left.saturating_sub(read as u64);
    }
    Ok(write_line(to, &Line::end()).await?)
}
