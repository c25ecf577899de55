//! Somebody's account: one secret key, and the sessions it opened. Class `account`, served as
//! `internal`: only the front asks.
//!
//! A key is made by the server and shown once. It holds 160 random bits, so its plain hash cannot be
//! turned back; a password that people choose would need a slow one.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wasmkeep_sdk::{Actor, Error, Method, Request, Response, Result, alarms, storage};

const SECRET_BYTES: usize = 20;
const SESSION_LENGTH: Duration = Duration::from_secs(14 * 24 * 3600);

#[derive(Default)]
struct Account;

#[derive(Serialize)]
struct SignedUp {
    key: String,
    session: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Secret {
    secret: String,
}

#[derive(Serialize)]
struct SignedIn {
    session: String,
}

impl Actor for Account {
    fn request(&mut self, mut request: Request) -> Result<Response> {
        match request.route() {
            (Method::Post, ["sign-up"]) => sign_up(),
            (Method::Post, ["sign-in"]) => sign_in(&request.json::<Secret>()?.secret),
            (Method::Post, ["check"]) => check(&request.json::<Secret>()?.secret),
            (Method::Post, ["sign-out"]) => sign_out(&request.json::<Secret>()?.secret),
            _ => Ok(Response::not_found()),
        }
    }

    /// The first session that ends is over.
    fn alarm(&mut self) -> Result<()> {
        storage::exec("DELETE FROM sessions WHERE ends_ms <= ?", (now_ms(),))?;
        wake_at_the_next_end()
    }
}

fn sign_up() -> Result<Response> {
    storage::transaction_durable(|| {
        if exists()? {
            return Err(Error::status(409, "this name is taken"));
        }
        storage::exec("CREATE TABLE account (key_hash BLOB NOT NULL) STRICT", ())?;
        storage::exec(
            "CREATE TABLE sessions (hash BLOB PRIMARY KEY, ends_ms INTEGER NOT NULL)
             STRICT, WITHOUT ROWID",
            (),
        )?;
        let key = secret()?;
        storage::exec("INSERT INTO account VALUES (?)", (hash(&key),))?;
        Ok(Response::json(&SignedUp { key, session: open_session()? }).status(201))
    })
}

fn sign_in(key: &str) -> Result<Response> {
    let right = "SELECT EXISTS (SELECT 1 FROM account WHERE key_hash = ?)";
    if !is_known()? || !storage::query_one::<bool>(right, (hash(key),))? {
        return Err(Error::status(403, "no such name and key"));
    }
    storage::transaction_durable(|| Ok(Response::json(&SignedIn { session: open_session()? })))
}

fn check(session: &str) -> Result<Response> {
    let lasts = "SELECT EXISTS (SELECT 1 FROM sessions WHERE hash = ? AND ends_ms > ?)";
    if is_known()? && storage::query_one(lasts, (hash(session), now_ms()))? {
        Ok(Response::empty())
    } else {
        Err(Error::status(403, "not signed in"))
    }
}

fn sign_out(session: &str) -> Result<Response> {
    if is_known()? {
        storage::exec_durable("DELETE FROM sessions WHERE hash = ?", (hash(session),))?;
    }
    Ok(Response::empty())
}

/// Whether somebody signed up: the tables are made then, and not in `init`.
fn exists() -> Result<bool> {
    let tables = "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'account'";
    Ok(storage::query_one(tables, ())?)
}

/// As `exists`; a name that somebody only tried leaves no database behind.
fn is_known() -> Result<bool> {
    let exists = exists()?;
    if !exists {
        storage::delete_self();
    }
    Ok(exists)
}

fn open_session() -> Result<String> {
    let session = secret()?;
    let ends_ms = now_ms() + SESSION_LENGTH.as_millis() as i64;
    storage::exec("INSERT INTO sessions VALUES (?, ?)", (hash(&session), ends_ms))?;
    wake_at_the_next_end()?;
    Ok(session)
}

fn wake_at_the_next_end() -> Result<()> {
    let next: Option<i64> = storage::query_one("SELECT min(ends_ms) FROM sessions", ())?;
    match next {
        Some(ms) => Ok(alarms::set_at_ms(ms as u64)?),
        None => Ok(alarms::clear()?),
    }
}

fn secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(Error::internal)?;
    let mut text = String::with_capacity(2 * SECRET_BYTES);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    Ok(text)
}

fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.trim()).to_vec()
}

fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.unwrap_or_default().as_millis() as i64
}

wasmkeep_sdk::actor!(Account);
