//! The port's operations.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use s3::command::Command;
use thiserror::Error;
use wasmkeep_supervisors::bucket::check_key;
use wasmkeep_supervisors::limits::{
    BUCKET_ANSWER_BYTES_MAX, BUCKET_OBJECT_BYTES_MAX, BUCKET_PAGE_KEYS_MAX,
};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::ports::{
    Bucket, BucketFuture, Cond, DeleteError, Denial, Doubt, ETag, GetError, ListError, ListFrom,
    Object, Page, PutError, Wait, Written,
};

use super::etag::ETagForm;
use super::listing::read_page;
use super::meaning::Meaning;
use super::send::{Answer, Client};
use super::settings::BucketSettings;
use super::url::BucketUrl;

#[derive(Debug, Error)]
#[error("no client for the bucket can be made: {0}")]
pub struct ConnectError(pub(super) String);

/// A bucket, with connections of its own. Clones share them.
#[derive(Clone)]
pub struct S3Bucket {
    client: Arc<Client>,
    url: BucketUrl,
    form: ETagForm,
    metrics: Arc<Metrics>,
}

impl S3Bucket {
    /// Makes a client and sends nothing.
    pub fn new(settings: &BucketSettings, metrics: Arc<Metrics>) -> Result<Self, ConnectError> {
        let client = Arc::new(Client::new(settings)?);
        Ok(Self { client, url: settings.url.clone(), form: ETagForm::Quoted, metrics })
    }

    /// The same, with ETags in the form that the probe found.
    pub fn with_form(&self, form: ETagForm) -> Self {
        Self { form, ..self.clone() }
    }

    async fn send(
        &self,
        key: &str,
        command: Command<'_>,
        headers: HeaderMap,
        wait: Wait,
        body_max: usize,
    ) -> Result<Answer, Trouble> {
        let full = self.url.full_key(key);
        check_key(&full).map_err(|error| {
            let (code, message) = ("InvalidKey".to_owned(), error.to_string());
            Trouble::Denied(Denial { status: 0, code, message })
        })?;
        self.send_to(&full, command, headers, wait, body_max).await
    }

    async fn send_to(
        &self,
        path: &str,
        command: Command<'_>,
        headers: HeaderMap,
        wait: Wait,
        body_max: usize,
    ) -> Result<Answer, Trouble> {
        let answer = self.client.send(path, command, headers, wait.longest(), body_max).await;
        let answer = answer.map_err(Trouble::Unknown)?;
        match answer.meaning {
            Meaning::Denied => Err(Trouble::Denied(answer.denial())),
            Meaning::Doubtful => Err(Trouble::Unknown(answer.doubt())),
            _ => Ok(answer),
        }
    }

    async fn read(
        &self,
        key: &str,
        unless: Option<&ETag>,
        wait: Wait,
    ) -> Result<Option<Object>, GetError> {
        let mut headers = HeaderMap::new();
        if let Some(etag) = unless {
            // Every store that knows the header at all reads it as HTTP has it.
            headers.insert(IF_NONE_MATCH, header(&ETagForm::Quoted.write(etag)));
        }
        let most = BUCKET_OBJECT_BYTES_MAX;
        let answer = self.send(key, Command::GetObject, headers, wait, most).await?;
        match answer.meaning {
            Meaning::Done => {
                let etag = answer.etag().map_err(GetError::Unknown)?;
                if unless == Some(&etag) {
                    return Ok(None);
                }
                let Answer { modified, date, .. } = answer;
                Ok(Some(Object { body: answer.body, etag, modified, date }))
            }
            Meaning::Unchanged if unless.is_some() => Ok(None),
            Meaning::Missing => Err(GetError::Missing),
            _ => Err(GetError::Unknown(answer.doubt())),
        }
    }

    async fn write(
        &self,
        key: &str,
        body: &[u8],
        cond: &Cond,
        wait: Wait,
    ) -> Result<Written, PutError> {
        let mut headers = HeaderMap::new();
        let condition: Option<(HeaderName, String)> = match cond {
            Cond::Any => None,
            Cond::Absent => Some((IF_NONE_MATCH, "*".to_owned())),
            Cond::Match(etag) => Some((IF_MATCH, self.form.write(etag))),
        };
        if let Some((name, value)) = condition {
            headers.insert(name, header(&value));
        }
        let command = Command::PutObject {
            content: body,
            content_type: "application/octet-stream",
            custom_headers: None,
            multipart: None,
        };
        let answer = self.send(key, command, headers, wait, BUCKET_ANSWER_BYTES_MAX).await?;
        match answer.meaning {
            Meaning::Done => {
                let etag = answer.etag().map_err(PutError::Unknown)?;
                Ok(Written { etag, date: answer.date })
            }
            Meaning::Mismatch => Err(PutError::Mismatch),
            Meaning::Missing => Err(PutError::Missing),
            _ => Err(PutError::Unknown(answer.doubt())),
        }
    }

    async fn page(&self, from: &ListFrom<'_>, wait: Wait) -> Result<Page, ListError> {
        let command = Command::ListObjectsV2 {
            prefix: self.url.full_key(from.prefix),
            delimiter: None,
            continuation_token: None,
            start_after: from.after.map(|after| self.url.full_key(after)),
            max_keys: Some(usize::from(from.keys_max.min(BUCKET_PAGE_KEYS_MAX))),
        };
        let most = BUCKET_ANSWER_BYTES_MAX;
        let answer = self.send_to("/", command, HeaderMap::new(), wait, most).await?;
        match answer.meaning {
            Meaning::Done => {
                read_page(&answer.body, &self.url, from, answer.date).map_err(ListError::Unknown)
            }
            _ => Err(ListError::Unknown(answer.doubt())),
        }
    }

    async fn remove(&self, key: &str, wait: Wait) -> Result<(), DeleteError> {
        let (command, headers) = (Command::DeleteObject, HeaderMap::new());
        let answer = self.send(key, command, headers, wait, BUCKET_ANSWER_BYTES_MAX).await?;
        match answer.meaning {
            Meaning::Done | Meaning::Missing => Ok(()),
            _ => Err(DeleteError::Unknown(answer.doubt())),
        }
    }

    /// Runs an operation and counts it.
    async fn metered<T, E>(
        &self,
        operation: &'static str,
        outcome: fn(&E) -> &'static str,
        run: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut counted = Counted {
            metrics: &self.metrics,
            operation,
            outcome: "unknown",
            began: Instant::now(),
        };
        let result = run.await;
        counted.outcome = result.as_ref().map_or_else(outcome, |_| "ok");
        result
    }
}

/// Counts a request once, also one that nobody waits for any more.
struct Counted<'a> {
    metrics: &'a Metrics,
    operation: &'static str,
    outcome: &'static str,
    began: Instant,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.metrics.bucket_request(self.operation, self.outcome, self.began.elapsed());
    }
}

/// What ends every operation alike.
pub(super) enum Trouble {
    Denied(Denial),
    Unknown(Doubt),
}

/// Each operation has an error of its own, and all of them have these two cases.
macro_rules! from_trouble {
    ($($error:ty),*) => {$(
        impl From<Trouble> for $error {
            fn from(trouble: Trouble) -> Self {
                match trouble {
                    Trouble::Denied(denial) => Self::Denied(denial),
                    Trouble::Unknown(doubt) => Self::Unknown(doubt),
                }
            }
        }
    )*};
}

from_trouble!(GetError, PutError, ListError, DeleteError);

/// An ETag is visible ASCII, so it fits into a header.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("visible ASCII")
}

impl Bucket for S3Bucket {
    fn get<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<Object, GetError>> {
        let get = async move {
            let object = self.read(key, None, wait).await?;
            object.ok_or_else(|| GetError::Unknown(Doubt::Unreadable("an unasked 304".into())))
        };
        Box::pin(self.metered("get", outcome_of_get, get))
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a str,
        etag: &'a ETag,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Option<Object>, GetError>> {
        Box::pin(self.metered("get", outcome_of_get, self.read(key, Some(etag), wait)))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        body: Bytes,
        cond: Cond,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Written, PutError>> {
        let put = async move { self.write(key, &body, &cond, wait).await };
        Box::pin(self.metered("put", outcome_of_put, put))
    }

    fn list<'a>(
        &'a self,
        from: ListFrom<'a>,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Page, ListError>> {
        let list = async move { self.page(&from, wait).await };
        Box::pin(self.metered("list", outcome_of_list, list))
    }

    fn delete<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<(), DeleteError>> {
        Box::pin(self.metered("delete", outcome_of_delete, self.remove(key, wait)))
    }
}

fn outcome_of_get(error: &GetError) -> &'static str {
    match error {
        GetError::Missing => "ok",
        GetError::Denied(_) => "denied",
        GetError::Unknown(_) => "unknown",
    }
}

fn outcome_of_put(error: &PutError) -> &'static str {
    match error {
        PutError::Mismatch | PutError::Missing => "mismatch",
        PutError::Denied(_) => "denied",
        PutError::Unknown(_) => "unknown",
    }
}

fn outcome_of_list(error: &ListError) -> &'static str {
    match error {
        ListError::Denied(_) => "denied",
        ListError::Unknown(_) => "unknown",
    }
}

fn outcome_of_delete(error: &DeleteError) -> &'static str {
    match error {
        DeleteError::Denied(_) => "denied",
        DeleteError::Unknown(_) => "unknown",
    }
}
