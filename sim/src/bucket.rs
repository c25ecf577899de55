//! The bucket: one map, in which everything happens at one moment, and the ways to it, on which
//! requests and answers are late or lost.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use wasmkeep_supervisors::limits::BUCKET_PAGE_KEYS_MAX;
use wasmkeep_supervisors::ports::{
    Bucket, BucketFuture, BucketTime, Cond, DeleteError, Doubt, ETag, GetError, ListError,
    ListFrom, Listed, Object, Page, PutError, Wait, Written,
};

use crate::checker::Checker;
use crate::clock::MachineClock;
use crate::fate::{Asked, Fates, Operation};
use crate::gate::Gate;
use crate::trace::Trace;

struct Stored {
    body: Bytes,
    etag: ETag,
    modified: BucketTime,
}

pub struct Store {
    began: Instant,
    objects: Mutex<BTreeMap<String, Stored>>,
    checker: Arc<Checker>,
    trace: Arc<Trace>,
}

impl Store {
    pub fn new(checker: Arc<Checker>, trace: Arc<Trace>) -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), objects: Mutex::default(), checker, trace })
    }

    /// Whole seconds, as buckets tell them.
    fn now(&self) -> BucketTime {
        BucketTime((1_700_000_000 + self.began.elapsed().as_secs()) * 1000)
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn read(&self, key: &str) -> Result<Object, GetError> {
        let objects = self.objects();
        let Stored { body, etag, modified } = objects.get(key).ok_or(GetError::Missing)?;
        let (body, etag) = (body.clone(), etag.clone());
        Ok(Object { body, etag, modified: Some(*modified), date: Some(self.now()) })
    }

    /// Writes as if from nowhere: for what was in the bucket before the run, and for other hands.
    pub fn write(&self, key: &str, body: Bytes, cond: &Cond) -> Result<Written, PutError> {
        let mut objects = self.objects();
        match (cond, objects.get(key)) {
            (Cond::Absent, Some(_)) => return Err(PutError::Mismatch),
            (Cond::Match(_), None) => return Err(PutError::Missing),
            (Cond::Match(etag), Some(stored)) if *etag != stored.etag => {
                return Err(PutError::Mismatch);
            }
            _ => {}
        }
        let text = blake3::hash(&body).to_hex();
        let etag = ETag::new(&text[..32]).expect("digits");
        let modified = self.now();
        let stored = Stored { body: body.clone(), etag: etag.clone(), modified };
        objects.insert(key.to_owned(), stored);
        drop(objects);
        self.checker.landed(key, &body);
        Ok(Written { etag, date: Some(modified) })
    }

    fn remove(&self, key: &str) {
        if self.objects().remove(key).is_some() {
            self.checker.removed(key);
        }
    }

    fn page(&self, prefix: &str, after: Option<&str>, keys_max: u16) -> Page {
        let objects = self.objects();
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut found = objects
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        let most = usize::from(keys_max.min(BUCKET_PAGE_KEYS_MAX));
        let objects = found.by_ref().take(most).map(|(key, stored)| Listed {
            key: key.clone(),
            etag: stored.etag.clone(),
            bytes: stored.body.len() as u64,
            modified: Some(stored.modified),
        });
        let objects: Vec<Listed> = objects.collect();
        let has_more = !objects.is_empty() && found.next().is_some();
        Page { objects, has_more, date: Some(self.now()) }
    }
}

/// One node's way to the bucket.
pub struct NodeBucket {
    pub store: Arc<Store>,
    pub fates: Fates,
    pub gate: Gate,
    pub clock: MachineClock,
    pub machine: usize,
    pub own_lease: String,
    /// Its node's lease is valid.
    pub may_write: Box<dyn Fn() -> bool + Send + Sync>,
}

impl NodeBucket {
    /// Sends a request. It goes its way even if nobody waits for it any more.
    async fn send<T, E>(
        &self,
        (operation, key): (Operation, &str),
        wait: Wait,
        act: impl FnOnce(&Store, u16) -> Result<T, E> + Send + 'static,
        unknown: fn(Doubt) -> E,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        // Whoever waits for the last write of a node counts from its horizon.
        let writes = matches!(operation, Operation::Put | Operation::Delete);
        if writes && key.starts_with("state/") && !(self.may_write)() {
            let machine = self.machine;
            self.store.checker.breaks(format!("machine {machine} sends {key} without a lease"));
        }
        self.gate.pass().await;
        let is_own_lease = key == self.own_lease;
        let asked = Asked { machine: self.machine, operation, key: key.to_owned(), is_own_lease };
        let fate = self.fates.draw(&asked);
        if fate.reaches.is_none() || fate.answered.is_none() {
            let Asked { machine, key, .. } = &asked;
            let lost = if fate.reaches.is_none() { "request" } else { "answer" };
            self.store.trace.note(|| format!("lost: {lost} of {operation:?} {key} of {machine}"));
        }
        let (answer, mut answered) = oneshot::channel();
        let store = Arc::clone(&self.store);
        let sent = Instant::now();
        tokio::spawn(async move {
            let Some(reaches) = fate.reaches else { return };
            sleep(reaches).await;
            let result = fate.is_carried_out.then(|| act(&store, fate.keys_max));
            if !matches!(operation, Operation::Get | Operation::List) {
                let said = match &result {
                    Some(Ok(_)) => "done",
                    Some(Err(_)) => "refused",
                    None => "not done",
                };
                let Asked { machine, key, .. } = &asked;
                let took = sent.elapsed().as_secs_f64();
                store.trace.note(|| {
                    format!("bucket: {operation:?} {key} of {machine}, {said} after {took:.1} s")
                });
            }
            let Some(back) = fate.answered else { return };
            sleep(back).await;
            let failed = |status| Err(unknown(Doubt::Answered { status, code: "Fault".into() }));
            let said = match (fate.status, result) {
                (Some(status), _) => failed(status),
                (None, Some(result)) => result,
                (None, None) => failed(500),
            };
            let _ = answer.send(said);
        });
        let timeout = sleep(self.clock.in_the_world(wait.longest()));
        tokio::pin!(timeout);
        let said = tokio::select! {
            biased;
            Ok(said) = &mut answered => Some(said),
            () = &mut timeout => None,
        };
        self.gate.pass().await;
        // What came while the node was paused is there now.
        let said = said.or_else(|| answered.try_recv().ok());
        said.unwrap_or_else(|| Err(unknown(Doubt::TimedOut(wait.longest()))))
    }
}

impl Bucket for NodeBucket {
    fn get<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<Object, GetError>> {
        let of = key.to_owned();
        let act = move |store: &Store, _| store.read(&of);
        Box::pin(self.send((Operation::Get, key), wait, act, GetError::Unknown))
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
        let of = key.to_owned();
        let act = move |store: &Store, _| store.write(&of, body, &cond);
        Box::pin(self.send((Operation::Put, key), wait, act, PutError::Unknown))
    }

    fn list<'a>(
        &'a self,
        from: ListFrom<'a>,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Page, ListError>> {
        let (prefix, after) = (from.prefix.to_owned(), from.after.map(str::to_owned));
        let keys_max = from.keys_max;
        let act = move |store: &Store, short: u16| {
            Ok(store.page(&prefix, after.as_deref(), keys_max.min(short)))
        };
        Box::pin(self.send((Operation::List, from.prefix), wait, act, ListError::Unknown))
    }

    fn delete<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<(), DeleteError>> {
        let of = key.to_owned();
        let act = move |store: &Store, _| {
            store.remove(&of);
            Ok(())
        };
        Box::pin(self.send((Operation::Delete, key), wait, act, DeleteError::Unknown))
    }
}
