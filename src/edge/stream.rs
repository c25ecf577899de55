//! What a connection runs over: TCP, or TLS over it between nodes.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

pub trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Ready when a read would bring something, or the end: an idle connection needs no buffer to
    /// wait with.
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    fn peer(&self) -> Option<SocketAddr>;

    /// Makes the end of the connection an error for its client, where a plain end would be taken
    /// for the end of the answer.
    fn reset(&self);
}

/// Read at once of what is mostly short: a request's head, messages of a WebSocket.
pub const SHORT_READ: usize = 4 * 1024;

thread_local! {
    static SHORT: RefCell<[u8; SHORT_READ]> = const { RefCell::new([0; SHORT_READ]) };
}

/// Reads what is there, up to `SHORT_READ`; 0 at the end. It goes through a buffer that all connections
/// of the thread share, so that none takes 4 KiB for what is a few bytes.
pub fn poll_read_short<S: AsyncRead + Unpin>(
    stream: &mut S,
    into: &mut BytesMut,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    SHORT.with_borrow_mut(|short| {
        let mut read = ReadBuf::new(short);
        ready!(Pin::new(stream).poll_read(context, &mut read))?;
        into.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
}

impl Stream for TcpStream {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }

    fn reset(&self) {
        let _ = self.set_zero_linger();
    }
}

impl Stream for TlsStream<TcpStream> {
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_fill_buf(context).map_ok(|_| ())
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.get_ref().0.peer()
    }

    fn reset(&self) {
        self.get_ref().0.reset();
    }
}
