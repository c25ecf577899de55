//! The console's commands: those of `wasmkeep actor` and `tail`, over HTTP.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use wasmkeep_supervisors::event::{BodyError, BodyStream};

use crate::admin::{Operator, REQUEST_BYTES_MAX, answer_into_pipe};
use crate::edge::Commands;

/// Commands at once; one more is refused.
const AT_ONCE: usize = 32;
const PIECE_BYTES: usize = 16 * 1024;

/// `edge::Commands` over the operator of a node.
pub struct Console {
    pub operator: Arc<Operator>,
    runtime: Handle,
    places: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

impl Console {
    /// Runs its commands on the present runtime.
    pub fn new(operator: Arc<Operator>) -> Self {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Self { operator, runtime: Handle::current(), places, stopping: watch::Sender::new(false) }
    }

    /// Ends what follows the node.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }
}

impl Commands for Console {
    fn request_bytes_max(&self) -> usize {
        REQUEST_BYTES_MAX
    }

    fn run(&self, line: Vec<u8>) -> Option<BodyStream> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let mut stopping = self.stopping.subscribe();
        let stops = async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        let _on_it = self.runtime.enter();
        let pipe = answer_into_pipe(Arc::clone(&self.operator), line, stops);
        Some(Box::pin(Pieces { pipe: Box::pin(pipe), _place: place }))
    }
}

/// An answer's bytes as they come.
struct Pieces {
    pipe: Pin<Box<dyn AsyncRead + Send>>,
    _place: OwnedSemaphorePermit,
}

impl Stream for Pieces {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        let mut piece = [0; PIECE_BYTES];
        let mut buffer = ReadBuf::new(&mut piece);
        match ready!(self.pipe.as_mut().poll_read(context, &mut buffer)) {
            Ok(()) if buffer.filled().is_empty() => Poll::Ready(None),
            Ok(()) => Poll::Ready(Some(Ok(Bytes::copy_from_slice(buffer.filled())))),
            Err(_) => Poll::Ready(Some(Err(BodyError::EventFailed))),
        }
    }
}
