//! What a store's answer says of an operation: the only place that knows statuses and S3's words.

use serde::Deserialize;

/// As far as all operations agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Done,
    /// Of a read: it is as it was.
    Unchanged,
    /// The condition does not hold.
    Mismatch,
    /// There is no such object.
    Missing,
    /// Not carried out, and it will not be.
    Denied,
    /// Carried out or not.
    Doubtful,
}

/// `code` is S3's word for an error, empty when the body has none.
///
/// A 404 is the word of the store only if it says which thing is missing: a bucket that is gone, or
/// a proxy that knows no such page, must not pass for a bucket without that object.
pub fn meaning(status: u16, code: &str) -> Meaning {
    match status {
        200..=299 => Meaning::Done,
        304 => Meaning::Unchanged,
        412 => Meaning::Mismatch,
        404 if code == "NoSuchKey" => Meaning::Missing,
        404 if code.is_empty() => Meaning::Doubtful,
        400 if is_passing(code) => Meaning::Doubtful,
        // 409: another write of the key is under way, or was. 425 and 429: come again.
        408 | 409 | 425 | 429 => Meaning::Doubtful,
        501 | 505 => Meaning::Denied,
        300..=499 => Meaning::Denied,
        _ => Meaning::Doubtful,
    }
}

/// Errors on the way, which S3 calls the client's.
fn is_passing(code: &str) -> bool {
    const PASSING: &[&str] = &[
        "RequestTimeout",
        "IncompleteBody",
        "BadDigest",
        "XAmzContentSHA256Mismatch",
        "InternalError",
        "SlowDown",
        "",
    ];
    PASSING.contains(&code)
}

/// An error's body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ErrorBody {
    pub code: String,
    pub message: String,
    /// The region a bucket is in, when it is another.
    pub region: Option<String>,
}

impl ErrorBody {
    /// Of what may be no XML at all: then without a code.
    pub fn read(body: &[u8]) -> Self {
        let text = std::str::from_utf8(body).unwrap_or_default();
        quick_xml::de::from_str(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_answers_say() {
        for (status, code, says) in [
            (200, "", Meaning::Done),
            (204, "", Meaning::Done),
            (304, "", Meaning::Unchanged),
            (412, "PreconditionFailed", Meaning::Mismatch),
            (404, "NoSuchKey", Meaning::Missing),
            (404, "NoSuchBucket", Meaning::Denied),
            (404, "", Meaning::Doubtful),
            (301, "PermanentRedirect", Meaning::Denied),
            (400, "AuthorizationHeaderMalformed", Meaning::Denied),
            (400, "ExpiredToken", Meaning::Denied),
            (400, "RequestTimeout", Meaning::Doubtful),
            (400, "", Meaning::Doubtful),
            (401, "", Meaning::Denied),
            (403, "SignatureDoesNotMatch", Meaning::Denied),
            (403, "", Meaning::Denied),
            (409, "ConditionalRequestConflict", Meaning::Doubtful),
            (429, "TooManyRequests", Meaning::Doubtful),
            (500, "InternalError", Meaning::Doubtful),
            (501, "NotImplemented", Meaning::Denied),
            (502, "", Meaning::Doubtful),
            (503, "SlowDown", Meaning::Doubtful),
            (101, "", Meaning::Doubtful),
        ] {
            assert_eq!(meaning(status, code), says, "{status} {code}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_reading_of_an_error(body in prop::collection::vec(any::<u8>(), 0..300)) {
            ErrorBody::read(&body);
            let nested = [&b"<Error><Code>"[..], &body, b"</Code></Error>"].concat();
            ErrorBody::read(&nested);
        }
    }

    #[test]
    fn an_error_is_read_as_far_as_it_is_one() {
        let body = "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>It&apos;s \
                    gone</Message><Key>a</Key><RequestId>1</RequestId></Error>";
        let error = ErrorBody::read(body.as_bytes());
        assert_eq!((error.code.as_str(), error.message.as_str()), ("NoSuchKey", "It's gone"));
        for other in ["", "<html><body>404</body></html>", "not found", "<Error>", "\u{0}"] {
            assert_eq!(ErrorBody::read(other.as_bytes()).code, "", "{other}");
        }
    }
}
