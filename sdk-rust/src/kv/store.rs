use super::rules::{Expect, KEY_BYTES_MAX, keys_after, version_at};
use super::{CONFLICT, DURABLE, ETAG, EXPECT, EXPIRES, Listed, NO_KEY, Page, TTL};
use crate::options::{self, not_allowed, now_ms};
use crate::{Actor, Error, Method, Request, Response, Result, alarms, storage, target};

/// Passing it on takes a part of the CPU an event has.
const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// A hundred years.
const TTL_MS_MAX: i64 = 100 * 366 * 24 * 3600 * 1000;
const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1000;
/// How long after its end an entry is removed, so that many which end soon after one another go in
/// one event.
const REMOVED_AFTER_MS: i64 = 2000;
/// Entries removed in one event.
const REMOVED_MAX: u32 = 100;

/// `AUTOINCREMENT` never gives a number twice, also after the row that had it is gone.
const SCHEMA: [&str; 2] = [
    "CREATE TABLE entries (
        version INTEGER PRIMARY KEY AUTOINCREMENT,
        key BLOB NOT NULL UNIQUE,
        value BLOB NOT NULL,
        expires INTEGER
    ) STRICT",
    "CREATE INDEX entries_by_end ON entries (expires) WHERE expires IS NOT NULL",
];

/// The actor that is a store: `wasmkeep_sdk::actor!(wasmkeep_sdk::kv::Store);` makes a class of
/// them. See [`kv`](crate::kv).
#[derive(Debug, Default)]
pub struct Store;

impl Actor for Store {
    fn init(&mut self) -> Result<()> {
        storage::migrate(SCHEMA)
    }

    fn request(&mut self, mut request: Request) -> Result<Response> {
        match request.route() {
            (Method::Get, ["keys"]) => list(&request),
            (Method::Get, ["keys", _]) => get(&request),
            (Method::Put, ["keys", _]) => set(&mut request),
            (Method::Delete, ["keys", _]) => delete(&request),
            (_, ["keys"]) => Ok(not_allowed("GET, HEAD")),
            (_, ["keys", _]) => Ok(not_allowed("GET, HEAD, PUT, DELETE")),
            _ => Err(Error::not_found("try GET /keys, or GET, PUT or DELETE /keys/KEY")),
        }
    }

    fn alarm(&mut self) -> Result<()> {
        storage::exec(
            "DELETE FROM entries WHERE version IN
             (SELECT version FROM entries WHERE expires <= ? ORDER BY expires LIMIT ?)",
            (now_ms(), REMOVED_MAX),
        )?;
        let sql = "SELECT min(expires) FROM entries WHERE expires IS NOT NULL";
        if let Some(end) = storage::query_one::<Option<i64>>(sql, ())? {
            alarms::set_at_ms(removal(end))?;
        }
        Ok(())
    }
}

fn get(request: &Request) -> Result<Response> {
    options::only(request, &[])?;
    let key = key_of(request)?;
    let row: Option<(i64, Option<i64>, storage::Value)> = storage::query_optional(
        "SELECT version, expires, value FROM entries WHERE key = ?",
        (key.as_bytes(),),
    )?;
    let found = row
        .filter(|(version, expires, _)| version_at(Some((*version, *expires)), now_ms()).is_some());
    let Some((version, expires, storage::Value::Blob(value))) = found else {
        return Err(no_key());
    };
    let response = Response::new(200)
        .header("content-type", "application/octet-stream")
        .header(ETAG, etag(version))
        .body(value);
    Ok(match expires {
        Some(end) => response.header(EXPIRES, end.to_string()),
        None => response,
    })
}

fn set(request: &mut Request) -> Result<Response> {
    options::only(request, &["expect", "ttl-ms", "durable"])?;
    let key = key_of(request)?;
    let (expect, durable) = (expect_of(request)?, durable_of(request)?);
    let ttl = options::number(request, ("ttl-ms", TTL), 1..=TTL_MS_MAX)?;
    let value = options::body(request, "a value", VALUE_BYTES_MAX)?;
    let now = now_ms();
    let expires = ttl.map(|ttl| now.saturating_add(ttl));
    let change = || {
        let version = current(&key, now)?;
        if !expect.is_met_by(version) {
            return Ok(Err(version));
        }
        let sql = "REPLACE INTO entries (key, value, expires) VALUES (?, ?, ?) RETURNING version";
        let version: i64 = storage::query_one(sql, (key.as_bytes(), value, expires))?;
        if let Some(end) = expires {
            remove_at(removal(end))?;
        }
        Ok(Ok(version))
    };
    Ok(match in_transaction(durable, change)? {
        Ok(version) => Response::empty().header(ETAG, etag(version)),
        Err(version) => conflict(version),
    })
}

fn delete(request: &Request) -> Result<Response> {
    options::only(request, &["expect", "durable"])?;
    let key = key_of(request)?;
    let (expect, durable) = (expect_of(request)?, durable_of(request)?);
    let change = || {
        let version = current(&key, now_ms())?;
        if !expect.is_met_by(version) {
            return Ok(Err(version));
        }
        storage::exec("DELETE FROM entries WHERE key = ?", (key.as_bytes(),))?;
        Ok(Ok(version.is_some()))
    };
    match in_transaction(durable, change)? {
        Ok(true) => Ok(Response::empty()),
        Ok(false) => Err(no_key()),
        Err(version) => Ok(conflict(version)),
    }
}

fn list(request: &Request) -> Result<Response> {
    options::only(request, &["prefix", "after", "limit"])?;
    let prefix = request.query("prefix").unwrap_or_default();
    let keys = keys_after(prefix, request.query("after"));
    let limit = options::number(request, ("limit", ""), 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    // One more than is shown tells whether there are more.
    let rows: Vec<(Vec<u8>, u64, u64, Option<u64>)> = storage::query_as(
        "SELECT key, version, length(value), expires FROM entries
         WHERE key >= ? AND key < ? AND (expires IS NULL OR expires > ?) ORDER BY key LIMIT ?",
        (keys.start, keys.end, now_ms(), limit + 1),
    )?;
    let has_more = rows.len() > limit as usize;
    let mut keys = Vec::with_capacity(rows.len());
    for (key, version, size, expires_ms) in rows.into_iter().take(limit as usize) {
        keys.push(Listed { key: String::from_utf8(key)?, version, size, expires_ms });
    }
    let next = keys.last().filter(|_| has_more).map(|last| last.key.clone());
    Ok(Response::json(&Page { keys, next }))
}

/// The key in the path. Bytes that are no text must not become another key.
fn key_of(request: &Request) -> Result<String> {
    let raw = request.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let key = target::text_of(raw)
        .ok_or_else(|| Error::bad_request("the key is no UTF-8, percent-encoded"))?;
    if key.len() > KEY_BYTES_MAX {
        let has = key.len();
        let wrong = format!("a key has at most {KEY_BYTES_MAX} bytes, this one {has}");
        return Err(Error::bad_request(wrong));
    }
    Ok(key)
}

fn expect_of(request: &Request) -> Result<Expect> {
    let text = options::text(request, "expect", EXPECT)?;
    Expect::parse(text).ok_or_else(|| {
        let text = text.unwrap_or_default();
        Error::bad_request(format!("`expect`: {text:?} is no version, and not `absent`"))
    })
}

fn durable_of(request: &Request) -> Result<bool> {
    match options::text(request, "durable", DURABLE)? {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            Err(Error::bad_request(format!("`durable`: {other:?} is neither true nor false")))
        }
    }
}

fn current(key: &str, now: i64) -> Result<Option<i64>> {
    let sql = "SELECT version, expires FROM entries WHERE key = ?";
    Ok(version_at(storage::query_optional(sql, (key.as_bytes(),))?, now))
}

fn in_transaction<T>(durable: bool, change: impl FnOnce() -> Result<T>) -> Result<T> {
    if durable { storage::transaction_durable(change) } else { storage::transaction(change) }
}

fn removal(end: i64) -> u64 {
    u64::try_from(end.saturating_add(REMOVED_AFTER_MS)).unwrap_or_default()
}

fn remove_at(ms: u64) -> Result<()> {
    if alarms::get_ms()?.is_none_or(|pending| ms < pending) {
        alarms::set_at_ms(ms)?;
    }
    Ok(())
}

fn etag(version: i64) -> String {
    format!("\"{version}\"")
}

fn no_key() -> Error {
    Error::not_found(NO_KEY)
}

fn conflict(version: Option<i64>) -> Response {
    let is = match version {
        Some(version) => format!("the key is not as expected: it has version {version}"),
        None => "the key is not as expected: it is not there".to_owned(),
    };
    let response = Response::from(Error::status(CONFLICT, is));
    match version {
        Some(version) => response.header(ETAG, etag(version)),
        None => response,
    }
}
