//! Bodies on their way: the guest's to the server, and the server's to the guest.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};
use wasmtime_wasi_http::{Error, WasiBody};

use super::failure::in_the_body;
use super::headers::without_ours;
use super::open::OpenRequest;
use super::progress::Progress;

/// A request's body, which notes how far it has come.
pub struct RequestBody {
    body: WasiBody,
    progress: Arc<Progress>,
}

impl RequestBody {
    pub fn new(body: WasiBody, progress: Arc<Progress>) -> Self {
        Self { body, progress }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            self.progress.guest_owes();
            return Poll::Pending;
        };
        self.progress.went_on();
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match frame.into_trailers() {
                Ok(trailers) => Frame::trailers(without_ours(trailers)),
                Err(data) => data,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body. Its end, in whatever way, is the end of the request.
pub struct AnswerBody {
    /// None: it has ended.
    incoming: Option<Incoming>,
    open: OpenRequest,
    progress: Arc<Progress>,
    between_bytes: Duration,
    /// Runs while the guest waits for a piece.
    patience: Option<Pin<Box<Sleep>>>,
}

impl AnswerBody {
    pub fn new(
        incoming: Incoming,
        open: OpenRequest,
        progress: Arc<Progress>,
        between_bytes: Duration,
    ) -> Self {
        let mut body =
            Self { incoming: Some(incoming), open, progress, between_bytes, patience: None };
        if body.is_end_stream() {
            body.end();
        }
        body
    }

    fn end(&mut self) {
        self.incoming = None;
        self.open.end();
    }

    fn fail(&mut self, code: Error) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.end();
        Poll::Ready(Some(Err(code)))
    }

    /// Ready once the server has been silent for too long.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let patience = self
                .patience
                .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + self.between_bytes)));
            ready!(patience.as_mut().poll(context));
            // A server that is still being sent to may have nothing to say yet.
            let deadline = self.progress.since() + self.between_bytes;
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            patience.as_mut().reset(deadline);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
            match Pin::new(incoming).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.patience = None;
                    if frame.data_ref().is_some_and(Bytes::is_empty) {
                        continue;
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
                // Stopped from here: what the body makes of that is not how it ended.
                Poll::Ready(Some(Err(_)) | None) if self.open.has_ended() => {
                    return self.fail(Error::ConnectionTerminated);
                }
                Poll::Ready(Some(Err(error))) => return self.fail(in_the_body(&error)),
                Poll::Ready(None) => {
                    self.end();
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    ready!(self.poll_silence(context));
                    return self.fail(Error::ConnectionReadTimeout);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or(SizeHint::with_exact(0), Incoming::size_hint)
    }
}
