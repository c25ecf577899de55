//! The head of an object: what it is, where it stands and what it applies on.
//!
//! ```text
//!   0  "WKS1"               4  version 1          5  kind          6  flags 1: zstd   7  page shift 12
//!   8  generation u64      16  seq u64
//!  24  base generation    32  base seq           40  base hash [32]    all zero: applies on nothing
//!  72  hash [32] of the segment it stands for: merged and snapshot; else zero
//! 104  first seq covered  112  session [16]      128  wall clock, ms u64
//! 136  database's pages u32    140  pages held u32    144  frames u32    148  bytes of meta u32
//! 152  bytes of the body before compression u64
//! 160  meta, body, BLAKE3 [32] of everything before it
//! ```
//!
//! Numbers are little-endian.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::key::ObjectKey;
use super::pages::{PAGE_BYTES, whole_count};
use super::position::Position;

pub(super) const HEADER_BYTES: usize = 160;
pub(super) const TRAILER_BYTES: usize = 32;
/// Lines of meta are a few, each short.
pub(super) const META_BYTES_MAX: usize = 4096;

const MAGIC: [u8; 4] = *b"WKS1";
const VERSION: u8 = 1;
const ZSTD: u8 = 1;
const PAGE_SHIFT: u8 = PAGE_BYTES.trailing_zeros() as u8;

/// The hash of a whole object, which its last 32 bytes are: BLAKE3 of everything before them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectHash(pub [u8; 32]);

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The pages that one or more whole commits changed.
    Delta,
    /// Every page, after the host's VACUUM or as an adopted file.
    Full,
    /// Every page of an empty database: the actor was deleted.
    Reset,
    /// No page. Its acknowledgement makes what its writer restored the history.
    Fence,
    /// The pages that a run of one generation's segments changed.
    Merged,
    /// Every page, after the segment at its position.
    Snapshot,
}

impl Kind {
    const ALL: [(Self, u8); 6] = [
        (Self::Delta, 1),
        (Self::Full, 2),
        (Self::Reset, 3),
        (Self::Fence, 4),
        (Self::Merged, 5),
        (Self::Snapshot, 6),
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, number)| *number == byte).map(|(kind, _)| *kind)
    }

    fn byte(self) -> u8 {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, number)| *number)
    }

    /// Whether it holds every page, so that a restore needs nothing older.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Full | Self::Reset | Self::Snapshot)
    }

    /// Whether it is a link of the chain itself, and not a stand-in for some.
    pub fn is_segment(self) -> bool {
        !matches!(self, Self::Merged | Self::Snapshot)
    }
}

/// A segment another applies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    pub at: Position,
    pub hash: ObjectHash,
}

/// Short values that go with an object, by name. Names have lower-case letters and `_`; values no
/// control characters.
pub type Meta = BTreeMap<String, String>;

/// What an object says of itself, apart from its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub kind: Kind,
    /// The state it leads to: the one after the segment at this position.
    pub at: Position,
    /// What it applies on; none for a first segment, and for a snapshot.
    pub base: Option<Base>,
    /// Of a merged object or a snapshot: the segment at its position.
    pub stands_for: Option<ObjectHash>,
    /// The first segment it covers; for all but merged objects that at `at`.
    pub from: u64,
    /// The session of the hold that wrote it, for diagnosis.
    pub session: [u8; 16],
    /// The writer's wall clock, for people: nothing is decided by it.
    pub wall_ms: u64,
    /// Pages of the database at `at`.
    pub db_pages: u32,
    /// WAL frames that its pages were taken from.
    pub frames: u32,
    pub meta: Meta,
}

/// Why bytes are no object that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    #[error("it has {found} bytes where at least {needed} are needed")]
    Cut { needed: u64, found: u64 },
    #[error("it begins with {found:02x?} and not with \"WKS1\": it is no object of a history")]
    Foreign { found: [u8; 4] },
    /// A newer node wrote it; this one must be upgraded.
    #[error("a newer wasmkeep wrote it ({what}): upgrade this node")]
    Newer { what: String },
    #[error("its {field} at byte {at} is wrong: {why}")]
    Field { field: &'static str, at: usize, why: String },
    #[error("its bytes hash to {found} and its last 32 bytes say {said}: it is damaged")]
    Hash { said: ObjectHash, found: ObjectHash },
    #[error("it could not be read: {0}")]
    Unreadable(String),
}

/// A description with the sizes of what follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub description: Description,
    pub page_count: u32,
    pub meta_bytes: usize,
    pub raw_bytes: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let Description { kind, at, base, stands_for, .. } = &self.description;
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend([VERSION, kind.byte(), ZSTD, PAGE_SHIFT]);
        let numbers = |at: Option<Position>| {
            at.map_or([0, 0], |at| [at.generation().get(), at.seq()]).map(u64::to_le_bytes)
        };
        bytes.extend(numbers(Some(*at)).as_flattened());
        bytes.extend(numbers(base.map(|base| base.at)).as_flattened());
        bytes.extend(base.map_or([0; 32], |base| base.hash.0));
        bytes.extend(stands_for.map_or([0; 32], |hash| hash.0));
        bytes.extend(self.description.from.to_le_bytes());
        bytes.extend(self.description.session);
        bytes.extend(self.description.wall_ms.to_le_bytes());
        bytes.extend(self.description.db_pages.to_le_bytes());
        bytes.extend(self.page_count.to_le_bytes());
        bytes.extend(self.description.frames.to_le_bytes());
        bytes.extend((self.meta_bytes as u32).to_le_bytes());
        bytes.extend(self.raw_bytes.to_le_bytes());
        bytes.try_into().expect("the fields above are 160 bytes")
    }

    /// Reads the fixed part; the meta is still to come.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ObjectError> {
        let fields = Fields(bytes);
        let magic = fields.array::<4>(0);
        if magic != MAGIC {
            return Err(ObjectError::Foreign { found: magic });
        }
        if bytes[4] > VERSION {
            return Err(ObjectError::Newer { what: format!("version {} of the format", bytes[4]) });
        }
        if bytes[4] != VERSION {
            return Err(wrong("version", 4, format!("there is no version {}", bytes[4])));
        }
        let kind = Kind::from_byte(bytes[5])
            .ok_or_else(|| wrong("kind", 5, format!("there is no kind {}", bytes[5])))?;
        if bytes[6] != ZSTD {
            return Err(wrong("flags", 6, format!("{:#04x}, and 0x01 is known", bytes[6])));
        }
        if bytes[7] != PAGE_SHIFT {
            let why = format!("2^{} bytes, and databases have pages of 4096", bytes[7]);
            return Err(wrong("page size", 7, why));
        }
        let at = Position::new(fields.u64(8), fields.u64(16))
            .ok_or_else(|| wrong("position", 8, "both numbers count from 1".into()))?;
        let header = Self {
            description: Description {
                kind,
                at,
                base: base(&fields)?,
                stands_for: Some(ObjectHash(fields.array(72))).filter(|hash| hash.0 != [0; 32]),
                from: fields.u64(104),
                session: fields.array(112),
                wall_ms: fields.u64(128),
                db_pages: fields.u32(136),
                frames: fields.u32(144),
                meta: Meta::new(),
            },
            page_count: fields.u32(140),
            meta_bytes: fields.u32(148) as usize,
            raw_bytes: fields.u64(152),
        };
        header.check()?;
        Ok(header)
    }

    /// What holds between the fields. An encoder keeps to it as a decoder does.
    pub fn check(&self) -> Result<(), ObjectError> {
        let Description { kind, at, base, stands_for, from, db_pages, .. } = &self.description;
        if kind.is_segment() != stands_for.is_none() {
            let why = "merged objects and snapshots name the segment they stand for, others none";
            return Err(wrong("hash of a segment", 72, why.into()));
        }
        let covers =
            if *kind == Kind::Merged { (1..at.seq()).contains(from) } else { *from == at.seq() };
        if !covers {
            return Err(wrong("first seq", 104, format!("{from} for {kind:?} at {at}")));
        }
        self.check_base(*kind, *at, *base, *from)?;
        let whole = whole_count(*db_pages);
        let count = self.page_count;
        let fits = match kind {
            Kind::Full | Kind::Reset | Kind::Snapshot => count == whole && count > 0,
            Kind::Delta | Kind::Merged => count <= whole && count > 0,
            Kind::Fence => count == 0,
        };
        if !fits {
            let why = format!("{count} in a {kind:?} of a database of {db_pages}");
            return Err(wrong("number of pages", 140, why));
        }
        if self.meta_bytes > META_BYTES_MAX {
            let why = format!("{} bytes, and at most {META_BYTES_MAX} are", self.meta_bytes);
            return Err(wrong("length of meta", 148, why));
        }
        // A page's number takes 1 to 5 bytes.
        let pages = u64::from(count);
        let page = PAGE_BYTES as u64;
        if !(pages * (page + 1)..=pages * (page + 5)).contains(&self.raw_bytes) {
            let why = format!("{} bytes for {count} pages", self.raw_bytes);
            return Err(wrong("length of the body", 152, why));
        }
        Ok(())
    }

    fn check_base(
        &self,
        kind: Kind,
        at: Position,
        base: Option<Base>,
        from: u64,
    ) -> Result<(), ObjectError> {
        let refused = |why: String| Err(wrong("base", 24, why));
        match base {
            Some(base) if kind == Kind::Snapshot => {
                refused(format!("a snapshot applies on nothing, and this one on {}", base.at))
            }
            Some(base) if base.at.generation() == at.generation() => {
                let follows = base.at.seq().checked_add(1) == Some(from);
                if follows { Ok(()) } else { refused(format!("{} is not before {from}", base.at)) }
            }
            Some(base) if base.at.generation() > at.generation() => {
                refused(format!("{} is of a later generation than {at}", base.at))
            }
            _ if from != 1 && kind != Kind::Snapshot => {
                refused(format!("segment {from} of a generation applies on the one before it"))
            }
            _ => Ok(()),
        }
    }
}

impl Description {
    /// The key it belongs under.
    pub fn key(&self) -> ObjectKey {
        match self.kind {
            Kind::Merged => ObjectKey::Merged { at: self.at, from: self.from },
            Kind::Snapshot => ObjectKey::Snapshot(self.at),
            _ => ObjectKey::Segment(self.at),
        }
    }
}

fn base(fields: &Fields<'_>) -> Result<Option<Base>, ObjectError> {
    let (generation, seq, hash) = (fields.u64(24), fields.u64(32), fields.array::<32>(40));
    match Position::new(generation, seq) {
        Some(at) => Ok(Some(Base { at, hash: ObjectHash(hash) })),
        None if generation == 0 && seq == 0 && hash == [0; 32] => Ok(None),
        None => {
            Err(wrong("base", 24, format!("{generation}.{seq} is neither a position nor none")))
        }
    }
}

/// Lines `name=value`, in the order of the names.
pub(super) fn encode_meta(meta: &Meta) -> Result<Vec<u8>, ObjectError> {
    let lines: Vec<String> = meta.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    let text = lines.concat();
    decode_meta(text.as_bytes())?;
    Ok(text.into_bytes())
}

pub(super) fn decode_meta(bytes: &[u8]) -> Result<Meta, ObjectError> {
    let refused = |offset: usize, why: &str| wrong("meta", HEADER_BYTES + offset, why.into());
    if bytes.len() > META_BYTES_MAX {
        return Err(refused(0, "it is too long"));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| refused(error.valid_up_to(), "it is not UTF-8"))?;
    let mut meta = Meta::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let pair = line.strip_suffix('\n').and_then(|line| line.split_once('='));
        let (name, value) = pair.ok_or_else(|| refused(offset, "a line is no name=value"))?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if !is_name || value.chars().any(char::is_control) {
            return Err(refused(offset, "a name has a-z and _, a value no control characters"));
        }
        if meta.last_key_value().is_some_and(|(last, _)| last.as_str() >= name) {
            return Err(refused(offset, "names ascend, and none stands twice"));
        }
        meta.insert(name.into(), value.into());
        offset += line.len();
    }
    Ok(meta)
}

pub(super) fn wrong(field: &'static str, at: usize, why: String) -> ObjectError {
    ObjectError::Field { field, at, why }
}

struct Fields<'a>(&'a [u8; HEADER_BYTES]);

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.0[at..at + N]);
        array
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }
}
