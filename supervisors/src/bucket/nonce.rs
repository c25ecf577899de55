//! Makes bodies unlike, so that versions are.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ports::Random;

/// Eight random bytes, as sixteen lower-case hexadecimal digits. A bucket may name a version by its
/// body's hash: a record written back as it was before would pass for the earlier one, and a holder
/// for its predecessor. Each body that is compared and set carries a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Nonce([u8; 8]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a nonce is sixteen lower-case hexadecimal digits")]
pub struct NonceError;

impl Nonce {
    pub fn draw(random: &dyn Random) -> Self {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        Self(bytes)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl FromStr for Nonce {
    type Err = NonceError;

    fn from_str(text: &str) -> Result<Self, NonceError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(is_digit) {
            return Err(NonceError);
        }
        let number = u64::from_str_radix(text, 16).map_err(|_| NonceError)?;
        Ok(Self(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SeededRandom;

    #[test]
    fn what_is_written_is_read_back() {
        let random = SeededRandom::new(1);
        let drawn: Vec<Nonce> = (0..100).map(|_| Nonce::draw(&random)).collect();
        for (at, nonce) in drawn.iter().enumerate() {
            assert_eq!(nonce.to_string().len(), 16);
            assert_eq!(nonce.to_string().parse(), Ok(*nonce));
            assert!(!drawn[..at].contains(nonce), "drawn twice");
        }
        assert_eq!(
            "00000000000000ff".parse::<Nonce>().map(|n| n.to_string()).as_deref(),
            Ok("00000000000000ff")
        );
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "ff",
            "00000000000000FF",
            "00000000000000fg",
            "+0000000000000ff",
            "000000000000000ff",
        ] {
            assert_eq!(text.parse::<Nonce>(), Err(NonceError), "{text}");
        }
    }
}
