//! What operations mean, in each dialect.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, ETag, ETagCondition, GetObjectInput, GetObjectOutput,
    ListObjectsV2Input, ListObjectsV2Output, Object, PutObjectInput, PutObjectOutput,
    StreamingBlob, Timestamp,
};
use s3s::{Body, S3, S3Error, S3Request, S3Response, S3Result, s3_error};

use super::http::Short;
use super::objects::{Objects, Stored};
use crate::Dialect;

const PAGE_KEYS_MAX: i32 = 1000;

pub struct Store {
    dialect: Dialect,
    bucket: String,
    objects: Arc<Objects>,
}

impl Store {
    pub fn new(dialect: Dialect, bucket: String, objects: Arc<Objects>) -> Self {
        Self { dialect, bucket, objects }
    }

    fn find_bucket(&self, name: &str) -> S3Result<()> {
        if name == self.bucket {
            return Ok(());
        }
        Err(s3_error!(NoSuchBucket, "The specified bucket does not exist"))
    }

    fn etag(&self, stored: &Stored) -> ETag {
        match self.dialect {
            Dialect::WeakEtags => ETag::Weak(stored.etag.clone()),
            _ => ETag::Strong(stored.etag.clone()),
        }
    }

    /// Whether a write under these conditions may be carried out on what is there.
    fn check(
        &self,
        absent: bool,
        version: Option<&Version>,
        there: Option<&Stored>,
    ) -> Result<(), S3Error> {
        let failed =
            || s3_error!(PreconditionFailed, "At least one of the pre-conditions did not hold");
        if absent && there.is_some() && self.dialect != Dialect::IgnoresAbsent {
            return Err(failed());
        }
        let Some(version) = version else { return Ok(()) };
        match there {
            _ if self.dialect == Dialect::IgnoresMatch => Ok(()),
            None if self.dialect == Dialect::WritesWhenMissing => Ok(()),
            None => Err(s3_error!(NoSuchKey, "The specified key does not exist.")),
            Some(there) if self.matches(version, there) => Ok(()),
            Some(_) => Err(failed()),
        }
    }

    fn matches(&self, version: &Version, there: &Stored) -> bool {
        match self.dialect {
            Dialect::Ceph if version.is_quoted => false,
            Dialect::NeverMatches => false,
            _ => version.etag == there.etag,
        }
    }
}

/// What `If-Match` says.
struct Version {
    etag: String,
    is_quoted: bool,
}

impl Version {
    fn of<T>(request: &S3Request<T>, condition: Option<&ETagCondition>) -> Option<Self> {
        let etag = condition?.as_etag()?.value().to_owned();
        let header = request.headers.get("if-match")?;
        Some(Self { etag, is_quoted: header.as_bytes().ends_with(b"\"") })
    }
}

#[async_trait::async_trait]
impl S3 for Store {
    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = &request.input;
        self.find_bucket(&input.bucket)?;
        let missing = || s3_error!(NoSuchKey, "The specified key does not exist.");
        let stored = self.objects.get(&input.key).ok_or_else(missing)?;
        if let Some(ETagCondition::ETag(known)) = &input.if_none_match
            && known.value() == stored.etag
        {
            return Err(s3_error!(NotModified));
        }
        Ok(S3Response::new(GetObjectOutput {
            e_tag: Some(self.etag(&stored)),
            last_modified: Some(Timestamp::from(stored.modified)),
            content_length: Some(stored.body.len() as i64),
            body: Some(StreamingBlob::from(Body::from(stored.body))),
            ..GetObjectOutput::default()
        }))
    }

    async fn put_object(
        &self,
        mut request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        self.find_bucket(&request.input.bucket)?;
        let version = Version::of(&request, request.input.if_match.as_ref());
        let absent = matches!(request.input.if_none_match, Some(ETagCondition::Any));
        let is_conditional = absent || version.is_some();
        if is_conditional && self.dialect == Dialect::NoConditions {
            return Err(s3_error!(
                NotImplemented,
                "A header you provided implies functionality that is not implemented."
            ));
        }
        let key = request.input.key.clone();
        let body = match request.input.body.take() {
            Some(body) => read(body).await?,
            None => Bytes::new(),
        };
        self.objects.begin_write(&key);
        if self.dialect == Dialect::Ceph && is_conditional {
            // So that writes overlap, as they do where an object has several copies.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let check = |there: Option<&Stored>| self.check(absent, version.as_ref(), there);
        let put = self.objects.put(&key, body, check);
        let writers = self.objects.end_write(&key);
        let put = put.map_err(|error| {
            if self.dialect == Dialect::Ceph && writers > 1 {
                return s3_error!(InternalError, "another write was faster");
            }
            error
        });
        Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(self.etag(&put?)),
            ..PutObjectOutput::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.find_bucket(&request.input.bucket)?;
        let version = Version::of(&request, request.input.if_match.as_ref());
        let version = version.filter(|_| self.dialect != Dialect::Ceph);
        let check = |there: Option<&Stored>| self.check(false, version.as_ref(), there);
        self.objects.remove(&request.input.key, check)?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = &request.input;
        self.find_bucket(&input.bucket)?;
        let prefix = input.prefix.clone().unwrap_or_default();
        let after = input.continuation_token.clone().or_else(|| input.start_after.clone());
        let asked = input.max_keys.unwrap_or(PAGE_KEYS_MAX).clamp(0, PAGE_KEYS_MAX);
        let most = match request.extensions.get() {
            Some(Short(keys)) => asked.min(i32::from(*keys)),
            None => asked,
        };
        let after = after.unwrap_or_default();
        let (page, has_more) = self.objects.page(&prefix, &after, most as usize);
        let next = page.last().map(|(key, _)| key.clone()).filter(|_| has_more);
        let contents = page.into_iter().map(|(key, stored)| Object {
            e_tag: Some(self.etag(&stored)),
            key: Some(key),
            last_modified: Some(Timestamp::from(stored.modified)),
            size: Some(stored.body.len() as i64),
            ..Object::default()
        });
        let contents: Vec<Object> = contents.collect();
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(self.bucket.clone()),
            prefix: Some(prefix),
            key_count: Some(contents.len() as i32),
            max_keys: Some(asked),
            is_truncated: Some(next.is_some()),
            next_continuation_token: next,
            contents: Some(contents),
            ..ListObjectsV2Output::default()
        }))
    }
}

async fn read(body: StreamingBlob) -> S3Result<Bytes> {
    let read = Body::from(body).collect().await;
    // Cut off, or not what was signed.
    let collected = read.map_err(|error| s3_error!(IncompleteBody, "{error}"))?;
    Ok(collected.to_bytes())
}
