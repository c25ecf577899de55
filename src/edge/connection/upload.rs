//! A request's body between its connection and its handler: a piece at a time, and only when asked
//! for, so that the connection knows whether anybody wants the body at all.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix_web::error::PayloadError;
use bytes::Bytes;
use futures_core::Stream;

#[derive(Default)]
struct Shared {
    asked: bool,
    piece: Option<Result<Bytes, PayloadError>>,
    ended: bool,
    handler: Option<Waker>,
    connection: Option<Waker>,
}

impl Shared {
    fn give(&mut self, piece: Option<Result<Bytes, PayloadError>>) {
        self.ended = !matches!(piece, Some(Ok(_)));
        self.piece = piece;
        self.asked = false;
        if let Some(handler) = self.handler.take() {
            handler.wake();
        }
    }
}

pub fn channel() -> (Upload, Pieces) {
    let shared = Rc::new(RefCell::new(Shared::default()));
    (Upload(Rc::clone(&shared)), Pieces(shared))
}

/// The connection's end.
pub struct Upload(Rc<RefCell<Shared>>);

/// What the handler does about the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// It waits for the next piece.
    Piece,
    /// It has dropped the body.
    Nothing,
}

impl Upload {
    pub fn is_wanted(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    pub fn poll_demand(&self, context: &mut Context<'_>) -> Poll<Demand> {
        let mut shared = self.0.borrow_mut();
        if !self.is_wanted() {
            return Poll::Ready(Demand::Nothing);
        }
        if shared.asked {
            return Poll::Ready(Demand::Piece);
        }
        shared.connection = Some(context.waker().clone());
        Poll::Pending
    }

    pub fn give(&self, piece: Bytes) {
        self.0.borrow_mut().give(Some(Ok(piece)));
    }

    pub fn end(&self) {
        self.0.borrow_mut().give(None);
    }

    pub fn fail(&self, error: PayloadError) {
        self.0.borrow_mut().give(Some(Err(error)));
    }
}

/// A connection that goes away does not make a body look whole.
impl Drop for Upload {
    fn drop(&mut self) {
        let mut shared = self.0.borrow_mut();
        if !shared.ended {
            shared.give(Some(Err(PayloadError::Incomplete(None))));
        }
    }
}

/// The handler's end.
pub struct Pieces(Rc<RefCell<Shared>>);

impl Stream for Pieces {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut shared = self.0.borrow_mut();
        if let Some(piece) = shared.piece.take() {
            return Poll::Ready(Some(piece));
        }
        if shared.ended {
            return Poll::Ready(None);
        }
        shared.asked = true;
        shared.handler = Some(context.waker().clone());
        if let Some(connection) = shared.connection.take() {
            connection.wake();
        }
        Poll::Pending
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Some(connection) = self.0.borrow_mut().connection.take() {
            connection.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Piece = Result<Bytes, String>;

    fn next(pieces: &mut Pieces) -> Poll<Option<Piece>> {
        let mut context = Context::from_waker(Waker::noop());
        let polled = Pin::new(pieces).poll_next(&mut context);
        polled.map(|piece| piece.map(|piece| piece.map_err(|error| error.to_string())))
    }

    fn demand(upload: &Upload) -> Poll<Demand> {
        upload.poll_demand(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn nothing_is_wanted_before_the_handler_asks_or_after_it_drops_the_body() {
        let (upload, mut pieces) = channel();
        assert_eq!(demand(&upload), Poll::Pending);
        assert!(next(&mut pieces).is_pending());
        assert_eq!(demand(&upload), Poll::Ready(Demand::Piece));
        upload.give(Bytes::from_static(b"a"));
        assert_eq!(demand(&upload), Poll::Pending);
        assert_eq!(next(&mut pieces), Poll::Ready(Some(Ok(Bytes::from_static(b"a")))));
        assert_eq!(demand(&upload), Poll::Pending, "one piece at a time");
        drop(pieces);
        assert_eq!(demand(&upload), Poll::Ready(Demand::Nothing));
    }

    #[test]
    fn only_a_body_that_was_ended_looks_whole() {
        let (upload, mut pieces) = channel();
        upload.end();
        drop(upload);
        assert_eq!(next(&mut pieces), Poll::Ready(None));

        let (upload, mut pieces) = channel();
        drop(upload);
        assert!(matches!(next(&mut pieces), Poll::Ready(Some(Err(_)))));
        assert_eq!(next(&mut pieces), Poll::Ready(None));
    }
}
