//! A WebSocket whose actor is on another node: bytes go to and fro as they are. What they mean (pings,
//! limits, close codes) is that node's business; here only the ends of its frames are known, so that
//! a client whose actor's node is lost still gets a close.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use wasmkeep_supervisors::event::Closing;
use wasmkeep_supervisors::ports::PeerSocket;
use wasmkeep_supervisors::socket::rules;

use super::frames;
use super::talk::{LINGER_WAIT, linger, refuse};
use crate::edge::stream::Stream;

/// Read at once of either side.
const ROOM: usize = 16 * 1024;

/// Passes bytes on until one side ends. `incoming` has come of the client already.
pub async fn splice<S: Stream>(client: S, incoming: BytesMut, owner: PeerSocket) {
    let down = BytesMut::new();
    let frames = Frames::default();
    let mut splice = Splice { client, owner, up: incoming, down, frames, owner_ended: false };
    match poll_fn(|context| splice.poll(context)).await {
        End::Client => {
            // Reset with bytes unread, the connection could lose what the client said last.
            let _ = timeout(LINGER_WAIT, read_out(splice.owner)).await;
        }
        End::Owner if splice.frames.closed => linger(splice.client).await,
        End::Owner if splice.frames.is_between() => {
            let lost = Closing::new(rules::RESTART, "the node of this actor is gone");
            refuse(splice.client, lost).await;
        }
        // Within a frame nothing can be said.
        End::Owner => splice.client.reset(),
    }
}

/// Which side ended.
enum End {
    Client,
    Owner,
}

struct Splice<S> {
    client: S,
    owner: PeerSocket,
    /// On its way to the owner.
    up: BytesMut,
    /// On its way to the client.
    down: BytesMut,
    frames: Frames,
    owner_ended: bool,
}

impl<S: Stream> Splice<S> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if let Poll::Ready(end) = self.poll_down(context) {
            return Poll::Ready(end);
        }
        self.poll_up(context)
    }

    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<End> {
        // What the owner takes no more, it may have answered: that still comes down.
        if self.owner_ended {
            return Poll::Pending;
        }
        loop {
            match poll_drain(self.owner.as_mut(), &mut self.up, context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
            }
            if ready!(self.client.poll_readable(context)).is_err() {
                return Poll::Ready(End::Client);
            }
            match ready!(poll_fill(&mut self.client, &mut self.up, context)) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Poll::Ready(End::Client),
            }
        }
    }

    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            if ready!(poll_drain(Pin::new(&mut self.client), &mut self.down, context)).is_err() {
                return Poll::Ready(End::Client);
            }
            if self.owner_ended {
                return Poll::Ready(End::Owner);
            }
            match ready!(poll_fill(&mut self.owner, &mut self.down, context)) {
                Ok(1..) => self.frames.pass(&self.down),
                Ok(0) | Err(_) => self.owner_ended = true,
            }
        }
    }
}

/// Ready once all of the buffer has left.
fn poll_drain<W: AsyncWrite + ?Sized>(
    mut to: Pin<&mut W>,
    buffer: &mut BytesMut,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !buffer.is_empty() {
        let written = ready!(to.as_mut().poll_write(context, buffer))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        buffer.advance(written);
    }
    to.poll_flush(context)
}

/// Reads into an empty buffer. One that gets nothing is given back: most sockets are idle.
fn poll_fill<R: AsyncRead + Unpin>(
    from: &mut R,
    buffer: &mut BytesMut,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    buffer.reserve(ROOM);
    let read = pin!(from.read_buf(buffer)).poll(context);
    if read.is_pending() {
        *buffer = BytesMut::new();
    }
    read
}

async fn read_out(mut owner: PeerSocket) -> io::Result<()> {
    owner.shutdown().await?;
    let mut dropped = BytesMut::with_capacity(ROOM);
    while owner.read_buf(&mut dropped).await? > 0 {
        dropped.clear();
    }
    Ok(())
}

/// Where in its frames a server is.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; 10],
    have: usize,
    /// Of the present frame's payload.
    left: u64,
    /// A close has been passed on: nothing follows it.
    closed: bool,
}

impl Frames {
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let passed = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                self.left -= passed as u64;
                bytes = &bytes[passed..];
                continue;
            }
            self.head[self.have] = bytes[0];
            self.have += 1;
            bytes = &bytes[1..];
            if let Some((_, length)) = frames::declared(&self.head[..self.have]) {
                self.left = length;
                self.have = 0;
                self.closed |= frames::is_close(self.head[0]);
            }
        }
    }

    /// A frame may follow here.
    fn is_between(&self) -> bool {
        self.left == 0 && self.have == 0
    }
}

#[cfg(test)]
mod tests;
