//! Which keys a bucket may hold.

use thiserror::Error;

use crate::limits::BUCKET_KEY_BYTES_MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error("a key has 1 to {BUCKET_KEY_BYTES_MAX} bytes")]
    Length,
    /// HTTP clients and proxies drop or resolve such a part: the object would have another key.
    #[error("no part of a key between slashes is empty, `.` or `..`")]
    Part,
    /// XML, in which keys are listed, cannot hold them.
    #[error("a key has no control characters")]
    Control,
}

/// Checks a key, or a bucket's prefix and a key together.
pub fn check_key(key: &str) -> Result<(), KeyError> {
    if key.is_empty() || key.len() > BUCKET_KEY_BYTES_MAX {
        return Err(KeyError::Length);
    }
    if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(KeyError::Part);
    }
    if key
        .chars()
        .any(|character| character.is_control() || matches!(character, '\u{FFFE}' | '\u{FFFF}'))
    {
        return Err(KeyError::Control);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_would_not_come_back_are_refused() {
        for key in ["nodes/n1", "a", "state/t/a/owners/c/6e-f", "a b+c%2Fé!*'()~=&?#", ".a", "a.."]
        {
            assert_eq!(check_key(key), Ok(()), "{key}");
        }
        for key in ["/a", "a/", "a//b", "a/./b", "..", "a/.."] {
            assert_eq!(check_key(key), Err(KeyError::Part), "{key}");
        }
        assert_eq!(check_key("a\nb"), Err(KeyError::Control));
        assert_eq!(check_key(""), Err(KeyError::Length));
        assert_eq!(check_key(&"a".repeat(1024)), Ok(()));
        assert_eq!(check_key(&"a".repeat(1025)), Err(KeyError::Length));
    }
}
