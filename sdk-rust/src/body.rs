use std::io;

use crate::bindings::wasi::http::types::{
    self as wasi, IncomingBody, IncomingResponse, OutgoingBody,
};
use crate::bindings::wasi::io::poll::{Pollable, poll};
use crate::bindings::wasi::io::streams::{InputStream, OutputStream, StreamError};
use crate::outbound::{OutboundError, Upload};

/// What one read asks the host for.
const READ_BYTES: u64 = 64 * 1024;

/// The body of a request, or of the [answer](crate::outbound::Answer) to one this actor sent, read
/// piece by piece as it arrives: an [`io::Read`].
///
/// ```no_run
/// # use wasmkeep_sdk::{Request, Response, Result};
/// use std::io::{BufRead, BufReader};
///
/// fn count_lines(request: Request) -> Result<Response> {
///     let mut lines = 0u64;
///     for line in BufReader::new(request.into_body()).lines() {
///         line?;
///         lines += 1;
///     }
///     Ok(Response::text(lines.to_string()))
/// }
/// ```
#[derive(Debug)]
pub struct Body {
    /// A piece the host gave and the reader had no room for.
    piece: Vec<u8>,
    /// Where the reader is in it.
    read: usize,
    /// None once the body has ended. The stream goes first: it is a child of the body.
    source: Option<(InputStream, IncomingBody)>,
    /// Of an answer that came before the request was sent whole: the rest of the request.
    upload: Option<Upload>,
    is_answer: bool,
}

/// Why a body could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the request body is larger than 16 MiB")]
    TooLarge,
    /// With the host's words, which are for the log.
    #[error("the request body could not be read: {0}")]
    Failed(String),
    /// The body of an answer from outside.
    #[error(transparent)]
    Answer(OutboundError),
}

impl BodyError {
    pub(crate) fn status(&self) -> u16 {
        match self {
            BodyError::TooLarge => 413,
            BodyError::Failed(_) => 400,
            BodyError::Answer(_) => 500,
        }
    }

    /// What the client reads.
    pub(crate) fn message(&self) -> &'static str {
        match self {
            BodyError::TooLarge => "the request body is larger than 16 MiB",
            BodyError::Failed(_) => "the request body could not be read",
            BodyError::Answer(_) => "internal error",
        }
    }

    fn from_stream(error: &StreamError, is_answer: bool) -> Self {
        let StreamError::LastOperationFailed(error) = error else {
            return BodyError::Failed("it has ended".to_owned());
        };
        match wasi::http_error_code(error) {
            Some(code) if is_answer => BodyError::Answer(OutboundError::Failed(code)),
            Some(wasi::ErrorCode::HttpRequestBodySize(_)) => BodyError::TooLarge,
            _ => BodyError::Failed(error.to_debug_string()),
        }
    }
}

impl Body {
    /// The body of a request that had none, or whose body was taken before.
    pub(crate) fn ended() -> Self {
        Body { piece: Vec::new(), read: 0, source: None, upload: None, is_answer: false }
    }

    pub(crate) fn receive(incoming: &wasi::IncomingRequest) -> Self {
        let source = incoming.consume().and_then(|body| Ok((body.stream()?, body)));
        Body { source: source.ok(), ..Body::ended() }
    }

    /// The body of an answer, with what is left to send of the request.
    pub(crate) fn of_answer(answer: &IncomingResponse, upload: Option<Upload>) -> Self {
        let source = answer.consume().and_then(|body| Ok((body.stream()?, body)));
        Body { source: source.ok(), upload, is_answer: true, ..Body::ended() }
    }

    /// The next piece, as soon as there is one; `None` at the end. At most 64 KiB.
    ///
    /// ```no_run
    /// # use wasmkeep_sdk::{Request, Result};
    /// # fn copy(mut request: Request) -> Result<()> {
    /// while let Some(piece) = request.body().chunk()? {
    ///     println!("{} bytes arrived", piece.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn chunk(&mut self) -> crate::Result<Option<Vec<u8>>> {
        Ok(self.next_piece()?)
    }

    fn next_piece(&mut self) -> Result<Option<Vec<u8>>, BodyError> {
        if self.read < self.piece.len() {
            let rest = self.piece.split_off(self.read);
            self.piece.clear();
            self.read = 0;
            return Ok(Some(rest));
        }
        while let Some((stream, _)) = &self.source {
            match read_beside(stream, &mut self.upload) {
                // A host may wake the reader with nothing to read.
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Ok(Some(piece)),
                Err(StreamError::Closed) => self.close(),
                Err(error) => {
                    self.close();
                    return Err(BodyError::from_stream(&error, self.is_answer));
                }
            }
        }
        Ok(None)
    }

    fn close(&mut self) {
        self.source = None;
        self.upload = None;
    }

    pub(crate) fn read_all(&mut self) -> Result<Vec<u8>, BodyError> {
        let mut all = self.next_piece()?.unwrap_or_default();
        while let Some(piece) = self.next_piece()? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

/// Waits for the next piece, and sends meanwhile what there is to send.
fn read_beside(stream: &InputStream, upload: &mut Option<Upload>) -> Result<Vec<u8>, StreamError> {
    if upload.as_mut().is_some_and(Upload::go_on) {
        *upload = None;
    }
    let Some(sending) = upload.as_ref().and_then(Upload::subscribe) else {
        return stream.blocking_read(READ_BYTES);
    };
    poll(&[&stream.subscribe(), &sending]);
    stream.read(READ_BYTES)
}

impl io::Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.read == self.piece.len() {
            self.piece = self.next_piece().map_err(io::Error::other)?.unwrap_or_default();
            self.read = 0;
        }
        let rest = &self.piece[self.read..];
        let taken = rest.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&rest[..taken]);
        self.read += taken;
        Ok(taken)
    }
}

/// Where a streamed response writes its body: an [`io::Write`]. See
/// [`Response::stream`](crate::Response::stream); and
/// [`Fetch::send_stream`](crate::outbound::Fetch::send_stream), where the other side is a server.
///
/// What is written goes to the client as it is, piece by piece; a slow client makes `write` wait.
/// Once the client has left, every write fails with [`io::ErrorKind::BrokenPipe`]: let `?` end the
/// closure, nothing is logged for it.
#[derive(Debug)]
pub struct BodyWriter {
    /// Dropped in this order: each is a child of the next.
    ready: Option<Pollable>,
    stream: OutputStream,
    client_left: bool,
}

impl BodyWriter {
    /// The writer of a body that was not taken before, and what ends that body.
    pub(crate) fn of(body: Result<OutgoingBody, ()>) -> Option<(Self, OutgoingBody)> {
        let body = body.ok()?;
        let writer = BodyWriter { ready: None, stream: body.write().ok()?, client_left: false };
        Some((writer, body))
    }

    pub(crate) fn client_left(&self) -> bool {
        self.client_left
    }

    /// Waits until the client's side takes more, and says how much.
    fn room(&mut self) -> Result<usize, StreamError> {
        loop {
            match self.stream.check_write()? {
                0 => self.ready.get_or_insert_with(|| self.stream.subscribe()).block(),
                room => return Ok(usize::try_from(room).unwrap_or(usize::MAX)),
            }
        }
    }

    fn write_some(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        let taken = self.room()?.min(bytes.len());
        self.stream.write(&bytes[..taken])?;
        Ok(taken)
    }

    fn broken(&mut self) -> io::Error {
        self.client_left = true;
        io::Error::new(io::ErrorKind::BrokenPipe, "the client left")
    }
}

impl io::Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.write_some(bytes).map_err(|_| self.broken())
    }

    /// Waits until everything written so far has gone out.
    fn flush(&mut self) -> io::Result<()> {
        self.stream.blocking_flush().map_err(|_| self.broken())
    }

    /// One piece for the whole text, not one for each part of a `write!`.
    fn write_fmt(&mut self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        match text.as_str() {
            Some(text) => self.write_all(text.as_bytes()),
            None => self.write_all(text.to_string().as_bytes()),
        }
    }
}
