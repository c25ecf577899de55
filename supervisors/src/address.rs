//! Who an actor is: `tenant/class/name`, and how that is written in URLs, headers and file names.
//!
//! Promises: every distinct name is its own actor (no Unicode normalisation, no case folding), and
//! one reading of a name holds everywhere. Nothing here is repaired: what is not a legal name is
//! refused with the reason.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::limits::{IDENTIFIER_BYTES_MAX, NAME_BYTES_MAX};

/// Names longer than this are shortened in file names and bucket keys.
const STEM_NAME_BYTES_MAX: usize = 100;
/// How much of a shortened name stays readable.
const STEM_PREFIX_BYTES: usize = 64;

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum AddressError {
    #[error("{what} {given:?} is not of the form [a-z][a-z0-9-]{{0,63}}")]
    Identifier { what: &'static str, given: String },
    #[error("the actor's name is empty")]
    NameEmpty,
    #[error("the actor's name has {0} bytes; {NAME_BYTES_MAX} is the most")]
    NameTooLong(usize),
    #[error("an actor's name cannot be \".\" or \"..\"")]
    NameIsDots,
    #[error("an actor's name cannot hold \"/\"")]
    NameHasSlash,
    #[error("an actor's name cannot hold control characters")]
    NameHasControl,
    #[error("the actor's name is not UTF-8 once percent-decoded")]
    NameNotUtf8,
    #[error("the actor's name has a \"%\" that two hexadecimal digits do not follow")]
    NameBadEscape,
    #[error("an actor's address is /actor/<class>/<name>; {0} is missing")]
    Incomplete(&'static str),
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, AddressError> {
                if is_identifier(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(AddressError::Identifier { what: $what, given: text.to_owned() })
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($what, "({})"), self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = AddressError;

            fn from_str(text: &str) -> Result<Self, AddressError> {
                Self::parse(text)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

identifier!(
    /// The owner of apps.
    Tenant,
    "tenant"
);
identifier!(
    /// A set of classes that are deployed together.
    App,
    "app"
);
identifier!(
    /// One compiled component, under the name it is served by.
    Class,
    "class"
);
identifier!(
    /// One node of a cluster. It keeps its name over restarts.
    NodeId,
    "node"
);

impl Class {
    /// What stands in the place of a class in the address of the front. It is no class, so nothing
    /// can be called at it.
    fn of_the_front() -> Self {
        Self("_front".into())
    }
}

impl Tenant {
    /// The tenant of a node that serves components from its command line.
    pub fn default_tenant() -> Self {
        Self("default".into())
    }
}

impl App {
    /// The app of a node that serves components from its command line.
    pub fn default_app() -> Self {
        Self("default".into())
    }
}

fn is_identifier(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= IDENTIFIER_BYTES_MAX
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// The last part of an address: 1 to 256 bytes of UTF-8, no `/`, no control characters, not `.`
/// or `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ActorName(Arc<str>);

impl ActorName {
    pub fn parse(name: &str) -> Result<Self, AddressError> {
        if name.is_empty() {
            return Err(AddressError::NameEmpty);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(AddressError::NameTooLong(name.len()));
        }
        if name == "." || name == ".." {
            return Err(AddressError::NameIsDots);
        }
        if name.contains('/') {
            return Err(AddressError::NameHasSlash);
        }
        if name.chars().any(char::is_control) {
            return Err(AddressError::NameHasControl);
        }
        Ok(Self(name.into()))
    }

    /// Reads the name out of one segment of a URL's path, decoding it exactly once.
    pub fn from_url_segment(segment: &str) -> Result<Self, AddressError> {
        if !segment.contains('%') {
            return Self::parse(segment);
        }
        let decoded = percent_decode(segment)?;
        Self::parse(std::str::from_utf8(&decoded).map_err(|_| AddressError::NameNotUtf8)?)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As the name is written in URLs and in `x-wasmkeep-caller`: unreserved characters as they
    /// are, every other byte as `%XX`.
    pub fn percent_encoded(&self) -> String {
        let mut encoded = String::with_capacity(self.0.len());
        for byte in self.0.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                encoded.push('%');
                encoded.push_str(&format!("{byte:02X}"));
            }
        }
        encoded
    }

    /// The name as part of a file name or bucket key: lower-case hexadecimal of its bytes, and
    /// for names over 100 bytes that of the first 64, `-`, and the SHA-256 of the whole.
    ///
    /// Two names never share a stem: `-` is no hexadecimal digit, so the two forms cannot meet.
    /// A shortened stem cannot be read back, so whoever stores one stores the name beside it.
    pub fn stem(&self) -> String {
        let bytes = self.0.as_bytes();
        if bytes.len() <= STEM_NAME_BYTES_MAX {
            return hex(bytes);
        }
        format!("{}-{}", hex(&bytes[..STEM_PREFIX_BYTES]), hex(&Sha256::digest(bytes)))
    }

    /// The name a stem was made of; none when it is shortened, or no stem.
    pub fn from_stem(stem: &str) -> Option<Self> {
        let (pairs, []) = stem.as_bytes().as_chunks::<2>() else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let bytes = pairs.iter().map(|[high, low]| Some(16 * digit(*high)? + digit(*low)?));
        let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
        let name = Self::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
        (name.stem() == stem).then_some(name)
    }

    /// Whether a stem was shortened: then it does not hold the whole name.
    pub fn is_shortened(stem: &str) -> bool {
        stem.contains('-')
    }

    /// Two hexadecimal digits that spread the names of a class evenly over 256 folders.
    pub fn shard(&self) -> String {
        hex(&Sha256::digest(self.0.as_bytes())[..1])
    }
}

impl fmt::Display for ActorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `tenant/class/name`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Address {
    pub tenant: Tenant,
    pub class: Class,
    pub name: ActorName,
}

impl Address {
    /// Who a tenant's front is: `tenant/_front/main`.
    pub fn of_the_front(tenant: Tenant) -> Self {
        Self { tenant, class: Class::of_the_front(), name: ActorName("main".into()) }
    }
}

/// As in `x-wasmkeep-caller`: the name percent-encoded, so the text splits at `/` into three.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.class, self.name.percent_encoded())
    }
}

/// Where a request under `/actor/` is going, and the path its actor shall see.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    pub class: Class,
    pub name: ActorName,
    /// `/<rest>?<query>`, exactly as the client wrote it.
    pub path: String,
}

impl Target {
    /// Splits the part of a request target after `/actor/`: `<class>/<name>/<rest>?<query>`.
    ///
    /// The split comes before any decoding, so an encoded `/` never makes a segment.
    pub fn parse(after_prefix: &str) -> Result<Self, AddressError> {
        let (path, query) = match after_prefix.find('?') {
            Some(at) => after_prefix.split_at(at),
            None => (after_prefix, ""),
        };
        let (class, after_class) = path.split_once('/').unwrap_or((path, ""));
        if class.is_empty() {
            return Err(AddressError::Incomplete("the class"));
        }
        let class = Class::parse(class)?;
        let (name, rest) = match after_class.find('/') {
            Some(at) => after_class.split_at(at),
            None => (after_class, "/"),
        };
        if name.is_empty() {
            return Err(AddressError::Incomplete("the name"));
        }
        let name = ActorName::from_url_segment(name)?;
        Ok(Self { class, name, path: format!("{rest}{query}") })
    }
}

fn percent_decode(segment: &str) -> Result<Vec<u8>, AddressError> {
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        match (digit(bytes.next()), digit(bytes.next())) {
            (Some(high), Some(low)) => decoded.push((high * 16 + low) as u8),
            _ => return Err(AddressError::NameBadEscape),
        }
    }
    Ok(decoded)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stem_gives_its_name_back_unless_it_is_shortened() {
        for name in ["a", "room 1", "100%", "e\u{301}", "é", &"x".repeat(100)] {
            let name = ActorName::parse(name).expect("a legal name");
            assert_eq!(ActorName::from_stem(&name.stem()), Some(name));
        }
        let long = ActorName::parse(&"x".repeat(101)).expect("a legal name").stem();
        assert!(ActorName::is_shortened(&long));
        for wrong in [&long, "", "6", "6G", "6A", "2f", "00", "ff", "2e", "+1", "6 "] {
            assert_eq!(ActorName::from_stem(wrong), None, "{wrong}");
        }
    }

    fn target(text: &str) -> Result<(String, String, String), AddressError> {
        let t = Target::parse(text)?;
        Ok((t.class.to_string(), t.name.to_string(), t.path))
    }

    #[test]
    fn a_target_splits_before_it_is_decoded() {
        let ok = |class: &str, name: &str, path: &str| {
            Ok((class.to_owned(), name.to_owned(), path.to_owned()))
        };
        assert_eq!(target("chat/lobby/history?limit=20"), ok("chat", "lobby", "/history?limit=20"));
        assert_eq!(target("chat/lobby"), ok("chat", "lobby", "/"));
        assert_eq!(target("chat/lobby?x=/y"), ok("chat", "lobby", "/?x=/y"));
        assert_eq!(target("chat/lobby//a/../b%2Fc"), ok("chat", "lobby", "//a/../b%2Fc"));
        assert_eq!(target("chat/room%201/"), ok("chat", "room 1", "/"));
        assert_eq!(target("chat/room+1"), ok("chat", "room+1", "/"));
        assert_eq!(target("chat/100%2525"), ok("chat", "100%25", "/"));
        assert_eq!(target("chat/%C3%A9"), ok("chat", "\u{e9}", "/"));
        assert_eq!(target("chat/a%2Fb"), Err(AddressError::NameHasSlash));
        assert_eq!(target("chat/%2e%2e"), Err(AddressError::NameIsDots));
        assert_eq!(target("chat/."), Err(AddressError::NameIsDots));
        assert_eq!(target("chat/%ff"), Err(AddressError::NameNotUtf8));
        assert_eq!(target("chat/%0a"), Err(AddressError::NameHasControl));
        assert_eq!(target("chat/%C2%85"), Err(AddressError::NameHasControl));
        assert_eq!(target("chat/%4"), Err(AddressError::NameBadEscape));
        assert_eq!(target("chat/%zz"), Err(AddressError::NameBadEscape));
        assert_eq!(target("chat/"), Err(AddressError::Incomplete("the name")));
        assert_eq!(target("chat//x"), Err(AddressError::Incomplete("the name")));
        assert_eq!(target(""), Err(AddressError::Incomplete("the class")));
        assert_eq!(
            target(&format!("chat/{}", "n".repeat(257))),
            Err(AddressError::NameTooLong(257))
        );
        assert!(matches!(target("Chat/x"), Err(AddressError::Identifier { .. })));
        assert!(matches!(target("c%68at/x"), Err(AddressError::Identifier { .. })));
    }

    #[test]
    fn identifiers_are_lower_case_and_at_most_64_bytes() {
        for good in ["a", "a1-b", "default", &"a".repeat(64)] {
            assert!(Class::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "1a", "-a", "A", "a_b", "_front", "é", &"a".repeat(65)] {
            assert!(Class::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_not_normalised() {
        let composed = ActorName::parse("\u{e9}").expect("a legal name");
        let decomposed = ActorName::parse("e\u{301}").expect("a legal name");
        assert_ne!(composed, decomposed);
        assert_ne!(composed.stem(), decomposed.stem());
    }

    #[test]
    fn every_legal_name_survives_the_url_and_fits_a_file_name() {
        for name in ["a", "room 1", "100%", "é漢", "a?b#c", &"x".repeat(256), &"漢".repeat(85)] {
            let name = ActorName::parse(name).expect("a legal name");
            assert_eq!(ActorName::from_url_segment(&name.percent_encoded()), Ok(name.clone()));
            assert!(name.stem().len() + ".db-wal".len() <= 255);
        }
    }

    #[test]
    fn stems_tell_long_names_apart() {
        let long = |last: &str| ActorName::parse(&("x".repeat(200) + last)).expect("legal");
        assert_ne!(long("a").stem(), long("b").stem());
        assert_eq!(long("a").stem().len(), 128 + 1 + 64);
        assert_eq!(ActorName::parse(&"x".repeat(100)).expect("legal").stem().len(), 200);
    }

    prop_compose! {
        fn a_name()(text in "\\PC{1,64}|[ -~]{1,20}|[./%?#a]{1,5}|é{1,128}") -> String {
            text.replace('/', ":")
        }
    }

    /// A client may write any byte of a name as an escape, in either case.
    fn spelled(name: &str, how: &[u8]) -> String {
        let bytes = name.bytes().zip(how.iter().cycle());
        let written = bytes.map(|(byte, how)| {
            let reserved = matches!(byte, b'%' | b'/' | b'?') || !byte.is_ascii();
            match how % 3 {
                0 if !reserved => char::from(byte).to_string(),
                1 => format!("%{byte:02x}"),
                _ => format!("%{byte:02X}"),
            }
        });
        written.collect()
    }

    proptest! {
        #[test]
        fn a_name_is_read_back_however_it_is_spelled(name in a_name(), how in vec(any::<u8>(), 1..32)) {
            let Ok(name) = ActorName::parse(&name) else { return Ok(()) };
            let encoded = name.percent_encoded();
            prop_assert_eq!(ActorName::from_url_segment(&encoded), Ok(name.clone()));
            let spelled = spelled(name.as_str(), &how);
            prop_assert_eq!(ActorName::from_url_segment(&spelled), Ok(name.clone()), "{}", spelled);
            let target = Target::parse(&format!("chat/{spelled}/rest?q"));
            prop_assert_eq!(target.map(|target| (target.name, target.path)), Ok((name.clone(), "/rest?q".into())));
            prop_assert!(name.stem().len() + ".db-wal".len() <= 255);
        }

        #[test]
        fn any_text_is_a_target_or_refused(
            text in prop_oneof![
                ".{0,60}",
                "[a-z]{1,3}/([a-z%./?#+é]|%[0-9a-fA-F]{2}|%2f|%2e|%25){0,12}(/.{0,8})?(\\?.{0,8})?",
            ],
        ) {
            let Ok(target) = Target::parse(&text) else { return Ok(()) };
            let name = target.name.as_str();
            prop_assert!(!name.contains('/') && name != "." && name != ".." && !name.is_empty());
            prop_assert!(!name.chars().any(char::is_control) && name.len() <= NAME_BYTES_MAX);
            prop_assert!(target.path.starts_with('/'));
            prop_assert!(text.ends_with(&target.path) || target.path == "/" || target.path.starts_with("/?"));
            let again = format!("{}/{}{}", target.class, target.name.percent_encoded(), target.path);
            prop_assert_eq!(Target::parse(&again), Ok(target));
        }

        #[test]
        fn two_names_have_two_stems_and_two_addresses(one in a_name(), other in a_name()) {
            let names = (ActorName::parse(&one), ActorName::parse(&other));
            let (Ok(one), Ok(other)) = names else { return Ok(()) };
            prop_assert_eq!(one == other, one.stem() == other.stem());
            prop_assert_eq!(one == other, one.percent_encoded() == other.percent_encoded());
            let address = |name: &ActorName| Address {
                tenant: Tenant::default_tenant(),
                class: Class::parse("chat").expect("a legal class"),
                name: name.clone(),
            };
            prop_assert_eq!(address(&one).to_string().split('/').count(), 3);
        }
    }
}
