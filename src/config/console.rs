//! Who may use the console, and where it is.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::ConfigError;

const TOKEN_BYTES_MIN: usize = 16;
pub const TOKEN_BYTES_MAX: usize = 1024;

/// What an operator shows to the console. Never shown itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// One word, as a file holds it; none when it is too short, too long, or no word.
    pub fn parse(text: &str) -> Option<Self> {
        let token = text.trim();
        let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len());
        let is_word = token.bytes().all(|byte| byte.is_ascii_graphic());
        (fits && is_word).then(|| Self(token.to_owned()))
    }

    /// One that random bytes make.
    pub fn of_bytes(random: &[u8; 16]) -> Self {
        Self(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleSettings {
    /// An address of its own; the public one, when there is none.
    pub listen: Option<SocketAddr>,
    pub token: Token,
}

/// Where `serve` has its console, and the file with its token: both, or neither.
pub fn settings(
    listen: Option<SocketAddr>,
    token_file: Option<PathBuf>,
) -> Result<Option<(SocketAddr, PathBuf)>, ConfigError> {
    match (listen, token_file) {
        (None, None) => Ok(None),
        (Some(listen), Some(file)) => Ok(Some((listen, file))),
        (Some(_), None) => Err(ConfigError::Lacks {
            flag: "admin-listen",
            lacks: "--admin-token-file FILE, so that not everybody is an operator",
        }),
        (None, Some(_)) => Err(ConfigError::Lacks {
            flag: "admin-token-file",
            lacks: "--admin-listen ADDR:PORT, where the console is",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_long_word() {
        let token = |text: &str| Token::parse(text).map(|token| token.0);
        assert_eq!(token(" 0123456789abcdef\n").as_deref(), Some("0123456789abcdef"));
        for wrong in ["", "short", "0123456789 abcdef", "0123456789abcd\u{e9}", &"x".repeat(1025)] {
            assert_eq!(token(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_token_is_shown_by_nothing() {
        let token = Token::of_bytes(&[0xab; 16]);
        assert_eq!(token.as_str(), "ab".repeat(16));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn address_and_token_come_together() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        assert!(matches!(settings(None, None), Ok(None)));
        let both = settings(Some(listen), Some("x".into()));
        assert_eq!(both.ok().flatten(), Some((listen, "x".into())));
        let error = settings(Some(listen), None).expect_err("no token");
        assert!(error.to_string().contains("--admin-token-file"), "{error}");
        let error = settings(None, Some("x".into())).expect_err("no address");
        assert!(error.to_string().contains("--admin-listen"), "{error}");
    }
}
