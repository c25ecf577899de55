//! Where a bucket is, and who asks.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use http::Uri;
use thiserror::Error;

use super::url::BucketUrl;

/// All that is needed to reach a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketSettings {
    pub url: BucketUrl,
    pub endpoint: Endpoint,
    pub region: String,
    pub addressing: Addressing,
    pub credentials: Credentials,
}

/// `https://HOST[:PORT]`, or `http:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(String);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not of the form https://HOST[:PORT] or http://HOST[:PORT]")]
pub struct EndpointError(String);

impl Endpoint {
    /// Amazon's own, of a region.
    pub fn of_aws(region: &str) -> Self {
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        Self(format!("https://s3.{region}.{domain}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        let is_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        if !is_scheme || !is_bare || authority.as_str().contains('@') || authority.host().is_empty()
        {
            return Err(wrong());
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// Where in an address the bucket's name stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Addressing {
    /// In the path: https://HOST/BUCKET/key
    Path,
    /// In the host's name: https://BUCKET.HOST/key
    Host,
}

impl Addressing {
    pub fn as_str(self) -> &'static str {
        match self {
            Addressing::Path => "path",
            Addressing::Host => "host",
        }
    }
}

/// As the flag reads it.
impl FromStr for Addressing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text, false)
            .map_err(|_| format!("{text:?} is neither \"path\" nor \"host\""))
    }
}

/// A key, its secret, and the token that goes with a temporary one.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub access_key: String,
    pub secret_key: String,
    pub session_token: Option<String>,
}

/// Tells the key, which names an account, and never the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .field("is_temporary", &self.session_token.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_scheme_a_host_and_perhaps_a_port() {
        for text in ["http://127.0.0.1:9000", "https://s3.example.com", "https://[::1]:9000"] {
            assert_eq!(
                text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()).as_deref(),
                Ok(text)
            );
        }
        let slash: Endpoint = "https://s3.example.com/".parse().expect("an endpoint");
        assert_eq!(slash.as_str(), "https://s3.example.com");
        for wrong in [
            "",
            "s3.example.com",
            "ftp://a",
            "https://",
            "https://a/b",
            "https://a?b",
            "https://u:p@a",
        ] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn amazons_endpoints_have_their_region() {
        assert_eq!(Endpoint::of_aws("eu-west-1").as_str(), "https://s3.eu-west-1.amazonaws.com");
        assert_eq!(
            Endpoint::of_aws("cn-north-1").as_str(),
            "https://s3.cn-north-1.amazonaws.com.cn"
        );
        for region in ["eu-west-1", "cn-north-1"] {
            let endpoint = Endpoint::of_aws(region);
            assert_eq!(endpoint.as_str().parse(), Ok(endpoint));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!(
            "{:?}",
            Credentials {
                access_key: "the-key".into(),
                secret_key: "a-secret".into(),
                session_token: Some("a-token".into()),
            }
        );
        assert!(shown.contains("the-key"), "{shown}");
        assert!(!shown.contains("a-secret") && !shown.contains("a-token"), "{shown}");
    }
}
