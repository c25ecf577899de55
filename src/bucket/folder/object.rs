//! One object in a file: its version, then its body.
//!
//! ```text
//! wasmkeep object 1
//! <version: 32 hexadecimal digits of the body's SHA-256>
//! <body>
//! ```

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use wasmkeep_supervisors::limits::BUCKET_OBJECT_BYTES_MAX;
use wasmkeep_supervisors::ports::{BucketTime, ETag};

const FORMAT: &str = "wasmkeep object 1\n";
const DIGEST_BYTES: usize = 16;
const HEADER_BYTES: usize = FORMAT.len() + 2 * DIGEST_BYTES + 1;

/// An object's file, opened, and what it says before the body.
pub struct Opened {
    file: File,
    pub etag: ETag,
    pub bytes: u64,
    pub modified: BucketTime,
}

pub fn etag_of(body: &[u8]) -> ETag {
    let digest = Sha256::digest(body);
    let digits: String = digest[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    ETag::new(digits).expect("digits are a version")
}

/// What stands before the body.
pub fn header(etag: &ETag) -> String {
    format!("{FORMAT}{etag}\n")
}

/// None when there is no object.
pub fn open(path: &Path) -> io::Result<Option<Opened>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header).map_err(|_| damaged("its header is cut"))?;
    let etag = etag_in(&header).ok_or_else(|| damaged("it does not begin as one"))?;
    let bytes = found.len().saturating_sub(HEADER_BYTES as u64);
    Ok(Some(Opened { file, etag, bytes, modified: time(found.modified()?) }))
}

impl Opened {
    /// The body, if it is the one that the version is of.
    pub fn body(mut self) -> io::Result<Bytes> {
        if self.bytes > BUCKET_OBJECT_BYTES_MAX as u64 {
            return Err(damaged("it is too large"));
        }
        let mut body = Vec::with_capacity(usize::try_from(self.bytes).unwrap_or_default());
        self.file.read_to_end(&mut body)?;
        if etag_of(&body) != self.etag {
            return Err(damaged("its body is not what was written"));
        }
        Ok(body.into())
    }
}

fn etag_in(header: &[u8]) -> Option<ETag> {
    let digits = header.strip_prefix(FORMAT.as_bytes())?.strip_suffix(b"\n")?;
    let is_digest = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_digest)?;
    ETag::new(digits)
}

fn damaged(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the file is no object: {why}"))
}

pub fn time(of: SystemTime) -> BucketTime {
    let since = of.duration_since(UNIX_EPOCH).unwrap_or_default();
    BucketTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
