//! One socket's connection, from the 101 to its end.
//!
//! Reads ahead by one message of the one its actor handles, and then no further: what its client
//! sends beyond that waits with the client. An idle connection holds no buffer.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wasmkeep_supervisors::event::{Closing, Message};
use wasmkeep_supervisors::socket::{Line, Outgoing, rules};

use super::frames::{self, Reader, Received};
use crate::edge::stream::Stream;

/// Room for a read: when nothing has come of a frame yet, and when something has.
const FIRST_ROOM: usize = 4 * 1024;
const ROOM: usize = 64 * 1024;
/// How long a connection goes on reading after its end, so that its client gets the last frame.
pub const LINGER_WAIT: Duration = Duration::from_secs(1);

/// Talks until one side ends it, and says how that was.
pub async fn talk<S: Stream>(stream: S, incoming: BytesMut, line: Line) {
    line.set_deaf(false);
    let mut talk = Talk {
        stream,
        incoming,
        reader: Reader::new(),
        writing: Writing::default(),
        pong: None,
        parked: None,
        gone: false,
        close_sent: false,
        client_close: None,
        failure: None,
    };
    let lingers = talk.run(&line).await;
    let closing = talk.client_close.or(talk.failure);
    let stream = if lingers { Some(talk.stream) } else { None };
    line.end(closing.unwrap_or_else(|| Closing::new(rules::LOST, "")));
    if let Some(stream) = stream {
        linger(stream).await;
    }
}

/// Tells a client that its actor does not take it.
pub async fn refuse<S: Stream>(mut stream: S, closing: Closing) {
    let close = frames::close(&closing);
    let sends = async {
        stream.write_all(&close).await?;
        stream.flush().await
    };
    if timeout(LINGER_WAIT, sends).await.is_ok() {
        linger(stream).await;
    }
}

/// Closes, once the client has had time to read what was written.
pub async fn linger<S: Stream>(mut stream: S) {
    let read_out = async {
        stream.shutdown().await?;
        let mut dropped = BytesMut::with_capacity(FIRST_ROOM);
        while stream.read_buf(&mut dropped).await? > 0 {
            dropped.clear();
        }
        io::Result::Ok(())
    };
    let _ = timeout(LINGER_WAIT, read_out).await;
}

struct Talk<S> {
    stream: S,
    incoming: BytesMut,
    reader: Reader,
    writing: Writing,
    /// The answer to a ping. The next frame waits for it, so that pings pile up with the client.
    pong: Option<Bytes>,
    /// A message that waits for the one its actor handles.
    parked: Option<Message>,
    /// Nothing more comes of the client.
    gone: bool,
    close_sent: bool,
    client_close: Option<Closing>,
    /// What the client broke; it is not read any more.
    failure: Option<Closing>,
}

/// A message on its way to the actor.
type Bringing<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl<S: Stream> Talk<S> {
    /// Runs to the end of the connection and of the last message's event; true when the client
    /// should be given time to read the end.
    async fn run(&mut self, line: &Line) -> bool {
        let mut bringing: Option<Bringing<'_>> = None;
        let mut was_deaf = false;
        let lingers = loop {
            self.take_in(line);
            if bringing.is_none()
                && let Some(message) = self.parked.take()
            {
                bringing = Some(Box::pin(line.bring(message)));
                continue;
            }
            if self.writing.is_empty()
                && let Some(payload) = self.pong.take()
            {
                self.writing.frame = frames::pong(&payload);
            }
            if self.writing.is_empty() && self.close_sent && self.has_nothing_to_wait_for() {
                break true;
            }
            if self.gone && bringing.is_none() {
                break false;
            }
            let is_deaf = self.parked.is_some();
            if was_deaf != is_deaf {
                was_deaf = is_deaf;
                line.set_deaf(is_deaf);
            }
            let reads = !self.gone && !is_deaf && self.failure.is_none() && self.pong.is_none();
            let writes = !self.writing.is_empty() && !self.gone;
            let asks = self.writing.is_empty() && !self.close_sent && !self.gone;
            tokio::select! {
                () = poll_fn(|context| line.poll_cut(context)) => break false,
                () = bring(&mut bringing), if bringing.is_some() => bringing = None,
                moved = poll_fn(|context| self.poll_bytes(context, line, reads, writes)),
                    if reads || writes =>
                {
                    if moved.is_err() {
                        self.gone = true;
                    }
                }
                outgoing = poll_fn(|context| line.poll_outgoing(context)), if asks => {
                    self.put(outgoing);
                }
            }
        };
        // What was received whole before the end is still handled before it.
        if let Some(bringing) = bringing {
            bringing.await;
        }
        if let Some(message) = self.parked.take() {
            line.bring(message).await;
        }
        lingers
    }

    fn has_nothing_to_wait_for(&self) -> bool {
        self.client_close.is_some() || self.failure.is_some()
    }

    /// Takes frames out of what has been read, up to a message that has to wait.
    fn take_in(&mut self, line: &Line) {
        // Nothing follows a close.
        let answers = !self.gone && !self.close_sent;
        if !answers {
            self.pong = None;
        }
        while self.parked.is_none() && self.pong.is_none() && !self.has_nothing_to_wait_for() {
            match self.reader.next(&mut self.incoming) {
                Ok(None) => break,
                // Of a closed socket nothing more reaches the actor.
                Ok(Some(Received::Message(message))) => {
                    self.parked = line.is_open().then_some(message);
                }
                Ok(Some(Received::Ping(payload))) if answers => self.pong = Some(payload),
                Ok(Some(Received::Ping(_) | Received::Pong)) => {}
                Ok(Some(Received::Close(closing))) => {
                    line.client_closes(closing.clone());
                    self.client_close = Some(closing);
                }
                Err(closing) => {
                    line.close(closing.clone());
                    self.failure = Some(closing);
                }
            }
        }
        if self.incoming.is_empty() || self.has_nothing_to_wait_for() {
            self.incoming = BytesMut::new();
        }
    }

    /// Ready once something was read or written.
    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
        line: &Line,
        reads: bool,
        writes: bool,
    ) -> Poll<io::Result<()>> {
        if writes && let Poll::Ready(written) = self.writing.poll_write(context, &mut self.stream) {
            return Poll::Ready(written);
        }
        if reads { self.poll_read(context, line) } else { Poll::Pending }
    }

    fn poll_read(&mut self, context: &mut Context<'_>, line: &Line) -> Poll<io::Result<()>> {
        ready!(self.stream.poll_readable(context))?;
        let was_empty = self.incoming.is_empty();
        self.incoming.reserve(if was_empty { FIRST_ROOM } else { ROOM });
        match pin!(self.stream.read_buf(&mut self.incoming)).poll(context) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(_)) => {
                line.heard();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                if was_empty {
                    self.incoming = BytesMut::new();
                }
                Poll::Pending
            }
        }
    }

    fn put(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Message(message) => {
                self.writing.frame = frames::message_head(&message);
                self.writing.payload = message.bytes().clone();
            }
            Outgoing::Ping => self.writing.frame = frames::ping(),
            Outgoing::Close(closing) => {
                self.writing.frame = frames::close(&closing);
                self.close_sent = true;
            }
        }
    }
}

async fn bring(bringing: &mut Option<Bringing<'_>>) {
    if let Some(bringing) = bringing {
        bringing.await;
    }
}

/// A frame that is being written: its head or all of it, and the payload others share.
#[derive(Default)]
struct Writing {
    frame: BytesMut,
    payload: Bytes,
    /// All of it is written, and some may not have left: TLS holds it back.
    unflushed: bool,
}

impl Writing {
    fn is_empty(&self) -> bool {
        self.frame.is_empty() && self.payload.is_empty() && !self.unflushed
    }

    /// Ready once some of it has left.
    fn poll_write<S: Stream>(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<()>> {
        if !self.unflushed {
            let slices = [IoSlice::new(&self.frame), IoSlice::new(&self.payload)];
            let written = ready!(Pin::new(&mut *stream).poll_write_vectored(context, &slices))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_frame = written.min(self.frame.len());
            self.frame.advance(of_frame);
            self.payload.advance(written - of_frame);
            if !self.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.unflushed = true;
        }
        ready!(Pin::new(stream).poll_flush(context))?;
        *self = Self::default();
        Poll::Ready(Ok(()))
    }
}
