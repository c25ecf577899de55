//! A WebSocket's bytes, and its place among the requests of its peer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;

pub struct Held {
    stream: TokioIo<Upgraded>,
    _place: OwnedSemaphorePermit,
}

impl Held {
    pub fn new(upgraded: Upgraded, place: OwnedSemaphorePermit) -> Self {
        Self { stream: TokioIo::new(upgraded), _place: place }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TokioIo<Upgraded>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Held {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
