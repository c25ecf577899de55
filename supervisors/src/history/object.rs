//! Reads an object, in two passes of bounded memory: first everything is hashed and the head
//! checked, then the pages are taken out.

use std::io::{BufReader, ErrorKind, Read};

use thiserror::Error;
use zstd::stream::read::Decoder;

use super::header::{
    Description, HEADER_BYTES, Header, ObjectError, ObjectHash, TRAILER_BYTES, decode_meta, wrong,
};
use super::pages::{LOCK_PAGE, PAGE_BYTES};

/// A frame has at most 4 MiB before it is compressed, so no reader needs a larger window.
const WINDOW_LOG: u32 = 22;

const PIECE_BYTES: usize = 64 * 1024;

/// An object whose bytes were found whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub description: Description,
    pub hash: ObjectHash,
    page_count: u32,
    raw_bytes: u64,
    body: std::ops::Range<u64>,
}

/// Why the pages of an object could not all be taken out. `E` is what taking one may fail with.
#[derive(Debug, Error)]
pub enum PagesError<E = std::convert::Infallible> {
    #[error(transparent)]
    Object(ObjectError),
    #[error("{0}")]
    Page(E),
}

impl Object {
    /// Reads `length` bytes of `from` and checks them: the hash over all of them, and the head.
    pub fn check(from: &mut impl Read, length: u64) -> Result<Self, ObjectError> {
        let least = (HEADER_BYTES + TRAILER_BYTES) as u64;
        if length < least {
            return Err(ObjectError::Cut { needed: least, found: length });
        }
        let mut hasher = blake3::Hasher::new();
        let mut header_bytes = [0; HEADER_BYTES];
        read_exact(from, &mut header_bytes, length)?;
        hasher.update(&header_bytes);
        let mut header = Header::decode(&header_bytes)?;
        let needed = least + header.meta_bytes as u64;
        if length < needed {
            return Err(ObjectError::Cut { needed, found: length });
        }
        let mut meta = vec![0; header.meta_bytes];
        read_exact(from, &mut meta, length)?;
        hasher.update(&meta);
        let body_bytes = length - needed;
        let mut left = body_bytes;
        let mut piece = vec![0; PIECE_BYTES.min(left as usize)];
        while left > 0 {
            let next = &mut piece[..PIECE_BYTES.min(left as usize)];
            read_exact(from, next, length)?;
            hasher.update(next);
            left -= next.len() as u64;
        }
        let mut said = [0; TRAILER_BYTES];
        read_exact(from, &mut said, length)?;
        let (said, found) = (ObjectHash(said), ObjectHash(hasher.finalize().into()));
        if said != found {
            return Err(ObjectError::Hash { said, found });
        }
        header.description.meta = decode_meta(&meta)?;
        let start = (HEADER_BYTES + meta.len()) as u64;
        Ok(Self {
            description: header.description,
            hash: found,
            page_count: header.page_count,
            raw_bytes: header.raw_bytes,
            body: start..start + body_bytes,
        })
    }

    /// As `check`, of an object in memory.
    pub fn check_bytes(bytes: &[u8]) -> Result<Self, ObjectError> {
        Self::check(&mut &*bytes, bytes.len() as u64)
    }

    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Where the pages' part is in the object's bytes.
    pub fn body(&self) -> std::ops::Range<u64> {
        self.body.clone()
    }

    /// Gives each page to `take`, in ascending order. `body` reads the pages' part.
    pub fn pages<E>(
        &self,
        body: impl Read,
        mut take: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), PagesError<E>> {
        let mut raw = self.decoder(body).map_err(PagesError::Object)?;
        let mut page = vec![0; PAGE_BYTES];
        let mut number = 0;
        for _ in 0..self.page_count {
            number = self.next_number(&mut raw, number).map_err(PagesError::Object)?;
            raw.fill(&mut page).map_err(PagesError::Object)?;
            take(number, &page).map_err(PagesError::Page)?;
        }
        raw.end(self.raw_bytes).map_err(PagesError::Object)
    }

    /// As `pages`, of an object in memory: the bytes that `check_bytes` read.
    pub fn pages_of<E>(
        &self,
        bytes: &[u8],
        take: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), PagesError<E>> {
        let (start, end) = (self.body.start as usize, self.body.end as usize);
        let body = bytes.get(start..end).ok_or(ObjectError::Cut {
            needed: self.body.end + TRAILER_BYTES as u64,
            found: bytes.len() as u64,
        });
        self.pages(body.map_err(PagesError::Object)?, take)
    }

    fn decoder<R: Read>(&self, body: R) -> Result<Raw<R>, ObjectError> {
        let length = self.body.end - self.body.start;
        if self.page_count == 0 {
            let empty = length == 0;
            return if empty { Ok(Raw::nothing()) } else { Err(wrong_body(0, "it has no pages")) };
        }
        let unreadable = |error: std::io::Error| ObjectError::Unreadable(error.to_string());
        let mut decoder = Decoder::new(body.take(length)).map_err(unreadable)?;
        decoder.window_log_max(WINDOW_LOG).map_err(unreadable)?;
        Ok(Raw { decoder: Some(decoder), read: 0 })
    }

    /// Numbers are written as their distance from the one before.
    fn next_number<R: Read>(&self, raw: &mut Raw<R>, last: u32) -> Result<u32, ObjectError> {
        let at = raw.read;
        let distance = raw.varint()?;
        let number = last.checked_add(distance).filter(|_| distance > 0);
        let db_pages = self.description.db_pages;
        number.filter(|number| *number <= db_pages && *number != LOCK_PAGE).ok_or_else(|| {
            wrong_body(at, &format!("page {last} + {distance} of a database of {db_pages}"))
        })
    }
}

/// The body before it was compressed.
struct Raw<R: Read> {
    decoder: Option<Decoder<'static, BufReader<std::io::Take<R>>>>,
    read: u64,
}

impl<R: Read> Raw<R> {
    fn nothing() -> Self {
        Self { decoder: None, read: 0 }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ObjectError> {
        let at = self.read;
        let Some(decoder) = &mut self.decoder else { return Err(wrong_body(at, "it ends")) };
        decoder.read_exact(bytes).map_err(|error| wrong_body(at, &error.to_string()))?;
        self.read += bytes.len() as u64;
        Ok(())
    }

    fn varint(&mut self) -> Result<u32, ObjectError> {
        let at = self.read;
        let mut number = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let mut byte = [0];
            self.fill(&mut byte)?;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                let is_short = shift == 0 || byte[0] > 0;
                let number = u32::try_from(number).ok().filter(|_| is_short);
                return number.ok_or_else(|| wrong_body(at, "a page's number is none"));
            }
        }
        Err(wrong_body(at, "a page's number is too long"))
    }

    /// There must be no more, and as much as the head says.
    fn end(mut self, raw_bytes: u64) -> Result<(), ObjectError> {
        let at = self.read;
        if at != raw_bytes {
            return Err(wrong_body(
                at,
                &format!("it has {at} bytes and the head says {raw_bytes}"),
            ));
        }
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        match decoder.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(wrong_body(at, "there is more after the last page")),
            Err(error) => Err(wrong_body(at, &error.to_string())),
        }
    }
}

/// `at` counts bytes before compression.
fn wrong_body(at: u64, why: &str) -> ObjectError {
    wrong("body, uncompressed,", at as usize, why.to_owned())
}

fn read_exact(from: &mut impl Read, bytes: &mut [u8], length: u64) -> Result<(), ObjectError> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            ObjectError::Unreadable(format!("it ended before its {length} bytes"))
        }
        _ => ObjectError::Unreadable(error.to_string()),
    })
}
