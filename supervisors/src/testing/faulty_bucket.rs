//! A bucket that fails as it is told to: faults are data, used up in their order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::MemoryBucket;
use crate::ports::{
    Bucket, BucketFuture, Cond, DeleteError, Denial, Doubt, ETag, GetError, ListError, ListFrom,
    Object, Page, PutError, Wait, Written,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Get,
    Put,
    List,
    Delete,
}

/// What happens to one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketFault {
    /// It never reaches the bucket, and the caller is told nothing.
    LostRequest,
    /// It is carried out, and the caller is told nothing.
    LostAnswer,
    /// It is carried out so much later, and the caller is told nothing.
    Late(Duration),
    /// It is carried out at once, and the caller is told so much later, whatever it waits for.
    AnsweredLate(Duration),
    /// It never reaches the bucket, and the caller is never told anything.
    Silent,
    /// It is not carried out, and the bucket says so: 409, 429, 500, 503.
    Answered(u16),
    /// It is carried out, and the bucket says that it failed.
    AnsweredAfterAll(u16),
    /// A write is carried out whatever its condition.
    NoCondition,
    /// A page ends after so many keys.
    Short(u16),
    /// A page has no keys and says that there are more.
    NoKeys,
    Denied,
    /// Nothing is wrong with this one.
    None,
}

/// The faults of a `MemoryBucket`. What no fault is left for goes well.
pub struct FaultyBucket {
    bucket: MemoryBucket,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: VecDeque<(Operation, BucketFault)>,
    asked: Vec<(Operation, String)>,
    meanwhile: Vec<(Operation, String, Bytes)>,
    is_cut_off: bool,
}

impl FaultyBucket {
    pub fn new(bucket: MemoryBucket) -> Self {
        Self { bucket, state: Mutex::default() }
    }

    /// The next operation of this kind that has no fault yet has this one.
    pub fn fails(&self, operation: Operation, fault: BucketFault) {
        self.state().faults.push_back((operation, fault));
    }

    /// Right before the next operation of this kind, somebody else writes this object.
    pub fn meanwhile(&self, operation: Operation, key: &str, body: &[u8]) {
        let body = Bytes::copy_from_slice(body);
        self.state().meanwhile.push((operation, key.to_owned(), body));
    }

    /// The keys that operations of this kind were asked for, a listing's prefix.
    pub fn asked_for(&self, operation: Operation) -> Vec<String> {
        let state = self.state();
        let asked = state.asked.iter().filter(|(asked, _)| *asked == operation);
        asked.map(|(_, key)| key.clone()).collect()
    }

    /// While it is cut off, no request reaches it.
    pub fn cut_off(&self, is_cut_off: bool) {
        self.state().is_cut_off = is_cut_off;
    }

    /// How many operations of this kind were asked for.
    pub fn asked(&self, operation: Operation) -> usize {
        self.state().asked.iter().filter(|(asked, _)| *asked == operation).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, operation: Operation, key: &str) -> BucketFault {
        let mut state = self.state();
        state.asked.push((operation, key.to_owned()));
        let all = std::mem::take(&mut state.meanwhile);
        let (meanwhile, later): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(of, ..)| *of == operation);
        state.meanwhile = later;
        for (_, key, body) in meanwhile {
            let _ = self.bucket.write(&key, body, &Cond::Any);
        }
        if state.is_cut_off {
            return BucketFault::LostRequest;
        }
        let at = state.faults.iter().position(|(of, _)| *of == operation);
        let fault = at.and_then(|at| state.faults.remove(at));
        fault.map_or(BucketFault::None, |(_, fault)| fault)
    }

    /// Runs `act` as the fault has it.
    async fn run<T, E>(
        &self,
        fault: BucketFault,
        wait: Wait,
        act: impl FnOnce(MemoryBucket, bool) -> Result<T, E> + Send + 'static,
        unknown: fn(Doubt) -> E,
        denied: fn(Denial) -> E,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let bucket = self.bucket.clone();
        let answered = |status| Doubt::Answered { status, code: "Fault".into() };
        let timed_out = Doubt::TimedOut(wait.longest());
        match fault {
            BucketFault::None | BucketFault::Short(_) | BucketFault::NoKeys => act(bucket, true),
            BucketFault::NoCondition => act(bucket, false),
            BucketFault::LostRequest => {
                sleep(wait.longest()).await;
                Err(unknown(timed_out))
            }
            BucketFault::LostAnswer => {
                let _ = act(bucket, true);
                sleep(wait.longest()).await;
                Err(unknown(timed_out))
            }
            BucketFault::Late(later) => {
                tokio::spawn(async move {
                    sleep(later).await;
                    let _ = act(bucket, true);
                });
                sleep(wait.longest()).await;
                Err(unknown(timed_out))
            }
            BucketFault::AnsweredLate(later) => {
                let outcome = act(bucket, true);
                sleep(later).await;
                outcome
            }
            BucketFault::Silent => std::future::pending().await,
            BucketFault::Answered(status) => Err(unknown(answered(status))),
            BucketFault::AnsweredAfterAll(status) => {
                let _ = act(bucket, true);
                Err(unknown(answered(status)))
            }
            BucketFault::Denied => Err(denied(Denial {
                status: 403,
                code: "AccessDenied".into(),
                message: "a fault".into(),
            })),
        }
    }
}

impl Bucket for FaultyBucket {
    fn get<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<Object, GetError>> {
        let fault = self.next(Operation::Get, key);
        let key = key.to_owned();
        let act = move |bucket: MemoryBucket, _| bucket.read(&key);
        Box::pin(self.run(fault, wait, act, GetError::Unknown, GetError::Denied))
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a str,
        etag: &'a ETag,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Option<Object>, GetError>> {
        let object = self.get(key, wait);
        Box::pin(async move { Ok(Some(object.await?).filter(|object| object.etag != *etag)) })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        body: Bytes,
        cond: Cond,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Written, PutError>> {
        let fault = self.next(Operation::Put, key);
        let key = key.to_owned();
        let act = move |bucket: MemoryBucket, keeps: bool| {
            bucket.write(&key, body, if keeps { &cond } else { &Cond::Any })
        };
        Box::pin(self.run(fault, wait, act, PutError::Unknown, PutError::Denied))
    }

    fn list<'a>(
        &'a self,
        from: ListFrom<'a>,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Page, ListError>> {
        let fault = self.next(Operation::List, from.prefix);
        let keys_max = match fault {
            BucketFault::Short(keys) => keys.min(from.keys_max),
            _ => from.keys_max,
        };
        let has_none = fault == BucketFault::NoKeys;
        let prefix = from.prefix.to_owned();
        let after = from.after.map(str::to_owned);
        let act = move |bucket: MemoryBucket, _| {
            let page =
                bucket.page(&ListFrom { prefix: &prefix, after: after.as_deref(), keys_max });
            let empty = || Page { objects: Vec::new(), has_more: true, date: page.date };
            Ok(if has_none { empty() } else { page })
        };
        Box::pin(self.run(fault, wait, act, ListError::Unknown, ListError::Denied))
    }

    fn delete<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<(), DeleteError>> {
        let fault = self.next(Operation::Delete, key);
        let key = key.to_owned();
        let act = move |bucket: MemoryBucket, _| bucket.remove(&key);
        Box::pin(self.run(fault, wait, act, DeleteError::Unknown, DeleteError::Denied))
    }
}
