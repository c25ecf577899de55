//! Writes an object: header, meta, compressed pages, hash.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io::{self, Write};

use thiserror::Error;
use zstd::bulk::Compressor;

use super::header::{Description, Header, ObjectError, ObjectHash, encode_meta, wrong};
use super::pages::{LOCK_PAGE, PAGE_BYTES};

/// Raw bytes of one compressed frame, at most: what a reader must have room for at a time.
const FRAME_RAW_BYTES: usize = 4 * 1024 * 1024;

/// The pages' size in a frame is far above what a higher level would save on.
const LEVEL: i32 = 1;

/// `E` is what reading a page may fail with.
#[derive(Debug, Error)]
pub enum EncodeError<E = Infallible> {
    /// What is described cannot be: our own mistake.
    #[error(transparent)]
    Wrong(#[from] ObjectError),
    #[error("a page could not be read: {0}")]
    Page(E),
    #[error("the object could not be written: {0}")]
    Write(#[from] io::Error),
}

/// Writes the object that `description` is of, with those pages, which must ascend. `read` fills in
/// a page's bytes. Memory is bounded, however many pages there are.
pub fn encode<E>(
    description: &Description,
    pages: impl Iterator<Item = u32> + Clone,
    mut read: impl FnMut(u32, &mut [u8]) -> Result<(), E>,
    out: impl Write,
) -> Result<ObjectHash, EncodeError<E>> {
    let meta = encode_meta(&description.meta)?;
    let (mut page_count, mut raw_bytes) = (0, 0);
    let mut last = 0;
    for page in pages.clone() {
        if page <= last || page > description.db_pages || page == LOCK_PAGE {
            let why = format!("{page} after {last} of {}", description.db_pages);
            return Err(wrong("page number", 0, why).into());
        }
        page_count += 1;
        raw_bytes += (varint(page - last).as_ref().len() + PAGE_BYTES) as u64;
        last = page;
    }
    let description = description.clone();
    let header = Header { description, page_count, meta_bytes: meta.len(), raw_bytes };
    header.check()?;
    let mut out = Hashing { out, hasher: blake3::Hasher::new() };
    out.write_all(&header.encode())?;
    out.write_all(&meta)?;
    let mut raw = Vec::with_capacity(FRAME_RAW_BYTES.min(raw_bytes as usize));
    let mut last = 0;
    for page in pages {
        let number = varint(page - last);
        last = page;
        if raw.len() + number.as_ref().len() + PAGE_BYTES > FRAME_RAW_BYTES {
            out.write_all(&compressed(&raw)?)?;
            raw.clear();
        }
        raw.extend(number.as_ref());
        let start = raw.len();
        raw.resize(start + PAGE_BYTES, 0);
        read(page, &mut raw[start..]).map_err(EncodeError::Page)?;
    }
    if !raw.is_empty() {
        out.write_all(&compressed(&raw)?)?;
    }
    let hash = ObjectHash(out.hasher.finalize().into());
    out.out.write_all(&hash.0)?;
    Ok(hash)
}

struct Hashing<W> {
    out: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Hashing<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)
    }
}

/// One zstd frame. Making a context costs more than compressing a small segment with it, so each
/// thread keeps one.
fn compressed(raw: &[u8]) -> io::Result<Vec<u8>> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    }
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(LEVEL)?),
        };
        compressor.compress(raw)
    })
}

/// Seven bits a byte, the lowest first; the last byte is below 128.
pub(super) struct Varint {
    bytes: [u8; 5],
    len: usize,
}

impl AsRef<[u8]> for Varint {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

pub(super) fn varint(mut number: u32) -> Varint {
    let mut varint = Varint { bytes: [0; 5], len: 0 };
    loop {
        let byte = (number & 0x7f) as u8;
        number >>= 7;
        varint.bytes[varint.len] = if number == 0 { byte } else { byte | 0x80 };
        varint.len += 1;
        if number == 0 {
            return varint;
        }
    }
}
