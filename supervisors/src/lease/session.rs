//! The name of one unbroken validity of a node's lease.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ports::Random;

/// Sixteen random bytes, drawn at a node's start and after every lapse. Holds are of one session: when
/// it ends they all do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Session([u8; 16]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a session is thirty-two lower-case hexadecimal digits")]
pub struct SessionError;

impl Session {
    pub fn draw(random: &dyn Random) -> Self {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Self(bytes)
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Session {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "session({self})")
    }
}

impl FromStr for Session {
    type Err = SessionError;

    fn from_str(text: &str) -> Result<Self, SessionError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(SessionError);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| SessionError)?;
        Ok(Self(number.to_be_bytes()))
    }
}
