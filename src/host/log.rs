//! A guest's standard output and error: whole lines, to the log, with the actor's address.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmkeep_supervisors::limits::LOG_LINE_BYTES_MAX;
use wasmkeep_supervisors::ports::GuestScope;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Makes a stream for each time the guest asks for its output.
pub struct LogStream {
    scope: Arc<dyn GuestScope>,
    is_error: bool,
}

impl LogStream {
    pub fn new(scope: Arc<dyn GuestScope>, is_error: bool) -> Self {
        Self { scope, is_error }
    }

    fn lines(&self) -> Lines {
        Lines { scope: Arc::clone(&self.scope), is_error: self.is_error, pending: Vec::new() }
    }
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.lines())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.lines())
    }
}

/// Gathers bytes into lines; a line over the limit is cut, and its rest dropped.
struct Lines {
    scope: Arc<dyn GuestScope>,
    is_error: bool,
    pending: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let room = LOG_LINE_BYTES_MAX.saturating_sub(self.pending.len());
            self.pending.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                self.emit();
            }
        }
    }

    fn emit(&mut self) {
        let line = String::from_utf8_lossy(&self.pending);
        self.scope.log(line.trim_end_matches('\r'), self.is_error);
        self.pending.clear();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            self.emit();
        }
    }
}

#[async_trait::async_trait]
impl Pollable for Lines {
    async fn ready(&mut self) {}
}

impl OutputStream for Lines {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(LOG_LINE_BYTES_MAX)
    }
}

impl AsyncWrite for Lines {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
