//! A client's socket with what has been read from it and what is still to be written.
//!
//! Everything here is polled, so that a connection can read, write and run a handler in one task.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::edge::stream::{SHORT_READ, Stream, poll_read_short};

/// A buffer that grew larger is given back once it is empty.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// How long a connection that closes with bytes unread goes on reading: a socket closed with unread
/// bytes is reset, which may cost its client the answer.
const LINGER_WAIT: Duration = Duration::from_secs(1);

pub struct Wire<S> {
    stream: S,
    pub incoming: BytesMut,
    pub outgoing: BytesMut,
    timer: Pin<Box<Sleep>>,
}

impl<S: Stream> Wire<S> {
    pub fn new(stream: S, first_deadline: Duration) -> Self {
        Self {
            stream,
            incoming: BytesMut::new(),
            outgoing: BytesMut::new(),
            timer: Box::pin(sleep(first_deadline)),
        }
    }

    /// What has been read and not used goes with the stream.
    pub fn into_parts(self) -> (S, BytesMut) {
        (self.stream, self.incoming)
    }

    /// Reads what is there, `room` bytes or a little more; 0 at the end of what the client sends.
    pub fn poll_fill(&mut self, context: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        if room <= SHORT_READ {
            return poll_read_short(&mut self.stream, &mut self.incoming, context);
        }
        self.incoming.reserve(room);
        pin!(self.stream.read_buf(&mut self.incoming)).poll(context)
    }

    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            let stream = Pin::new(&mut self.stream);
            let written = ready!(stream.poll_write(context, &self.outgoing))?;
            self.outgoing.advance(written);
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Ready once `deadline` is over. The timer is only ever moved when it fires or comes too
    /// late: deadlines move with every request and hardly any is met.
    pub fn poll_deadline(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline);
        }
    }

    /// Between two requests: gives back what a large one took.
    pub fn trim(&mut self) {
        for buffer in [&mut self.incoming, &mut self.outgoing] {
            if buffer.is_empty() && buffer.capacity() > KEPT_BYTES_MAX {
                *buffer = BytesMut::new();
            }
        }
    }

    /// Closes, once the client has had time to read what was written.
    pub async fn linger(mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let read_out = std::future::poll_fn(|context| {
            while let Ok(1..) = ready!(self.poll_fill(context, KEPT_BYTES_MAX)) {
                self.incoming.clear();
            }
            Poll::Ready(())
        });
        let _ = timeout(LINGER_WAIT, read_out).await;
    }

    /// Makes the end of the connection an error for its client, where a plain end would be taken
    /// for the end of the answer.
    pub fn reset(&self) {
        self.stream.reset();
    }
}
