//! Whether a store keeps what a cluster rests on, tried out under `probe/<random>`.
//!
//! A condition that does not hold is a `Violation`: such a store is not used, whatever else it does
//! well. An answer that decides nothing is none; the probe is begun anew under another name, and after
//! a few times it is inconclusive. It deletes what it wrote, however it ends.

use std::time::{Duration, Instant};

use bytes::Bytes;
use thiserror::Error;
use tokio::task::JoinSet;
use wasmkeep_supervisors::bucket::{ListAllError, Nonce, list_all};
use wasmkeep_supervisors::ports::{
    Bucket, Cond, DeleteError, Denial, Doubt, ETag, GetError, PutError, Random, Wait,
};

use super::etag::ETagForm;
use super::s3::S3Bucket;

/// Attempts before an undecided probe is given up.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// Writes of one key at once.
const RACERS: usize = 8;
const WAIT: Wait = Wait::Record;

/// A store that can be relied on.
#[derive(Debug, Clone, PartialEq)]
pub struct Probed {
    pub form: ETagForm,
    /// It tells its own time with its answers.
    pub has_dates: bool,
    pub latencies: Latencies,
}

/// How long single requests took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latencies {
    pub put: Duration,
    pub get: Duration,
    pub list: Duration,
    pub delete: Duration,
}

/// What a store does that loses data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Violation {
    #[error("If-None-Match: * is ignored: an object that is there was overwritten")]
    IgnoresAbsent,
    #[error("If-Match is ignored: an object was overwritten although its version was another")]
    IgnoresMatch,
    #[error("If-Match writes where there is no object")]
    WritesWhenMissing,
    #[error("If-Match never holds: an object's own version is refused, in quotes and without")]
    NeverMatches,
    #[error("conditional writes are refused: it does not know If-None-Match or If-Match")]
    NoConditions,
    #[error("ETags are weak or missing: no write can be conditional on them")]
    NoVersions,
    #[error("of writes at once under one condition, several were told that they landed")]
    SeveralWinners,
    #[error("a read after a write does not show what was written")]
    StaleRead,
    #[error("a listing after a write does not show what was written")]
    StaleListing,
    #[error("a deleted object is still read")]
    StaleDelete,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProbeError {
    #[error("{0}")]
    Violated(Violation),
    #[error("to {doing}: {denial}")]
    Denied { doing: &'static str, denial: Denial },
    /// Nothing is known against the store.
    #[error("to {doing}: {doubt}")]
    Inconclusive { doing: &'static str, doubt: Doubt },
}

/// Tries the store out. Its reports name no form: the one that holds is found.
pub async fn probe(bucket: &S3Bucket, random: &dyn Random) -> Result<Probed, ProbeError> {
    let mut last = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let mut probe = Probe::new(bucket, random);
        let tried = probe.run().await;
        let cleaned = probe.clean_up().await;
        match (tried, cleaned) {
            (Ok(probed), Ok(())) => return Ok(probed),
            (Err(error @ ProbeError::Inconclusive { .. }), _) => last = Some(error),
            (Err(error), _) => return Err(error),
            (Ok(_), Err(error @ ProbeError::Inconclusive { .. })) => last = Some(error),
            (Ok(_), Err(error)) => return Err(error),
        }
    }
    Err(last.expect("an attempt that decided nothing"))
}

struct Probe<'a> {
    bucket: &'a S3Bucket,
    random: &'a dyn Random,
    folder: String,
    /// What may be there.
    keys: Vec<String>,
    latencies: Latencies,
}

impl<'a> Probe<'a> {
    fn new(bucket: &'a S3Bucket, random: &'a dyn Random) -> Self {
        let folder = format!("probe/{}{}/", Nonce::draw(random), Nonce::draw(random));
        Self { bucket, random, folder, keys: Vec::new(), latencies: Latencies::default() }
    }

    async fn run(&mut self) -> Result<Probed, ProbeError> {
        let key = self.key("object");
        let (first, has_dates) = self.creates(&key).await?;
        let (form, second) = self.replaces(&key, &first).await?;
        self.refuses_stale(&key, form, &first).await?;
        self.refuses_missing(form, &second).await?;
        self.lets_one_win(form).await?;
        self.shows(&key, &second).await?;
        self.deletes(&key).await?;
        Ok(Probed { form, has_dates, latencies: self.latencies })
    }

    fn key(&mut self, name: &str) -> String {
        let key = format!("{}{name}", self.folder);
        self.keys.push(key.clone());
        key
    }

    fn body(&self) -> Bytes {
        format!("wasmkeep probe\n{}\n", Nonce::draw(self.random)).into()
    }

    async fn put(
        &self,
        bucket: &S3Bucket,
        key: &str,
        cond: Cond,
    ) -> Result<(ETag, bool), PutError> {
        let written = bucket.put(key, self.body(), cond, WAIT).await?;
        Ok((written.etag, written.date.is_some()))
    }

    /// Creates an object, and may not create it again.
    async fn creates(&mut self, key: &str) -> Result<(ETag, bool), ProbeError> {
        const DOING: &str = "create an object";
        let began = Instant::now();
        let created = match self.put(self.bucket, key, Cond::Absent).await {
            Ok(created) => created,
            Err(PutError::Denied(denial)) => return Err(self.denied_condition(denial).await),
            Err(error) => return Err(unexpected(DOING, error)),
        };
        self.latencies.put = began.elapsed();
        match self.put(self.bucket, key, Cond::Absent).await {
            Ok(_) => Err(ProbeError::Violated(Violation::IgnoresAbsent)),
            Err(PutError::Mismatch) => Ok(created),
            Err(error) => Err(unexpected("create an object that is there", error)),
        }
    }

    /// Whether it is the condition that is refused, or the writing.
    async fn denied_condition(&mut self, denial: Denial) -> ProbeError {
        let key = self.key("unconditional");
        match self.put(self.bucket, &key, Cond::Any).await {
            Ok(_) => ProbeError::Violated(Violation::NoConditions),
            _ => ProbeError::Denied { doing: "create an object", denial },
        }
    }

    /// Replaces the object by its version, in the form of ETags that the store compares.
    async fn replaces(&self, key: &str, etag: &ETag) -> Result<(ETagForm, ETag), ProbeError> {
        for form in [ETagForm::Quoted, ETagForm::Unquoted] {
            let bucket = self.bucket.with_form(form);
            match self.put(&bucket, key, Cond::Match(etag.clone())).await {
                Ok((replaced, _)) => return Ok((form, replaced)),
                Err(PutError::Mismatch) => {}
                Err(PutError::Denied(_)) => {
                    return Err(ProbeError::Violated(Violation::NoConditions));
                }
                Err(error) => return Err(unexpected("replace an object by its version", error)),
            }
        }
        Err(ProbeError::Violated(Violation::NeverMatches))
    }

    async fn refuses_stale(
        &self,
        key: &str,
        form: ETagForm,
        stale: &ETag,
    ) -> Result<(), ProbeError> {
        let bucket = self.bucket.with_form(form);
        match self.put(&bucket, key, Cond::Match(stale.clone())).await {
            Ok(_) => Err(ProbeError::Violated(Violation::IgnoresMatch)),
            Err(PutError::Mismatch) => Ok(()),
            Err(error) => Err(unexpected("replace an object by an older version", error)),
        }
    }

    async fn refuses_missing(&mut self, form: ETagForm, etag: &ETag) -> Result<(), ProbeError> {
        let key = self.key("missing");
        let bucket = self.bucket.with_form(form);
        match self.put(&bucket, &key, Cond::Match(etag.clone())).await {
            Ok(_) => Err(ProbeError::Violated(Violation::WritesWhenMissing)),
            Err(PutError::Missing | PutError::Mismatch) => Ok(()),
            Err(error) => Err(unexpected("replace an object that is not there", error)),
        }
    }

    /// Races to create an object, and to replace it. Losers may be told nothing.
    async fn lets_one_win(&mut self, form: ETagForm) -> Result<(), ProbeError> {
        let key = self.key("race");
        self.race(form, &key, Cond::Absent).await?;
        let read = self.bucket.get(&key, WAIT).await;
        let object = read.map_err(|error| not_read("read what won a race", error))?;
        self.race(form, &key, Cond::Match(object.etag)).await
    }

    async fn race(&self, form: ETagForm, key: &str, cond: Cond) -> Result<(), ProbeError> {
        let mut racers = JoinSet::new();
        for _ in 0..RACERS {
            let (bucket, key) = (self.bucket.with_form(form), key.to_owned());
            let (body, cond) = (self.body(), cond.clone());
            racers.spawn(async move { bucket.put(&key, body, cond, WAIT).await });
        }
        let outcomes = racers.join_all().await;
        let winners = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        match winners {
            0 => {
                let error = outcomes.into_iter().find_map(Result::err);
                Err(unexpected("win a race", error.unwrap_or(PutError::Mismatch)))
            }
            1 => Ok(()),
            _ => Err(ProbeError::Violated(Violation::SeveralWinners)),
        }
    }

    /// Reads and listings show the last write.
    async fn shows(&mut self, key: &str, etag: &ETag) -> Result<(), ProbeError> {
        let began = Instant::now();
        match self.bucket.get(key, WAIT).await {
            Ok(object) if object.etag == *etag => {}
            Ok(_) | Err(GetError::Missing) => {
                return Err(ProbeError::Violated(Violation::StaleRead));
            }
            Err(error) => return Err(not_read("read an object", error)),
        }
        self.latencies.get = began.elapsed();
        match self.bucket.get_if_changed(key, etag, WAIT).await {
            Ok(None) => {}
            Ok(Some(_)) | Err(GetError::Missing) => {
                return Err(ProbeError::Violated(Violation::StaleRead));
            }
            Err(error) => return Err(not_read("read an object if it changed", error)),
        }
        let began = Instant::now();
        let listed = list_all(self.bucket, &self.folder, 100, WAIT).await;
        self.latencies.list = began.elapsed();
        let listed = listed.map_err(not_listed)?;
        let seen: Vec<&str> = listed.iter().map(|object| object.key.as_str()).collect();
        let race = format!("{}race", self.folder);
        let is_current = listed.first().is_some_and(|object| object.etag == *etag);
        if seen != [key, race.as_str()] || !is_current {
            return Err(ProbeError::Violated(Violation::StaleListing));
        }
        Ok(())
    }

    async fn deletes(&mut self, key: &str) -> Result<(), ProbeError> {
        let began = Instant::now();
        self.bucket.delete(key, WAIT).await.map_err(not_deleted)?;
        self.latencies.delete = began.elapsed();
        match self.bucket.get(key, WAIT).await {
            Err(GetError::Missing) => Ok(()),
            Ok(_) => Err(ProbeError::Violated(Violation::StaleDelete)),
            Err(error) => Err(not_read("read a deleted object", error)),
        }
    }

    async fn clean_up(&self) -> Result<(), ProbeError> {
        let mut cleaned = Ok(());
        for key in &self.keys {
            let mut deleted = self.bucket.delete(key, WAIT).await;
            if matches!(deleted, Err(DeleteError::Unknown(_))) {
                tokio::time::sleep(PAUSE).await;
                deleted = self.bucket.delete(key, WAIT).await;
            }
            cleaned = cleaned.and(deleted.map_err(not_deleted));
        }
        cleaned
    }
}

/// A write that ended as no store's may, or undecided.
fn unexpected(doing: &'static str, error: PutError) -> ProbeError {
    match error {
        PutError::Denied(denial) => ProbeError::Denied { doing, denial },
        PutError::Unknown(Doubt::Version(_)) => ProbeError::Violated(Violation::NoVersions),
        PutError::Unknown(doubt) => ProbeError::Inconclusive { doing, doubt },
        // Someone else wrote there, or deleted it: under a random name, nobody means to.
        PutError::Mismatch | PutError::Missing => {
            let doubt = Doubt::Unreadable(error.to_string());
            ProbeError::Inconclusive { doing, doubt }
        }
    }
}

fn not_read(doing: &'static str, error: GetError) -> ProbeError {
    match error {
        GetError::Missing => ProbeError::Violated(Violation::StaleRead),
        GetError::Denied(denial) => ProbeError::Denied { doing, denial },
        GetError::Unknown(doubt) => ProbeError::Inconclusive { doing, doubt },
    }
}

fn not_listed(error: ListAllError) -> ProbeError {
    let doing = "list objects";
    match error {
        ListAllError::Denied(denial) => ProbeError::Denied { doing, denial },
        ListAllError::Unknown(doubt) => ProbeError::Inconclusive { doing, doubt },
        // Below a random name there is what this probe wrote, and nothing else.
        ListAllError::TooMany { .. } => ProbeError::Violated(Violation::StaleListing),
    }
}

fn not_deleted(error: DeleteError) -> ProbeError {
    let doing = "delete an object";
    match error {
        DeleteError::Denied(denial) => ProbeError::Denied { doing, denial },
        DeleteError::Unknown(doubt) => ProbeError::Inconclusive { doing, doubt },
    }
}
