//! The other end: asks, and reads the lines of the answer.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use thiserror::Error;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::answer::answer;
use super::lines::{read_line, write_line};
use super::operator::Operator;
use super::protocol::{Command, Failure, LINE_BYTES_MAX, Line, Request, VERSION};
use super::tail::Over;

/// Bytes between a command and the answer it writes itself.
const PIPE_BYTES: usize = 256 * 1024;

/// Whom to ask.
pub enum Ask {
    /// A running node.
    Node(UnixStream),
    /// The data directory itself.
    Directory(Arc<Operator>),
}

/// An answer as it comes.
pub struct Session {
    from: Pin<Box<dyn AsyncBufRead + Send>>,
    /// Kept open: a node takes its end for a client that left.
    _to: Option<Box<dyn AsyncWrite + Send + Unpin>>,
}

#[derive(Debug, Error)]
pub enum ClientError {
    #[error("{}", .0.message)]
    Failed(Failure),
    #[error("the answer is not whole: {0}")]
    Broken(#[from] io::Error),
}

/// Answers a line of a request, on the present runtime. The answer ends when nobody reads it, or
/// when `stopping` is ready.
pub fn answer_into_pipe(
    operator: Arc<Operator>,
    line: Vec<u8>,
    stopping: impl Future<Output = ()> + Send + 'static,
) -> impl AsyncRead + Send + 'static {
    let (written, read) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(async move {
        let (mut dropped, mut written) = tokio::io::split(written);
        let until = std::pin::pin!(async {
            let mut nothing = [0];
            tokio::select! {
                _ = dropped.read(&mut nothing) => Over::ClientLeft,
                () = stopping => Over::NodeStops,
            }
        });
        // An error says that nobody reads any more.
        let _ = answer(&operator, &line, &mut written, until).await;
    });
    read
}

impl Ask {
    pub async fn ask(self, command: Command) -> Result<Session, ClientError> {
        let request = Request { version: VERSION, command };
        match self {
            Ask::Node(stream) => {
                let (from, mut to) = stream.into_split();
                write_line(&mut to, &request).await?;
                to.flush().await?;
                Ok(Session { from: Box::pin(BufReader::new(from)), _to: Some(Box::new(to)) })
            }
            Ask::Directory(operator) => {
                let line = serde_json::to_vec(&request).map_err(io::Error::other)?;
                let read = answer_into_pipe(operator, line, std::future::pending());
                Ok(Session { from: Box::pin(BufReader::new(read)), _to: None })
            }
        }
    }
}

impl Session {
    /// The next line; a `failed` one is an error.
    pub async fn line(&mut self) -> Result<Line, ClientError> {
        let line = read_line(&mut self.from, LINE_BYTES_MAX).await?;
        let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, "it broke off");
        let line = line.ok_or_else(ended)?;
        let line = serde_json::from_slice(&line).map_err(|error| {
            let why = format!("a line of another version of wasmkeep ({error})");
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        match line {
            Line::Failed(failure) => Err(ClientError::Failed(failure)),
            line => Ok(line),
        }
    }

    /// The bytes that follow a `bytes` line.
    pub fn bytes(&mut self, length: u64) -> impl AsyncRead + Unpin + '_ {
        (&mut self.from).take(length)
    }
}
