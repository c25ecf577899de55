//! One HTTP/1.1 request and its answer.

use std::io::{Read, Write};

use anyhow::{Result, bail};
use tokio::io::{AsyncRead, AsyncReadExt};

const HEADERS_MAX: usize = 64;

/// A request as it is sent.
pub fn request(method: &str, path: &str) -> Vec<u8> {
    let length = if method == "POST" { "content-length: 0\r\n" } else { "" };
    format!("{method} {path} HTTP/1.1\r\nhost: bench\r\n{length}\r\n").into_bytes()
}

/// What has come of an answer.
#[derive(Default)]
pub struct Answer {
    bytes: Vec<u8>,
    head: Option<Head>,
}

#[derive(Clone, Copy)]
struct Head {
    length: usize,
    body: Body,
}

#[derive(Clone, Copy)]
enum Body {
    Sized(usize),
    Chunked,
}

impl Answer {
    fn clear(&mut self) {
        self.bytes.clear();
        self.head = None;
    }

    /// Whether all of it is there. An answer that is no success is an error: figures of failing
    /// requests say nothing.
    fn is_whole(&mut self) -> Result<bool> {
        if self.head.is_none() {
            self.head = read_head(&self.bytes)?;
        }
        let Some(Head { length, body }) = self.head else { return Ok(false) };
        let there = self.bytes.len() - length;
        Ok(match body {
            Body::Sized(size) => there >= size,
            // Only small texts come in chunks here, none of which holds the last one's form.
            Body::Chunked => self.bytes.ends_with(b"0\r\n\r\n"),
        })
    }

    /// Reads until all of it is there.
    pub async fn receive(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> Result<()> {
        self.clear();
        while !self.is_whole()? {
            if stream.read_buf(&mut self.bytes).await? == 0 {
                bail!("the server closed the connection");
            }
        }
        Ok(())
    }

    /// Sends a request and reads until all of its answer is there, on a stream that blocks.
    pub fn ask(&mut self, stream: &mut (impl Read + Write), request: &[u8]) -> Result<()> {
        stream.write_all(request)?;
        self.clear();
        while !self.is_whole()? {
            let mut piece = [0; 16 * 1024];
            match stream.read(&mut piece)? {
                0 => bail!("the server closed the connection"),
                length => self.bytes.extend_from_slice(&piece[..length]),
            }
        }
        Ok(())
    }

    /// The text of a whole answer that came in one piece.
    pub fn text(&self) -> &str {
        let from = self.head.map_or(0, |head| head.length);
        std::str::from_utf8(&self.bytes[from..]).unwrap_or_default()
    }
}

fn read_head(bytes: &[u8]) -> Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(bytes)? else { return Ok(None) };
    let code = response.code.unwrap_or_default();
    if !(code == 101 || (200..300).contains(&code)) {
        bail!("an answer {code}: {}", String::from_utf8_lossy(bytes));
    }
    let value = |name: &str| {
        let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let body = match value("content-length").map(str::parse) {
        Some(size) => Body::Sized(size?),
        None if value("transfer-encoding").is_some() => Body::Chunked,
        None => Body::Sized(0),
    };
    Ok(Some(Head { length, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fed byte by byte: whole at its last byte, and not before.
    fn whole_at(text: &str) -> usize {
        let mut answer = Answer::default();
        for (at, byte) in text.bytes().enumerate() {
            answer.bytes.push(byte);
            if answer.is_whole().expect("an answer") {
                return at + 1;
            }
        }
        0
    }

    #[test]
    fn an_answer_is_whole_at_its_last_byte() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ] {
            assert_eq!(whole_at(text), text.len(), "{text}");
        }
    }

    #[test]
    fn a_failure_is_no_figure() {
        let mut answer = Answer::default();
        answer.bytes.extend_from_slice(b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n");
        assert!(answer.is_whole().is_err_and(|error| error.to_string().contains("503")));
    }
}
