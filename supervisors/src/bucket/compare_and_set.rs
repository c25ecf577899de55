//! One write under a condition, until it is known what became of it.

use std::future::Future;

use bytes::Bytes;
use thiserror::Error;
use tokio::select;

use super::verdict::{AfterPut, AfterRead, Expected, after_put, after_read, backoff};
use crate::ports::{
    Bucket, Denial, Doubt, GetError, Object, PutError, Random, Steady, Wait, Written,
};
use crate::time::NodeTime;
use crate::twin::{Twin, is_broken};

/// The bounds of a write's attempts.
#[derive(Clone, Copy)]
pub struct Attempts<'a> {
    /// Of each one.
    pub wait: Wait,
    /// Of all together, by `clock`.
    pub deadline: NodeTime,
    pub clock: &'a dyn Steady,
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
    /// The caller may not write, or its time is over. Nothing landed, and nothing will.
    #[error("not written: the right to write had ended")]
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
        if !(attempts.may_send)() || attempts.are_over() {
            return Err(write.doubt.map_or(SetError::Stopped, SetError::Unknown));
        }
        match after_put(write.put().await) {
            AfterPut::Landed(written) => return Ok(written),
            AfterPut::Denied(denial) => return Err(write.denied(denial)),
            AfterPut::ReadBack(Some(doubt)) => {
                write.doubt = Some(doubt);
                write.pause().await;
                if is_broken(Twin::RetriesBlindly) {
                    continue;
                }
            }
            AfterPut::ReadBack(None) if is_broken(Twin::RetriesBlindly) => {
                return Err(SetError::Lost(None));
            }
            AfterPut::ReadBack(None) => {}
        }
        match write.read_back().await? {
            Some(written) => return Ok(written),
            None => write.pause().await,
        }
    }
}

impl Attempts<'_> {
    fn are_over(&self) -> bool {
        self.clock.now() >= self.deadline
    }

    /// The operation's outcome, or what is not known for want of time.
    async fn within<T>(&self, operation: impl Future<Output = T>) -> Result<T, Doubt> {
        let began = self.clock.now();
        select! {
            biased;
            outcome = operation => Ok(outcome),
            () = self.clock.sleep(self.deadline.since(began)) => {
                Err(Doubt::TimedOut(self.clock.now().since(began)))
            }
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
        let (body, cond) = (self.body.clone(), self.expected.clone().into());
        let put = self.bucket.put(self.key, body, cond, self.attempts.wait);
        self.attempts.within(put).await.unwrap_or_else(|doubt| Err(PutError::Unknown(doubt)))
    }

    /// What became of the attempts so far; none when the same bytes may be sent again.
    async fn read_back(&mut self) -> Result<Option<Written>, SetError> {
        loop {
            let read = self.bucket.get(self.key, self.attempts.wait);
            let read = self.attempts.within(read).await;
            let read = read.unwrap_or_else(|doubt| Err(GetError::Unknown(doubt)));
            match after_read(&self.expected, &self.body, read) {
                AfterRead::Landed(written) => return Ok(Some(written)),
                AfterRead::Lost(object) => return Err(SetError::Lost(object)),
                AfterRead::SendAgain => return Ok(None),
                AfterRead::Denied(denial) => return Err(self.denied(denial)),
                AfterRead::ReadAgain(doubt) => {
                    if self.attempts.are_over() {
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
        let Attempts { clock, deadline, .. } = self.attempts;
        clock.sleep(wait.min(deadline.since(clock.now()))).await;
    }
}
