//! Lines of JSON over bytes, each of a bounded length.

use std::io::{self, ErrorKind};

use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Reads one line without its end; none where the bytes end.
pub async fn read_line(
    from: &mut (impl AsyncBufRead + Unpin),
    bytes_max: usize,
) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = bytes_max as u64 + 1;
    from.take(most).read_until(b'\n', &mut line).await?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() >= bytes_max => {
            let why = format!("a line is longer than {bytes_max} bytes");
            Err(io::Error::new(ErrorKind::InvalidData, why))
        }
        Some(_) => Err(io::Error::new(ErrorKind::UnexpectedEof, "a line broke off")),
    }
}

pub async fn write_line(
    to: &mut (impl AsyncWrite + Unpin),
    line: &impl Serialize,
) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line).map_err(io::Error::other)?;
    bytes.push(b'\n');
    to.write_all(&bytes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_whole_and_bounded() {
        let mut bytes = &b"one\n\nfour\nfive5\n"[..];
        for expected in [&b"one"[..], b"", b"four"] {
            let line = read_line(&mut bytes, 4).await.expect("a line");
            assert_eq!(line.as_deref(), Some(expected));
        }
        let error = read_line(&mut bytes, 4).await.expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let mut cut = &b"cut"[..];
        let error = read_line(&mut cut, 10).await.expect_err("no end");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let mut nothing = &b""[..];
        assert_eq!(read_line(&mut nothing, 10).await.expect("an end"), None);
    }
}
