//! Where a segment stands in an actor's history.

use std::fmt;
use std::num::NonZeroU64;

/// The number of a hold: raised by every acquisition, never lowered, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(NonZeroU64);

impl Generation {
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// None for zero, which stands for "no generation" in stored bytes.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The generation of the next acquisition; none after 2^64 of them.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The `seq`th segment of a generation, counted from 1. Positions order by generation first: a later
/// holder's first segment is newer than an earlier holder's last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    generation: Generation,
    seq: NonZeroU64,
}

impl Position {
    /// None when either number is zero.
    pub fn new(generation: u64, seq: u64) -> Option<Self> {
        Some(Self { generation: Generation::new(generation)?, seq: NonZeroU64::new(seq)? })
    }

    /// A generation's first segment.
    pub fn first_of(generation: Generation) -> Self {
        Self { generation, seq: NonZeroU64::MIN }
    }

    pub fn generation(self) -> Generation {
        self.generation
    }

    pub fn seq(self) -> u64 {
        self.seq.get()
    }

    /// The next segment of the same generation; none after 2^64 of them.
    pub fn next(self) -> Option<Self> {
        self.seq.checked_add(1).map(|seq| Self { seq, ..self })
    }

    /// The segment before it in the same generation.
    pub fn previous(self) -> Option<Self> {
        Self::new(self.generation.get(), self.seq() - 1)
    }
}

/// As operators read it, and as it is written in records: `<generation>.<seq>`, decimal.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation, self.seq)
    }
}

impl std::str::FromStr for Position {
    type Err = ();

    /// Reads what `Display` writes, and nothing else.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (generation, seq) = text.split_once('.').ok_or(())?;
        let number = |digits: &str| digits.parse().map_err(drop);
        let position = Self::new(number(generation)?, number(seq)?).ok_or(())?;
        if position.to_string() == text { Ok(position) } else { Err(()) }
    }
}
