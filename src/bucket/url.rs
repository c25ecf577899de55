//! `s3://bucket/prefix`

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use wasmkeep_supervisors::bucket::check_key;
use wasmkeep_supervisors::limits::BUCKET_PREFIX_BYTES_MAX;

/// A bucket, and below which prefix everything is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUrl {
    name: String,
    /// Empty, or without slashes at its ends.
    prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BucketUrlError {
    #[error("{0:?} is not of the form s3://BUCKET or s3://BUCKET/PREFIX")]
    Form(String),
    #[error(
        "{0:?} is no bucket's name: 3 to 63 lower-case letters, digits, `-` and `.`, with a letter \
         or digit first and last"
    )]
    Name(String),
    #[error(
        "{0:?} is no prefix: parts of letters, digits, `-`, `_`, `.` and `=`, divided by single \
         slashes, none of them `.` or `..`, {BUCKET_PREFIX_BYTES_MAX} bytes in all"
    )]
    Prefix(String),
}

impl BucketUrl {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole key in the bucket of a key below the prefix.
    pub fn full_key(&self, key: &str) -> String {
        match self.prefix.as_str() {
            "" => key.to_owned(),
            prefix => format!("{prefix}/{key}"),
        }
    }

    /// The key below the prefix; none when it is not below it.
    pub fn key_of<'a>(&self, full: &'a str) -> Option<&'a str> {
        match self.prefix.as_str() {
            "" => Some(full),
            prefix => full.strip_prefix(prefix)?.strip_prefix('/'),
        }
    }
}

impl FromStr for BucketUrl {
    type Err = BucketUrlError;

    fn from_str(text: &str) -> Result<Self, BucketUrlError> {
        let rest = text.strip_prefix("s3://").ok_or_else(|| BucketUrlError::Form(text.into()))?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if !is_bucket_name(name) {
            return Err(BucketUrlError::Name(name.into()));
        }
        if !prefix.is_empty() && !is_prefix(prefix) {
            return Err(BucketUrlError::Prefix(prefix.into()));
        }
        Ok(Self { name: name.into(), prefix: prefix.into() })
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, prefix } = self;
        let slash = if prefix.is_empty() { "" } else { "/" };
        write!(to, "s3://{name}{slash}{prefix}")
    }
}

fn is_bucket_name(name: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9'));
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        && !name.contains("..")
}

fn is_prefix(prefix: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.=/".contains(&b);
    prefix.len() <= BUCKET_PREFIX_BYTES_MAX
        && check_key(prefix).is_ok()
        && prefix.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BucketUrl {
        text.parse().expect("a bucket's URL")
    }

    #[test]
    fn a_url_is_a_bucket_and_perhaps_a_prefix() {
        for (text, shown) in [
            ("s3://abc", "s3://abc"),
            ("s3://abc/", "s3://abc"),
            ("s3://a.b-1/p", "s3://a.b-1/p"),
            ("s3://abc/p/q=1/", "s3://abc/p/q=1"),
        ] {
            assert_eq!(url(text).to_string(), shown);
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        let error = |text: &str| text.parse::<BucketUrl>().expect_err(text).to_string();
        for text in ["", "abc", "https://abc", "S3://abc"] {
            assert!(error(text).contains("s3://BUCKET"), "{text}");
        }
        for text in
            ["s3://", "s3:///p", "s3://ab", "s3://Abc", "s3://a_bc", "s3://-abc", "s3://a..b"]
        {
            assert!(error(text).contains("no bucket's name"), "{text}");
        }
        for text in ["s3://abc//p", "s3://abc/p//q", "s3://abc/..", "s3://abc/a b", "s3://abc/a?b"]
        {
            assert!(error(text).contains("no prefix"), "{text}");
        }
        assert!(error(&format!("s3://abc/{}", "p".repeat(401))).contains("no prefix"));
    }

    #[test]
    fn keys_are_below_the_prefix_and_come_back() {
        for (bucket, full) in [("s3://abc", "nodes/n1"), ("s3://abc/p", "p/nodes/n1")] {
            let url = url(bucket);
            assert_eq!(url.full_key("nodes/n1"), full);
            assert_eq!(url.key_of(full), Some("nodes/n1"));
        }
        assert_eq!(url("s3://abc/p").key_of("pq/nodes/n1"), None);
        assert_eq!(url("s3://abc/p").key_of("q/nodes/n1"), None);
    }
}
