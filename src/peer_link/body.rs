//! A request's body on its way to a peer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::Notify;
use wasmkeep_supervisors::event::{BodyError, BodyStream};

/// What is sent after a request's head.
pub enum Outgoing {
    Whole(Bytes),
    Gated(Gate),
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let piece = match &mut *self {
            Outgoing::Whole(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Outgoing::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Outgoing::Gated(gate) => ready!(gate.poll_piece(context)),
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Outgoing::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outgoing::Gated(_) => SizeHint::default(),
        }
    }
}

/// A body that is not read before the peer's actor asks for it: up to then it can go elsewhere, and
/// its client has not been told to send it.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    ended: Notify,
}

struct State {
    /// None once it has ended, or was taken back.
    body: Option<BodyStream>,
    is_open: bool,
    /// So many bytes were sent.
    sent: usize,
    connection: Option<Waker>,
}

impl Gate {
    pub fn before(body: BodyStream) -> Self {
        let state = State { body: Some(body), is_open: false, sent: 0, connection: None };
        Self(Arc::new(Shared { state: Mutex::new(state), ended: Notify::new() }))
    }

    /// The peer's actor asks for the body.
    pub fn open(&self) {
        let mut state = self.lock();
        state.is_open = true;
        if let Some(connection) = state.connection.take() {
            connection.wake();
        }
    }

    /// The body as it came, unless any of it may have been read.
    pub fn take_back(&self) -> Option<BodyStream> {
        let mut state = self.lock();
        if state.is_open { None } else { state.body.take() }
    }

    pub fn is_open(&self) -> bool {
        self.lock().is_open
    }

    pub fn has_ended(&self) -> bool {
        let state = self.lock();
        state.is_open && state.body.is_none()
    }

    /// Returns once all of it has been sent.
    pub async fn ended(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.has_ended() {
                return;
            }
            ended.await;
        }
    }

    fn poll_piece(&self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let mut state = self.lock();
        if !state.is_open {
            state.connection = Some(context.waker().clone());
            return Poll::Pending;
        }
        let Some(body) = &mut state.body else { return Poll::Ready(None) };
        let piece = match ready!(body.as_mut().poll_next(context)) {
            Some(Ok(piece)) => {
                state.sent += piece.len();
                return Poll::Ready(Some(Ok(piece)));
            }
            // The peer finds it too large by its own count, of which it hands on nothing. A body
            // that broke off here would cost the actor's answer too.
            Some(Err(BodyError::TooLarge(most))) => {
                Some(Ok(Bytes::from(vec![0; (most + 1).saturating_sub(state.sent)])))
            }
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        state.body = None;
        self.0.ended.notify_waiters();
        Poll::Ready(piece)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A stream that panicked is not polled again: its connection is gone with the panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::sync::mpsc;

    use super::*;

    struct Pieces(mpsc::UnboundedReceiver<Result<Bytes, BodyError>>);

    impl futures_core::Stream for Pieces {
        type Item = Result<Bytes, BodyError>;

        fn poll_next(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Self::Item>> {
            self.0.poll_recv(context)
        }
    }

    fn gate() -> (mpsc::UnboundedSender<Result<Bytes, BodyError>>, Gate) {
        let (pieces, given) = mpsc::unbounded_channel();
        (pieces, Gate::before(Box::pin(Pieces(given))))
    }

    fn polled(gate: &Gate) -> Poll<Option<Result<Bytes, BodyError>>> {
        gate.poll_piece(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn nothing_is_read_before_it_is_asked_for() {
        let (pieces, gate) = gate();
        pieces.send(Ok(Bytes::from_static(b"x"))).expect("it is open");
        assert!(polled(&gate).is_pending());
        assert!(!gate.has_ended());
        gate.open();
        assert_eq!(polled(&gate), Poll::Ready(Some(Ok(Bytes::from_static(b"x")))));
        drop(pieces);
        assert_eq!(polled(&gate), Poll::Ready(None));
        assert!(gate.has_ended());
    }

    #[test]
    fn what_was_not_read_is_given_back_and_nothing_else() {
        let (_pieces, unread) = gate();
        assert!(unread.take_back().is_some());
        assert!(unread.take_back().is_none());
        let (_pieces, asked_for) = gate();
        asked_for.open();
        assert!(asked_for.take_back().is_none());
    }

    #[test]
    fn a_body_that_is_too_large_is_so_by_the_peers_count_too() {
        let (pieces, gate) = gate();
        gate.open();
        pieces.send(Ok(Bytes::from_static(b"1234"))).expect("it is open");
        pieces.send(Err(BodyError::TooLarge(10))).expect("it is open");
        let mut total = 0;
        while let Poll::Ready(Some(Ok(piece))) = polled(&gate) {
            total += piece.len();
        }
        assert_eq!(total, 11);
        assert_eq!(polled(&gate), Poll::Ready(None));
    }

    #[test]
    fn a_client_that_leaves_breaks_the_body_off() {
        let (pieces, gate) = gate();
        gate.open();
        pieces.send(Err(BodyError::SenderLeft)).expect("it is open");
        assert_eq!(polled(&gate), Poll::Ready(Some(Err(BodyError::SenderLeft))));
    }
}
