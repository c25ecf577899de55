//! One request: sent once, its answer read to the end, all within its time.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use s3::command::Command;
use s3::creds::Credentials;
use s3::error::S3Error;
use s3::region::Region;
use s3::request::Request as _;
use s3::request::tokio_backend::ReqwestRequest;
use wasmkeep_supervisors::one_line::in_one_line;
use wasmkeep_supervisors::ports::{BucketTime, Denial, Doubt, ETag};

use super::etag::{read_etag, read_http_date};
use super::meaning::{ErrorBody, Meaning, meaning};
use super::s3::ConnectError;
use super::settings::{Addressing, BucketSettings};

/// rust-s3's bucket, and so its pool of connections.
pub struct Client(s3::Bucket);

/// What came back.
pub struct Answer {
    pub meaning: Meaning,
    status: u16,
    error: ErrorBody,
    pub body: Bytes,
    etag: Option<String>,
    pub modified: Option<BucketTime>,
    pub date: Option<BucketTime>,
}

/// Longest text of a store's that is shown.
const MESSAGE_CHARS_MAX: usize = 300;

impl Client {
    pub fn new(settings: &BucketSettings) -> Result<Self, ConnectError> {
        // Only what reads is ever retried there, and we send below that; zero all the same, for a
        // retry in secret would take its own landing for a mismatch.
        s3::set_retries(0);
        let wrong = |error: S3Error| ConnectError(error.to_string());
        let of = &settings.credentials;
        let credentials = Credentials::new(
            Some(&of.access_key),
            Some(&of.secret_key),
            None,
            of.session_token.as_deref(),
            None,
        );
        let credentials = credentials.map_err(|error| ConnectError(error.to_string()))?;
        let endpoint = settings.endpoint.as_str().to_owned();
        let region = Region::Custom { region: settings.region.clone(), endpoint };
        let mut bucket =
            s3::Bucket::new(settings.url.name(), region, credentials).map_err(wrong)?;
        if settings.addressing == Addressing::Path {
            bucket.set_path_style();
        }
        // The caller's time is the bound.
        bucket.set_request_timeout(None);
        Ok(Self(*bucket))
    }

    /// `path` is the whole key, or `/` for the bucket itself. Of a body longer than `body_max`
    /// nothing is returned.
    pub async fn send(
        &self,
        path: &str,
        command: Command<'_>,
        headers: HeaderMap,
        within: Duration,
        body_max: usize,
    ) -> Result<Answer, Doubt> {
        let exchange = self.exchange(path, command, headers, body_max);
        tokio::time::timeout(within, exchange).await.unwrap_or(Err(Doubt::TimedOut(within)))
    }

    async fn exchange(
        &self,
        path: &str,
        command: Command<'_>,
        headers: HeaderMap,
        body_max: usize,
    ) -> Result<Answer, Doubt> {
        let bucket = self.0.with_extra_headers(headers).map_err(doubt)?;
        let request = ReqwestRequest::new(&bucket, path, command).await.map_err(doubt)?;
        let mut response = request.response().await.map_err(doubt)?;
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let etag = header("etag");
        let modified = header("last-modified").and_then(|text| read_http_date(&text));
        let date = header("date").and_then(|text| read_http_date(&text));
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| doubt(error.into()))? {
            if body.len() + chunk.len() > body_max {
                let cause = format!("a body of more than {body_max} bytes");
                return Err(Doubt::Unreadable(cause));
            }
            body.extend_from_slice(&chunk);
        }
        let body = body.freeze();
        let error = match status {
            200..=299 => ErrorBody::default(),
            _ => ErrorBody::read(&body),
        };
        let meaning = meaning(status, &error.code);
        Ok(Answer { meaning, status, error, body, etag, modified, date })
    }
}

impl Answer {
    pub fn etag(&self) -> Result<ETag, Doubt> {
        read_etag(self.etag.as_deref())
    }

    /// Why it is not known what became of the request.
    pub fn doubt(&self) -> Doubt {
        Doubt::Answered { status: self.status, code: shown(&self.error.code) }
    }

    pub fn denial(&self) -> Denial {
        let mut message = shown(&self.error.message);
        if let Some(region) = &self.error.region {
            message = format!("{message} (the bucket is in region {})", shown(region));
        }
        Denial { status: self.status, code: shown(&self.error.code), message }
    }
}

/// What a store wrote, for a log or a terminal.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(MESSAGE_CHARS_MAX).collect();
    in_one_line(&cut).into_owned()
}

/// The causes of a failed exchange, outermost first. They name the endpoint, and never a header.
fn doubt(error: S3Error) -> Doubt {
    let mut text = match &error {
        S3Error::Reqwest(_) => String::new(),
        other => other.to_string(),
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = if text.is_empty() { next } else { format!("{text}: {next}") };
        }
        cause = error.source();
    }
    Doubt::Connection(shown(&text))
}
