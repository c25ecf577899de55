use std::borrow::Cow;
use std::error::Error as StdError;
use std::{fmt, io};

use serde::de::DeserializeOwned;

use crate::body::BodyError;
use crate::storage::SqlError;

/// What the handlers of an actor return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed event: the status and the text a client gets, and what goes to the log instead.
///
/// Returned from [`Actor::request`](crate::Actor::request) it becomes a response with the body
/// `{"error": "…"}`. Use [`Error::status`] for an answer the client should read:
///
/// ```
/// # use wasmkeep_sdk::{Error, Result};
/// fn withdraw(balance: i64, amount: i64) -> Result<i64> {
///     if amount > balance {
///         return Err(Error::status(409, format!("only {balance} left")));
///     }
///     Ok(balance - amount)
/// }
/// ```
///
/// Every other error converts with `?`:
///
/// | error | status | the client reads |
/// |---|---|---|
/// | [`SqlError::Constraint`] | 409 | SQLite's words |
/// | [`SqlError::QuotaExceeded`] | 507 | which limit |
/// | a request body over 16 MiB | 413 | that it is too large |
/// | a request body that could not be read | 400 | that it could not |
/// | anything else that is a [`std::error::Error`] | 500 | `internal error` |
///
/// The text of a 500 goes to the log (standard error), so that a client never sees your queries.
/// Like `anyhow::Error`, this type does not implement [`std::error::Error`] itself: that is what
/// lets `?` take any error.
pub struct Error(Box<Failure>);

struct Failure {
    status: u16,
    /// What the client reads.
    message: Cow<'static, str>,
    /// What the log reads.
    source: Option<Box<dyn StdError>>,
}

/// Reads what a client sent. What does not fit: an error that answers 400 and says why.
pub(crate) fn json_of_client<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let how = match error.classify() {
            serde_json::error::Category::Data => "does not fit",
            _ => "is not JSON",
        };
        Error::bad_request(format!("{what} {how}: {error}"))
    })
}

impl Error {
    /// An answer with this status, whose text the client reads: `Error::status(409, "taken")`.
    pub fn status(status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(Failure { status, message: message.into(), source: None }))
    }

    /// 400: the request is wrong, and the text says how.
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Error::status(400, message)
    }

    /// 404: there is no such thing, and the text says what.
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Error::status(404, message)
    }

    /// 500: the client reads `internal error`, the log reads the error (or the text) itself.
    ///
    /// ```
    /// # use wasmkeep_sdk::{Error, Result};
    /// # fn lookup(key: &str) -> Option<u32> { None }
    /// fn price(key: &str) -> Result<u32> {
    ///     lookup(key).ok_or_else(|| Error::internal(format!("no price for {key}")))
    /// }
    /// ```
    pub fn internal(error: impl Into<Box<dyn StdError>>) -> Self {
        Error::with_source(500, "internal error", error.into())
    }

    fn with_source(
        status: u16,
        message: impl Into<Cow<'static, str>>,
        source: Box<dyn StdError>,
    ) -> Self {
        let mut error = Error::status(status, message);
        error.0.source = Some(source);
        error
    }

    /// The status a client gets.
    pub fn status_code(&self) -> u16 {
        self.0.status
    }

    /// The text a client gets.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The error this one was made from, if it was of type `E`.
    ///
    /// ```
    /// # use wasmkeep_sdk::{Error, storage::{ConstraintKind, SqlError}};
    /// fn is_duplicate(error: &Error) -> bool {
    ///     matches!(
    ///         error.downcast_ref(),
    ///         Some(SqlError::Constraint { kind: ConstraintKind::Unique, .. })
    ///     )
    /// }
    /// ```
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.0.source.as_deref()?.downcast_ref()
    }

    /// Writes what the client will not see to the log.
    pub(crate) fn log(&self, what: fmt::Arguments<'_>) {
        if !(200..500).contains(&self.0.status) {
            log(format_args!("{what}: {}: {self}", self.0.status));
        }
    }
}

/// A line on standard error, in one piece: it is not buffered. `eprintln!` would panic if the
/// host had closed it.
pub(crate) fn log(line: fmt::Arguments<'_>) {
    let _ = io::Write::write_all(&mut io::stderr(), format!("{line}\n").as_bytes());
}

impl<E: StdError + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let source: Box<dyn StdError> = Box::new(error);
        let (status, message) = match source.downcast_ref() {
            Some(SqlError::Constraint { message, .. }) => (409, message.clone()),
            Some(SqlError::QuotaExceeded(limit)) => (507, limit.clone()),
            _ => match body_error(&*source) {
                Some(error) => (error.status(), error.message().to_owned()),
                None => return Error::internal(source),
            },
        };
        Error::with_source(status, message, source)
    }
}

/// A failed read of the body, also where it has passed through [`io::Read`].
fn body_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e BodyError> {
    error.downcast_ref().or_else(|| {
        let error: &io::Error = error.downcast_ref()?;
        error.get_ref()?.downcast_ref()
    })
}

impl fmt::Display for Error {
    /// All of it, for a log: the error's own text where there is one, else the client's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(source) = &self.0.source else {
            return f.write_str(&self.0.message);
        };
        write!(f, "{source}")?;
        let mut cause = source.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}, {:?}", self.0.status, self.0.message)?;
        if let Some(source) = &self.0.source {
            write!(f, ", {source:?}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::ConstraintKind;

    fn failed<E: StdError + 'static>(error: E) -> Result<()> {
        Err(error)?;
        Ok(())
    }

    #[test]
    fn a_constraint_is_a_conflict_with_sqlites_words() {
        let error = failed(SqlError::Constraint {
            kind: ConstraintKind::Unique,
            message: "UNIQUE constraint failed: users.email".to_owned(),
        })
        .unwrap_err();
        assert_eq!(error.status_code(), 409);
        assert_eq!(error.message(), "UNIQUE constraint failed: users.email");
        assert!(error.downcast_ref::<SqlError>().is_some());
    }

    #[test]
    fn a_quota_is_507_and_the_rest_of_sql_is_500_without_its_text() {
        let error = failed(SqlError::QuotaExceeded("database size".to_owned())).unwrap_err();
        assert_eq!((error.status_code(), error.message()), (507, "database size"));
        for error in [
            SqlError::Invalid("no such table: secret".to_owned()),
            SqlError::NotAllowed("ATTACH secret".to_owned()),
            SqlError::Internal("disk secret".to_owned()),
            SqlError::Mismatch("column secret".to_owned()),
        ] {
            let error = failed(error).unwrap_err();
            assert_eq!((error.status_code(), error.message()), (500, "internal error"));
            assert!(error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_body_over_the_cap_is_413_also_through_io_read() {
        let direct = failed(BodyError::TooLarge).unwrap_err();
        let through = failed(io::Error::other(BodyError::TooLarge)).unwrap_err();
        assert_eq!((direct.status_code(), through.status_code()), (413, 413));
        assert_eq!(direct.message(), through.message());
    }

    #[test]
    fn any_other_error_is_500_with_its_text_and_causes_for_the_log() {
        let error = failed("x".parse::<i32>().unwrap_err()).unwrap_err();
        assert_eq!(error.message(), "internal error");
        assert_eq!(error.to_string(), "invalid digit found in string");
        let error = Error::internal("told so");
        assert_eq!(error.to_string(), "told so");
    }

    #[test]
    fn json_that_does_not_fit_is_a_400_that_says_why() {
        let error = json_of_client::<Vec<u8>>("the request body", b"[1,").unwrap_err();
        assert_eq!(error.status_code(), 400);
        assert!(error.message().starts_with("the request body is not JSON:"));
        let error = json_of_client::<u8>("the message", b"\"x\"").unwrap_err();
        assert!(error.message().starts_with("the message does not fit:"));
        assert_eq!(json_of_client::<u8>("", b"7").unwrap(), 7);
    }
}
