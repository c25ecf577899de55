//! `.pos`, beside a closed database: which state of the bucket the file is, exactly.
//!
//! ```text
//! wasmkeep pos 1
//! <boot id of the kernel, or "synced">
//! <generation> <seq> <hash of that segment>
//! <bytes of the database> <its inode>
//! <BLAKE3 of the lines above>
//! ```
//!
//! It is written when the file is closed and all of it acknowledged, and removed before the file is
//! used again, so a crash in between leaves none. A restore uses the file only if its position is
//! the head's.

use thiserror::Error;

use super::header::{Base, ObjectHash};
use super::position::Position;

const FORMAT: &str = "wasmkeep pos ";
const VERSION: &str = "1";
const SYNCED: &str = "synced";
/// A sidecar is some 200 bytes. Whoever reads one need not read more.
const BYTES_MAX: usize = 1024;

/// What makes the file's bytes those that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The kernel that wrote it still runs: its id. What it has not put on disk yet it has in memory.
    Under(String),
    /// It was synced before the sidecar was written.
    Synced,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    pub written: Written,
    pub head: Base,
    pub bytes: u64,
    pub inode: u64,
}

/// What is on disk now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Files<'a> {
    pub boot_id: &'a str,
    pub bytes: u64,
    pub inode: u64,
    /// Of the file beside it with what was committed last.
    pub wal_bytes: u64,
}

/// Why a database file is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SidecarError {
    #[error("its line {line} is wrong: {why}")]
    Line { line: usize, why: &'static str },
    #[error("a newer wasmkeep wrote it (version {0})")]
    Newer(String),
    #[error("the machine was started anew, and the file was not synced before")]
    OtherBoot,
    #[error("it was written for another file: {0}")]
    OtherFile(&'static str),
    #[error("a WAL is beside the file: it was used since")]
    Wal,
}

impl Sidecar {
    pub fn encode(&self) -> String {
        let written = match &self.written {
            Written::Under(boot_id) => boot_id,
            Written::Synced => SYNCED,
        };
        let Base { at, hash } = self.head;
        let lines = format!(
            "{FORMAT}{VERSION}\n{written}\n{} {} {hash}\n{} {}\n",
            at.generation(),
            at.seq(),
            self.bytes,
            self.inode
        );
        format!("{lines}{}\n", blake3::hash(lines.as_bytes()).to_hex())
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, SidecarError> {
        let wrong = |line, why| SidecarError::Line { line, why };
        if bytes.len() > BYTES_MAX {
            return Err(wrong(1, "it is too long"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| wrong(1, "it is not UTF-8"))?;
        let mut lines = text.split_inclusive('\n').map(|line| line.strip_suffix('\n'));
        let mut next = |line| lines.next().flatten().ok_or(wrong(line, "it is missing or cut"));
        let version = next(1)?.strip_prefix(FORMAT).ok_or(wrong(1, "it is no sidecar"))?;
        if version != VERSION {
            return Err(SidecarError::Newer(version.into()));
        }
        let written = match next(2)? {
            SYNCED => Written::Synced,
            "" => return Err(wrong(2, "it is empty")),
            boot_id => Written::Under(boot_id.into()),
        };
        let head = head(next(3)?).ok_or(wrong(3, "no generation, seq and hash"))?;
        let (bytes, inode) = sizes(next(4)?).ok_or(wrong(4, "no two numbers"))?;
        let said = next(5)?;
        if lines.next().is_some() {
            return Err(wrong(6, "there is more than five lines"));
        }
        let sidecar = Self { written, head, bytes, inode };
        // All there is to say is said in one way, so this compares the lines above as well.
        if sidecar.encode() != text {
            return Err(wrong(5, if said.len() == 64 { "not their hash" } else { "no hash" }));
        }
        Ok(sidecar)
    }

    /// The position whose state the file is; an error when it may be another, or torn.
    pub fn trust(&self, found: Files<'_>) -> Result<Base, SidecarError> {
        match &self.written {
            Written::Under(boot_id) if boot_id != found.boot_id => Err(SidecarError::OtherBoot),
            _ if found.wal_bytes > 0 => Err(SidecarError::Wal),
            _ if found.bytes != self.bytes => Err(SidecarError::OtherFile("its length differs")),
            _ if found.inode != self.inode => Err(SidecarError::OtherFile("its inode differs")),
            _ => Ok(self.head),
        }
    }
}

fn head(line: &str) -> Option<Base> {
    let mut words = line.split(' ');
    let at = Position::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?)?;
    let digits = words.next().filter(|digits| digits.len() == 64)?;
    let mut hash = [0; 32];
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    words.next().is_none().then_some(Base { at, hash: ObjectHash(hash) })
}

fn sizes(line: &str) -> Option<(u64, u64)> {
    let (bytes, inode) = line.split_once(' ')?;
    Some((bytes.parse().ok()?, inode.parse().ok()?))
}
