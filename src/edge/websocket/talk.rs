//! One socket's connection, from the 101 to its end.
//!
//! Reads ahead by one message of the one its actor handles, and those that came in the same read;
//! what its client sends beyond that waits with the client. What came together takes its turn at the
//! actor together, and what waits for the client leaves in one write. An idle connection holds no
//! buffer.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::mem::take;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wasmkeep_supervisors::event::{Closing, Message};
use wasmkeep_supervisors::limits::SOCKET_TURN_MESSAGES_MAX;
use wasmkeep_supervisors::socket::{Line, Outgoing, rules};

use super::frames::{self, Reader, Received};
use crate::edge::stream::{SHORT_READ, Stream, poll_read_short};

/// Room for a read when something has come of a frame already.
const ROOM: usize = 64 * 1024;
/// A message up to this size is copied behind its head, so that both leave in a plain write; a larger
/// one is written from where all its sockets share it.
const COPIED_BYTES_MAX: usize = 1024;
/// Frames are gathered for one write up to this size.
const GATHERED_BYTES_MAX: usize = 4 * 1024;
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
        behind: VecDeque::new(),
        brings_many: false,
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
        let mut dropped = BytesMut::with_capacity(SHORT_READ);
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
    /// Those that came together with it.
    behind: VecDeque<Message>,
    /// The actor handles several: a close that came behind them must not be heard before them.
    brings_many: bool,
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
        let lingers = poll_fn(|context| {
            loop {
                if let Some(lingers) = self.prepare(context, line, &mut bringing) {
                    return Poll::Ready(lingers);
                }
                let is_deaf = self.parked.is_some();
                if was_deaf != is_deaf {
                    was_deaf = is_deaf;
                    line.set_deaf(is_deaf);
                }
                if line.poll_cut(context).is_ready() {
                    return Poll::Ready(false);
                }
                if !self.poll_once(context, line, &mut bringing) {
                    return Poll::Pending;
                }
            }
        })
        .await;
        // What was received whole before the end is still handled before it.
        if let Some(bringing) = bringing {
            bringing.await;
        }
        if let Some(message) = self.parked.take() {
            line.bring(message, take(&mut self.behind)).await;
        }
        lingers
    }

    /// Decides what is to be done next from what has been done. At the end, says whether the client
    /// should be given time to read it.
    fn prepare<'a>(
        &mut self,
        context: &mut Context<'_>,
        line: &'a Line,
        bringing: &mut Option<Bringing<'a>>,
    ) -> Option<bool> {
        self.brings_many &= bringing.is_some();
        self.take_in(line);
        if bringing.is_none() && self.parked.is_some() {
            // What has come while others were handled goes with them.
            if self.may_read() && self.behind.is_empty() && self.incoming.is_empty() {
                self.read_more(context, line);
            }
            if let Some(message) = self.parked.take() {
                let behind = take(&mut self.behind);
                self.brings_many = !behind.is_empty();
                *bringing = Some(Box::pin(line.bring(message, behind)));
                self.take_in(line);
            }
        }
        if self.writing.is_empty()
            && let Some(payload) = self.pong.take()
        {
            self.writing.frames = frames::pong(&payload);
        }
        if self.writing.is_empty() && self.close_sent && self.has_nothing_to_wait_for() {
            return Some(true);
        }
        (self.gone && bringing.is_none()).then_some(false)
    }

    /// Does what can be done without waiting; false when that was nothing.
    fn poll_once(
        &mut self,
        context: &mut Context<'_>,
        line: &Line,
        bringing: &mut Option<Bringing<'_>>,
    ) -> bool {
        let mut moved = false;
        if bringing.as_mut().is_some_and(|bringing| bringing.as_mut().poll(context).is_ready()) {
            *bringing = None;
            moved = true;
        }
        if self.writing.is_empty()
            && !self.close_sent
            && !self.gone
            && let Poll::Ready(outgoing) = line.poll_outgoing(context)
        {
            self.put(line, outgoing);
            moved = true;
        }
        if !self.writing.is_empty()
            && !self.gone
            && let Poll::Ready(written) = self.writing.poll_write(context, &mut self.stream)
        {
            self.gone |= written.is_err();
            moved = true;
        }
        let reads = self.parked.is_none() && self.may_read();
        (reads && self.read_more(context, line)) || moved
    }

    fn may_read(&self) -> bool {
        !self.gone && self.failure.is_none() && self.pong.is_none()
    }

    /// False when nothing has come.
    fn read_more(&mut self, context: &mut Context<'_>, line: &Line) -> bool {
        let Poll::Ready(read) = self.poll_read(context, line) else { return false };
        self.gone |= read.is_err();
        self.take_in(line);
        true
    }

    fn has_nothing_to_wait_for(&self) -> bool {
        self.client_close.is_some() || self.failure.is_some()
    }

    /// Takes frames out of what has been read, up to one that has to wait.
    fn take_in(&mut self, line: &Line) {
        // Nothing follows a close.
        let answers = !self.gone && !self.close_sent;
        if !answers {
            self.pong = None;
        }
        while self.pong.is_none() && !self.has_nothing_to_wait_for() && self.may_take_in() {
            match self.reader.next(&mut self.incoming) {
                Ok(None) => break,
                // Of a closed socket nothing more reaches the actor.
                Ok(Some(Received::Message(message))) => {
                    if line.is_open() {
                        self.park(message);
                    }
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

    /// Whether the next frame may be taken: behind a message only another one.
    fn may_take_in(&self) -> bool {
        let Some(&first) = self.incoming.first() else { return false };
        match self.parked {
            None => !(self.brings_many && frames::is_close(first)),
            Some(_) => frames::is_data(first) && self.behind.len() + 1 < SOCKET_TURN_MESSAGES_MAX,
        }
    }

    fn park(&mut self, message: Message) {
        match self.parked {
            None => self.parked = Some(message),
            Some(_) => self.behind.push_back(message),
        }
    }

    /// Ready once something was read. What comes of an idle client goes through a buffer that all
    /// connections of the thread share: it is mostly short, and takes no more memory than it needs.
    fn poll_read(&mut self, context: &mut Context<'_>, line: &Line) -> Poll<io::Result<()>> {
        let read = if self.incoming.is_empty() {
            ready!(poll_read_short(&mut self.stream, &mut self.incoming, context))
        } else {
            self.incoming.reserve(ROOM);
            ready!(pin!(self.stream.read_buf(&mut self.incoming)).poll(context))
        };
        match read {
            Ok(0) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {
                line.heard();
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn put(&mut self, line: &Line, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Message(message) => {
                self.writing.put(message);
                // Large ones go alone, from where they are.
                while self.writing.has_room()
                    && let Some(message) = line.also_message(COPIED_BYTES_MAX)
                {
                    self.writing.put(message);
                }
            }
            Outgoing::Ping => self.writing.frames = frames::ping(),
            Outgoing::Close(closing) => {
                self.writing.frames = frames::close(&closing);
                self.close_sent = true;
            }
        }
    }
}

/// Frames that are being written: small ones whole, or the head of a large one and its payload, which
/// others share.
#[derive(Default)]
struct Writing {
    frames: BytesMut,
    payload: Bytes,
    /// All of it is written, and some may not have left: TLS holds it back.
    unflushed: bool,
}

impl Writing {
    fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.payload.is_empty() && !self.unflushed
    }

    fn has_room(&self) -> bool {
        self.payload.is_empty() && self.frames.len() < GATHERED_BYTES_MAX
    }

    fn put(&mut self, message: Message) {
        let copied = message.len() <= COPIED_BYTES_MAX;
        self.frames.reserve(frames::HEAD_BYTES_MAX + if copied { message.len() } else { 0 });
        frames::put_message_head(&mut self.frames, &message);
        if copied {
            self.frames.extend_from_slice(message.bytes());
        } else {
            self.payload = message.bytes().clone();
        }
    }

    /// Ready once some of it has left.
    fn poll_write<S: Stream>(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<()>> {
        if !self.unflushed {
            let written = ready!(if self.payload.is_empty() {
                Pin::new(&mut *stream).poll_write(context, &self.frames)
            } else {
                let slices = [IoSlice::new(&self.frames), IoSlice::new(&self.payload)];
                Pin::new(&mut *stream).poll_write_vectored(context, &slices)
            })?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_frames = written.min(self.frames.len());
            self.frames.advance(of_frames);
            self.payload.advance(written - of_frames);
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
