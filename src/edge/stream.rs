//! What a connection runs over: TCP, or TLS over it between nodes.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite};
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
