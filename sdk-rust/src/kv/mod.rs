//! A key-value store that is an actor: the class, in one line, and its client.
//!
//! ```no_run
//! // The class: a crate of its own. Every name of it is a store.
//! wasmkeep_sdk::actor!(wasmkeep_sdk::kv::Store);
//! ```
//!
//! ```no_run
//! # use wasmkeep_sdk::{Result, kv::{self, KvError}};
//! use std::time::Duration;
//!
//! # fn example() -> Result<()> {
//! // In another actor, or in the front.
//! let sessions = kv::Client::new("kv/sessions");
//! sessions.set("ann", "token").ttl(Duration::from_secs(3600)).send()?;
//! let token = sessions.get("ann")?.map(|entry| entry.value);
//!
//! // Count visits, whoever else does.
//! let visits = kv::Client::new("kv/visits");
//! loop {
//!     let entry = visits.get("total")?;
//!     let total: u64 = entry.as_ref().map_or(Ok(0), |entry| entry.json())?;
//!     let set = visits.set_json("total", &(total + 1)).expect(entry.map(|entry| entry.version));
//!     match set.send() {
//!         Ok(_) => break,
//!         Err(KvError::Conflict { .. }) => {} // somebody was faster
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Keys** are text of 1 to 512 bytes, values bytes, at most 1 MiB. A store is one actor, so it
//! does one thing at a time and holds 1 GiB: spread keys over several by name.
//!
//! **Versions.** Each time a value is set, it gets a version: a number of the store that is higher
//! than all before it, those of deleted keys too. So a version is never the same for two values.
//!
//! **Expect.** [`Set::expect`] and [`Delete::expect`] name the version the key must have, or none
//! for a key that must not be there. The store compares and changes in one event; if it is not so,
//! nothing changes, and [`KvError::Conflict`] has the version there is.
//!
//! **TTL.** A key that was set with a TTL is there until the clock of the store's node has reached
//! the time it was set plus the TTL, in milliseconds. From then on it is not there: for `get`, for
//! `list`, and for `expect`. Setting it again replaces the TTL too, by none if none is said. The end
//! is a time kept with the value: it passes while the server is down. The bytes are freed some 2 s
//! later, by the store's alarm.
//!
//! **Durable.** What was set or deleted survives a crash of the server. With
//! [`durable`](Set::durable) it survives the loss of power too (in a cluster, of the node) once the
//! answer is there; without, it soon will.
//!
//! **A call that gets no answer** may have been carried out. Setting and deleting with `expect` can
//! be tried again: if the first one was, the second is a conflict.
//!
//! The requests themselves are in `docs/kv-and-queue.md`.

mod rules;
mod store;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::store::Store;
use crate::actors::{self, Answer, Call, Failure};
use crate::options::in_ms;
use crate::target::percent_encode;

const EXPECT: &str = "x-wasmkeep-kv-expect";
const TTL: &str = "x-wasmkeep-kv-ttl-ms";
const DURABLE: &str = "x-wasmkeep-kv-durable";
/// What `expect` says of a key that must not be there.
const ABSENT: &str = "absent";
/// When an entry ends, in an answer.
const EXPIRES: &str = "kv-expires-ms";
const ETAG: &str = "etag";
const CONFLICT: u16 = 412;
const NO_KEY: &str = "there is no such key";

/// A client of one store.
#[derive(Clone, Debug)]
pub struct Client {
    target: String,
}

/// What a store has for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// Its version, for [`Set::expect`].
    pub version: u64,
    /// When its TTL ends, if it has one.
    pub expires: Option<SystemTime>,
}

impl Entry {
    /// The value, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> crate::Result<T> {
        Ok(serde_json::from_slice(&self.value)?)
    }
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The key is not as [`expect`](Set::expect)ed. Nothing changed.
    #[error("the key is not as expected: its version is {version:?}")]
    Conflict {
        /// The version it has; none when it is not there.
        version: Option<u64>,
    },
    /// All else: a refusal of the host, no answer, a value too large (413), a full store (507).
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<actors::CallError> for KvError {
    fn from(error: actors::CallError) -> Self {
        KvError::Failed(error.into())
    }
}

impl Client {
    /// A client of the store `class/name`, the name as it is.
    pub fn new(target: impl Into<String>) -> Self {
        Client { target: target.into() }
    }

    /// What there is for a key.
    pub fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        let Some(answer) = unless_absent(actors::call(&*self.target).get(path(key)).send()?)?
        else {
            return Ok(None);
        };
        let version = version_of(&answer)?;
        let expires = answer.header(EXPIRES).and_then(|ms| ms.parse().ok());
        let expires = expires.and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
        Ok(Some(Entry { value: answer.into_bytes(), version, expires }))
    }

    /// Sets a key to a value: say more if need be, then [`send`](Set::send) it.
    pub fn set(&self, key: &str, value: impl Into<Vec<u8>>) -> Set {
        Set { call: actors::call(&*self.target).put(path(key)).body(value) }
    }

    /// As [`set`](Client::set), of a value written as JSON.
    pub fn set_json(&self, key: &str, value: &(impl Serialize + ?Sized)) -> Set {
        Set { call: actors::call(&*self.target).put(path(key)).json(value) }
    }

    /// Deletes a key: say more if need be, then [`send`](Delete::send) it.
    pub fn delete(&self, key: &str) -> Delete {
        Delete { call: actors::call(&*self.target).delete(path(key)) }
    }

    /// The keys that begin with a text, in the order of their bytes; `""` for all of them. Goes on
    /// after `after`, which is the `next` of the page before.
    ///
    /// Each page is the store's at one time. A key that is there from the first page to the last is
    /// listed once.
    ///
    /// ```no_run
    /// # use wasmkeep_sdk::{Result, kv};
    /// # fn example() -> Result<()> {
    /// let store = kv::Client::new("kv/sessions");
    /// let mut after = None;
    /// loop {
    ///     let page = store.list("user/", after.as_deref(), 500)?;
    ///     for listed in &page.keys {
    ///         println!("{}", listed.key);
    ///     }
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: u32) -> Result<Page, KvError> {
        let mut path = format!("/keys?prefix={}&limit={limit}", percent_encode(prefix));
        if let Some(after) = after {
            path += &format!("&after={}", percent_encode(after));
        }
        let answer = actors::call(&*self.target).get(path).send()?.done()?;
        let page = serde_json::from_slice(answer.bytes());
        page.map_err(|error| Failure::Unreadable(error.to_string()).into())
    }
}

/// A part of a store's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Page {
    /// The keys, at most as many as were asked for.
    pub keys: Vec<Listed>,
    /// What to go on after; none when there are no more.
    pub next: Option<String>,
}

/// A key of a [`Page`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Listed {
    /// The key.
    pub key: String,
    /// The version of its value.
    pub version: u64,
    /// The value's length in bytes.
    pub size: u64,
    /// When its TTL ends, in milliseconds since 1970-01-01T00:00Z, if it has one.
    pub expires_ms: Option<u64>,
}

/// A value to set. Made by [`Client::set`].
#[derive(Debug)]
#[must_use = "nothing is set until it is sent"]
pub struct Set {
    call: Call,
}

impl Set {
    /// Sets it only if the key has this version; with `None`, only if it is not there.
    pub fn expect(self, version: impl Into<Option<u64>>) -> Self {
        Set { call: self.call.header(EXPECT, expected(version.into())) }
    }

    /// How long the key is there: 1 ms to 100 years, rounded up to milliseconds.
    pub fn ttl(self, ttl: Duration) -> Self {
        Set { call: self.call.header(TTL, in_ms(ttl)) }
    }

    /// Answers only once it is durable.
    pub fn durable(self) -> Self {
        Set { call: self.call.header(DURABLE, "true") }
    }

    /// Sends it, and returns the new version.
    pub fn send(self) -> Result<u64, KvError> {
        Ok(version_of(&unless_conflict(self.call.send()?)?.done()?)?)
    }
}

/// A key to delete. Made by [`Client::delete`].
#[derive(Debug)]
#[must_use = "nothing is deleted until it is sent"]
pub struct Delete {
    call: Call,
}

impl Delete {
    /// Deletes it only if it has this version.
    pub fn expect(self, version: u64) -> Self {
        Delete { call: self.call.header(EXPECT, expected(Some(version))) }
    }

    /// Answers only once it is durable.
    pub fn durable(self) -> Self {
        Delete { call: self.call.header(DURABLE, "true") }
    }

    /// Sends it, and says whether the key was there.
    pub fn send(self) -> Result<bool, KvError> {
        Ok(unless_absent(unless_conflict(self.call.send()?)?)?.is_some())
    }
}

fn path(key: &str) -> String {
    format!("/keys/{}", percent_encode(key))
}

fn expected(version: Option<u64>) -> String {
    version.map_or_else(|| ABSENT.to_owned(), |version| version.to_string())
}

/// None for a key that is not there. Another actor's 404 is a failure: it is no store.
fn unless_absent(answer: Answer) -> Result<Option<Answer>, KvError> {
    match answer.done() {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::Answered { status: 404, message }) if message == NO_KEY => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

fn unless_conflict(answer: Answer) -> Result<Answer, KvError> {
    if answer.status_code() == CONFLICT && answer.refusal().is_none() {
        return Err(KvError::Conflict { version: version_of(&answer).ok() });
    }
    Ok(answer)
}

fn version_of(answer: &Answer) -> Result<u64, Failure> {
    let version = answer.header(ETAG).and_then(|etag| etag.trim_matches('"').parse().ok());
    version.ok_or_else(|| Failure::Unreadable("it has no version: is this a store?".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Method;

    #[test]
    fn what_a_client_says_goes_into_three_headers() {
        let store = Client::new("kv/a");
        let set = store.set("a/é", "x").expect(7).ttl(Duration::from_millis(1500)).durable();
        let (target, request) = set.call.into_request().unwrap();
        assert_eq!((&*target, &*request.path), ("kv/a", "/keys/a%2F%C3%A9"));
        assert_eq!(request.method, Method::Put.as_str());
        let headers = crate::Headers::from(request.headers);
        assert_eq!(headers.get("x-wasmkeep-kv-expect"), Some("7"));
        assert_eq!(headers.get("x-wasmkeep-kv-ttl-ms"), Some("1500"));
        assert_eq!(headers.get("x-wasmkeep-kv-durable"), Some("true"));
        let set = store.set("a", "x").expect(None);
        let headers = crate::Headers::from(set.call.into_request().unwrap().1.headers);
        assert_eq!(headers.get("x-wasmkeep-kv-expect"), Some("absent"));
        assert_eq!(headers.iter().count(), 1);
    }
}
