use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::Answer;

/// Longer than any event of these tests may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// A client that sends the bytes it is given, and reads answers as HTTP/1.1 frames them.
pub struct Raw(BufReader<TcpStream>);

/// What an event of `Node::busy` answers in the end.
pub const DONE: &[u8] = b"xxxx";

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connect to the node");
        stream.set_nodelay(true).expect("set an option of a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("set an option of a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("set an option of a socket");
        Self(BufReader::new(stream))
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes).expect("send to the node");
        self
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
    }

    /// Sends while answers are read.
    pub fn send_beside(&mut self, bytes: Vec<u8>) {
        let mut stream = self.0.get_ref().try_clone().expect("share a socket");
        std::thread::spawn(move || stream.write_all(&bytes));
    }

    /// Sends a request without a body, on this connection that stays open.
    pub fn get(&mut self, target: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nhost: test\r\n\r\n"));
        self.answer().expect("an answer")
    }

    /// Sends a request with a body, on this connection that stays open.
    pub fn post(&mut self, target: &str, body: &[u8]) -> Answer {
        let length = body.len();
        let head =
            format!("POST {target} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n");
        self.send([head.as_bytes(), body].concat());
        self.answer().expect("an answer")
    }

    /// Reads one answer whole; an error when it ends before its framing says so.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = self.head()?;
        answer.body = self.body(&answer)?;
        Ok(answer)
    }

    /// Reads the head of an answer whose body is still to come.
    pub fn head(&mut self) -> io::Result<Answer> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status =
            status.ok_or_else(|| io::Error::other(format!("not HTTP: {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line_bytes()?;
            if line.is_empty() {
                return Ok(Answer { status, headers, body: Vec::new() });
            }
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
            let value = line.get(colon + 1..).unwrap_or_default().trim_ascii();
            headers.push((name, value.to_vec()));
        }
    }

    fn body(&mut self, head: &Answer) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if head.status < 200 || [204, 304].contains(&head.status) {
            return Ok(body);
        }
        if head.header("transfer-encoding").is_some() {
            return self.chunks();
        }
        if let Some(length) = head.header("content-length") {
            body.resize(length.parse().map_err(io::Error::other)?, 0);
            self.0.read_exact(&mut body)?;
        } else {
            self.0.read_to_end(&mut body)?;
        }
        Ok(body)
    }

    /// The next chunk of a chunked body; none at its regular end.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let size = line.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    /// The rest of a chunked body, up to its regular end.
    pub fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk()? {
            body.extend(chunk);
        }
        Ok(body)
    }

    /// The next bytes, exactly so many.
    pub fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Everything until the server closes the connection, cleanly or not.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        rest
    }

    /// As `rest`, but an error when the connection did not end in the regular way.
    pub fn rest_to_its_end(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Whether bytes have come that were not read yet; waits for them as long.
    pub fn has_bytes_within(&mut self, wait: Duration) -> bool {
        let stream = self.0.get_ref();
        stream.set_read_timeout(Some(wait)).expect("set an option of a socket");
        let came = self.0.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        self.0.get_ref().set_read_timeout(Some(PATIENCE)).expect("set an option of a socket");
        came
    }

    pub fn finish_sending(&mut self) {
        let _ = self.0.get_ref().shutdown(Shutdown::Write);
    }

    fn line(&mut self) -> io::Result<String> {
        String::from_utf8(self.line_bytes()?).map_err(io::Error::other)
    }

    fn line_bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(whole) => Ok(whole.to_vec()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
