//! One write under a condition, until it is known what became of it.

use bytes::Bytes;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout_at};

use super::verdict::{AfterPut, AfterRead, Expected, after_put, after_read, backoff};
use crate::ports::{Bucket, Denial, Doubt, GetError, Object, PutError, Random, Wait, Written};

/// The bounds of a write's attempts.
#[derive(Clone, Copy)]
pub struct Attempts<'a> {
    /// Of each one.
    pub wait: Wait,
    /// Of all together, counted from before the first is sent.
    pub deadline: Instant,
    /// Asked before each is sent: whether the caller still holds what it writes for.
    pub may_send: &'a (dyn Fn() -> bool + Send + Sync),
    pub random: &'a dyn Random,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetError {
    /// Another write is there: it came first, or overwrote this one before it was seen to have
    /// landed. No attempt that lands later counts.
    #[error("another write is there")]
    Lost(Option<Object>),
    /// It landed, did not, or will: the caller stops relying on either.
    #[error("not known to have landed: {0}")]
    Unknown(Doubt),
    /// Nothing landed, and nothing will.
    #[error(transparent)]
    Denied(Denial),
    /// The caller may not write; nothing was sent.
    #[error("nothing was sent: the right to write had ended")]
    Stopped,
}

/// Writes `body` if the object is as expected. The body must be unlike any before it under this key:
/// a record carries a `Nonce`, a segment its generation and position.
pub async fn compare_and_set(
    bucket: &dyn Bucket,
    key: &str,
    body: Bytes,
    expected: Expected,
    attempts: Attempts<'_>,
) -> Result<Written, SetError> {
    let mut write = Write { bucket, key, body, expected, attempts, failed: 0, doubt: None };
    loop {
        if !(attempts.may_send)() || Instant::now() >= attempts.deadline {
            return Err(write.doubt.map_or(SetError::Stopped, SetError::Unknown));
        }
        match after_put(write.put().await) {
            AfterPut::Landed(written) => return Ok(written),
            AfterPut::Denied(denial) => return Err(write.denied(denial)),
            AfterPut::ReadBack(Some(doubt)) => {
                write.doubt = Some(doubt);
                write.pause().await;
            }
            AfterPut::ReadBack(None) => {}
        }
        match write.read_back().await? {
            Some(written) => return Ok(written),
            None => write.pause().await,
        }
    }
}

struct Write<'a> {
    bucket: &'a dyn Bucket,
    key: &'a str,
    body: Bytes,
    expected: Expected,
    attempts: Attempts<'a>,
    failed: u32,
    /// Of an attempt that may have landed or may yet.
    doubt: Option<Doubt>,
}

impl Write<'_> {
    async fn put(&self) -> Result<Written, PutError> {
        let Attempts { wait, deadline, .. } = self.attempts;
        let put = self.bucket.put(self.key, self.body.clone(), self.expected.clone().into(), wait);
        let late = |_| Err(PutError::Unknown(Doubt::TimedOut(wait.longest())));
        timeout_at(deadline, put).await.unwrap_or_else(late)
    }

    /// What became of the attempts so far; none when the same bytes may be sent again.
    async fn read_back(&mut self) -> Result<Option<Written>, SetError> {
        let Attempts { wait, deadline, .. } = self.attempts;
        loop {
            let late = |_| Err(GetError::Unknown(Doubt::TimedOut(wait.longest())));
            let read = timeout_at(deadline, self.bucket.get(self.key, wait)).await;
            match after_read(&self.expected, &self.body, read.unwrap_or_else(late)) {
                AfterRead::Landed(written) => return Ok(Some(written)),
                AfterRead::Lost(object) => return Err(SetError::Lost(object)),
                AfterRead::SendAgain => return Ok(None),
                AfterRead::Denied(denial) => return Err(self.denied(denial)),
                AfterRead::ReadAgain(doubt) => {
                    if Instant::now() >= deadline {
                        return Err(SetError::Unknown(self.doubt.take().unwrap_or(doubt)));
                    }
                    self.doubt.get_or_insert(doubt);
                }
            }
            self.pause().await;
        }
    }

    fn denied(&self, denial: Denial) -> SetError {
        match self.doubt {
            Some(_) => SetError::Unknown(Doubt::Denied(denial)),
            None => SetError::Denied(denial),
        }
    }

    async fn pause(&mut self) {
        let mut random = [0; 8];
        self.attempts.random.fill(&mut random);
        let wait = backoff(self.failed, u64::from_le_bytes(random));
        self.failed = self.failed.saturating_add(1);
        let left = self.attempts.deadline.saturating_duration_since(Instant::now());
        sleep(wait.min(left)).await;
    }
}
