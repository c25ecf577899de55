//! Names of an actor's history objects in the bucket.
//!
//! ```text
//! state/<tenant>/<app>/history/<class>/<stem>/<!generation>-<!seq>.seg           segment
//!                                             <!generation>-<!seq>.mrg-<!from>   merged
//!                                             <!generation>-<!seq>.snp           snapshot
//! ```
//!
//! `!x` is `u64::MAX - x` in 16 lower-case hexadecimal digits. Listings ascend, so the newest object
//! comes first, and one page of a listing holds the head and most often the nearest snapshot.

use std::fmt;

use super::position::{Generation, Position};
use crate::address::{Address, App};

const DIGITS: usize = 16;

/// Under which an actor's history lies; ends with `/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HistoryPrefix(String);

impl HistoryPrefix {
    pub fn new(address: &Address, app: &App) -> Self {
        let Address { tenant, class, name } = address;
        Self(format!("state/{tenant}/{app}/history/{class}/{}/", name.stem()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole key of an object, below the bucket's own prefix.
    pub fn key(&self, object: ObjectKey) -> String {
        format!("{}{object}", self.0)
    }

    /// The object a listed key names; none for what is not one of this history's.
    pub fn object(&self, key: &str) -> Option<ObjectKey> {
        ObjectKey::parse(key.strip_prefix(&self.0)?)
    }
}

/// One object of a history. The order is that of listings: newest position first, and at one
/// position merged objects, the segment, the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKey {
    Segment(Position),
    /// The segments `from..=at.seq()` of one generation in one object.
    Merged {
        at: Position,
        from: u64,
    },
    Snapshot(Position),
}

impl ObjectKey {
    /// The state this object belongs to: the one after the segment at that position.
    pub fn at(self) -> Position {
        match self {
            Self::Segment(at) | Self::Merged { at, .. } | Self::Snapshot(at) => at,
        }
    }

    pub fn generation(self) -> Generation {
        self.at().generation()
    }

    /// Reads the last part of a key. Only what `Display` writes is one.
    pub fn parse(text: &str) -> Option<Self> {
        let (generation, rest) = complement(text)?;
        let (seq, rest) = complement(rest.strip_prefix('-')?)?;
        let at = Position::new(generation, seq)?;
        match rest {
            ".seg" => Some(Self::Segment(at)),
            ".snp" => Some(Self::Snapshot(at)),
            _ => {
                let (from, rest) = complement(rest.strip_prefix(".mrg-")?)?;
                let is_legal = rest.is_empty() && (1..at.seq()).contains(&from);
                is_legal.then_some(Self::Merged { at, from })
            }
        }
    }

    /// Sorts as a listing does, without making the text.
    fn rank(self) -> (u64, u64, u8, u64) {
        let at = self.at();
        let (kind, from) = match self {
            Self::Merged { from, .. } => (0, !from),
            Self::Segment(_) => (1, 0),
            Self::Snapshot(_) => (2, 0),
        };
        (!at.generation().get(), !at.seq(), kind, from)
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at();
        write!(f, "{:016x}-{:016x}", !at.generation().get(), !at.seq())?;
        match self {
            Self::Segment(_) => f.write_str(".seg"),
            Self::Merged { from, .. } => write!(f, ".mrg-{:016x}", !from),
            Self::Snapshot(_) => f.write_str(".snp"),
        }
    }
}

/// The number that the first digits stand for, and the rest of the text.
fn complement(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.split_at_checked(DIGITS)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !digits.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().map(|number| (!number, rest))
}
