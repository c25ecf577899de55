use super::{Counts, DELAY, Dead, LEASE_ENDED, Messages, NOT_DEAD, Received, Sent};
use crate::options::{self, not_allowed, now_ms};
use crate::{Actor, Error, Method, Request, Response, Result, env, storage};

const MESSAGE_BYTES_MAX: usize = 64 * 1024;
const MESSAGES_PER_ANSWER: u32 = 10;
/// Text in one answer: written with JSON's longest escapes, it takes a part of the CPU an event has.
/// An event that was stopped there would have leased what nobody gets.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
const LEASE_MS_DEFAULT: i64 = 30_000;
const LEASE_MS_MAX: i64 = 12 * 3600 * 1000;
const DELAY_MS_MAX: i64 = 366 * 24 * 3600 * 1000;
const MAX_ATTEMPTS: &str = "QUEUE_MAX_ATTEMPTS";
const ATTEMPTS_DEFAULT: u32 = 5;
const ATTEMPTS_MAX: u32 = 1000;

/// `free_at` is when a delay or a lease ends, and `last` says that no lease may follow. So a state
/// is a matter of the clock, and nothing has to run for it to change:
///
/// | `last` | `free_at` | `receipt` | |
/// |---|---|---|---|
/// | 0 | has come | any | ready |
/// | any | to come | none | delayed |
/// | any | to come | some | leased |
/// | 1 | has come | any | dead |
///
/// A receipt is drawn at random: one from before a loss of power never fits a lease given after it.
const SCHEMA: [&str; 2] = [
    "CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        body TEXT NOT NULL,
        sent INTEGER NOT NULL,
        free_at INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        last INTEGER NOT NULL DEFAULT 0,
        receipt TEXT
    ) STRICT",
    "CREATE INDEX messages_by_time ON messages (last, free_at, id)",
];

/// The actor that is a queue: `wasmkeep_sdk::actor!(wasmkeep_sdk::queue::Queue);` makes a class of
/// them. See [`queue`](crate::queue).
#[derive(Debug, Default)]
pub struct Queue;

impl Actor for Queue {
    fn init(&mut self) -> Result<()> {
        attempts_max()?;
        storage::migrate(SCHEMA)
    }

    fn request(&mut self, mut request: Request) -> Result<Response> {
        match request.route() {
            (Method::Get, []) => counts(&request),
            (Method::Post, ["messages"]) => send(&mut request),
            (Method::Post, ["receive"]) => receive(&request),
            (Method::Post, ["messages", id, "ack"]) => ack(&request, id),
            (Method::Post, ["messages", id, "nack"]) => nack(&request, id),
            (Method::Post, ["messages", id, "extend"]) => extend(&request, id),
            (Method::Get, ["dead"]) => dead(&request),
            (Method::Post, ["dead", id, "requeue"]) => requeue(&request, id),
            (Method::Delete, ["dead", id]) => delete_dead(&request, id),
            (_, [] | ["dead"]) => Ok(not_allowed("GET, HEAD")),
            (_, ["dead", _]) => Ok(not_allowed("DELETE")),
            (_, ["messages" | "receive"] | ["messages" | "dead", _, _]) => Ok(not_allowed("POST")),
            _ => Err(Error::not_found("try GET /, POST /messages or POST /receive")),
        }
    }
}

fn send(request: &mut Request) -> Result<Response> {
    options::only(request, &["delay-ms"])?;
    let delay = delay_of(request)?;
    let bytes = options::body(request, "a message", MESSAGE_BYTES_MAX)?;
    let body =
        String::from_utf8(bytes).map_err(|_| Error::bad_request("a message is text, in UTF-8"))?;
    let id = storage::transaction_durable(|| {
        let now = now_ms();
        let row = (body, now, now.saturating_add(delay));
        let sql = "INSERT INTO messages (body, sent, free_at) VALUES (?, ?, ?) RETURNING id";
        Ok(storage::query_one(sql, row)?)
    })?;
    Ok(Response::json(&Sent { id }).status(201))
}

fn receive(request: &Request) -> Result<Response> {
    options::only(request, &["max", "lease-ms"])?;
    let most = options::number(request, ("max", ""), 1..=MESSAGES_PER_ANSWER)?.unwrap_or(1);
    let lease = options::number(request, ("lease-ms", ""), 1..=LEASE_MS_MAX)?;
    let lease = lease.unwrap_or(LEASE_MS_DEFAULT);
    let attempts_max = attempts_max()?;
    let messages: Vec<Received> = storage::transaction(|| {
        let now = now_ms();
        let ready: Vec<(i64, usize)> = storage::query_as(
            "SELECT id, octet_length(body) FROM messages WHERE last = 0 AND free_at <= ?
             ORDER BY free_at, id LIMIT ?",
            (now, most),
        )?;
        let ready = fitting(ready).into_iter();
        ready.map(|id| give(id, now.saturating_add(lease), attempts_max)).collect()
    })?;
    Ok(Response::json(&Messages { messages }))
}

/// As many as fit into one answer: at least the first.
fn fitting(messages: Vec<(i64, usize)>) -> Vec<i64> {
    let mut left = ANSWER_BYTES_MAX;
    let fits = |&(_, bytes): &(i64, usize)| {
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    messages.into_iter().take_while(fits).map(|(id, _)| id).collect()
}

fn give(id: i64, until: i64, attempts_max: u32) -> Result<Received> {
    Ok(storage::query_one(
        "UPDATE messages SET free_at = ?2, attempts = attempts + 1, last = attempts + 1 >= ?3,
                receipt = lower(hex(randomblob(16)))
         WHERE id = ?1 RETURNING id, body, attempts AS attempt, sent AS sent_ms, receipt",
        (id, until, attempts_max),
    )?)
}

fn ack(request: &Request, id: &str) -> Result<Response> {
    options::only(request, &["receipt"])?;
    let sql = "DELETE FROM messages WHERE id = ? AND receipt = ? AND free_at > ?";
    let ended = storage::exec(sql, (number(id)?, receipt_of(request)?, now_ms()))?;
    if_leased(ended, id)
}

fn nack(request: &Request, id: &str) -> Result<Response> {
    options::only(request, &["receipt", "delay-ms"])?;
    let (now, delay) = (now_ms(), delay_of(request)?);
    let given_back = storage::exec(
        "UPDATE messages SET receipt = NULL, free_at = iif(last, ?3, ?4)
         WHERE id = ?1 AND receipt = ?2 AND free_at > ?3",
        (number(id)?, receipt_of(request)?, now, now.saturating_add(delay)),
    )?;
    if_leased(given_back, id)
}

fn extend(request: &Request, id: &str) -> Result<Response> {
    options::only(request, &["receipt", "lease-ms"])?;
    let lease = options::number(request, ("lease-ms", ""), 1..=LEASE_MS_MAX)?;
    let now = now_ms();
    let until = now.saturating_add(lease.unwrap_or(LEASE_MS_DEFAULT));
    let extended = storage::exec(
        "UPDATE messages SET free_at = ?4 WHERE id = ?1 AND receipt = ?2 AND free_at > ?3",
        (number(id)?, receipt_of(request)?, now, until),
    )?;
    if_leased(extended, id)
}

fn counts(request: &Request) -> Result<Response> {
    options::only(request, &[])?;
    let counts: Counts = storage::query_one(
        "SELECT coalesce(sum(last = 0 AND free_at <= ?1), 0) AS ready,
                coalesce(sum(free_at > ?1 AND receipt IS NULL), 0) AS delayed,
                coalesce(sum(free_at > ?1 AND receipt IS NOT NULL), 0) AS leased,
                coalesce(sum(last = 1 AND free_at <= ?1), 0) AS dead
         FROM messages",
        (now_ms(),),
    )?;
    Ok(Response::json(&counts))
}

fn dead(request: &Request) -> Result<Response> {
    options::only(request, &["after"])?;
    let after = options::number(request, ("after", ""), 0..=i64::MAX)?.unwrap_or(0);
    let listed: Vec<(i64, usize)> = storage::query_as(
        "SELECT id, octet_length(body) FROM messages
         WHERE last = 1 AND free_at <= ? AND id > ? ORDER BY id LIMIT ?",
        (now_ms(), after, MESSAGES_PER_ANSWER),
    )?;
    let one = |id| {
        let sql = "SELECT id, body, attempts, sent AS sent_ms, free_at AS dead_ms
                   FROM messages WHERE id = ?";
        storage::query_one(sql, (id,))
    };
    let messages = fitting(listed).into_iter().map(one).collect::<Result<Vec<Dead>, _>>()?;
    Ok(Response::json(&Messages { messages }))
}

/// Its time is now: it stands behind what is ready already.
fn requeue(request: &Request, id: &str) -> Result<Response> {
    options::only(request, &[])?;
    let requeued = storage::exec_durable(
        "UPDATE messages SET attempts = 0, last = 0, receipt = NULL, free_at = ?2
         WHERE id = ?1 AND last = 1 AND free_at <= ?2",
        (number(id)?, now_ms()),
    )?;
    if_dead(requeued, id)
}

fn delete_dead(request: &Request, id: &str) -> Result<Response> {
    options::only(request, &[])?;
    let sql = "DELETE FROM messages WHERE id = ? AND last = 1 AND free_at <= ?";
    let deleted = storage::exec(sql, (number(id)?, now_ms()))?;
    if_dead(deleted, id)
}

fn attempts_max() -> Result<u32> {
    let Some(text) = env::get(MAX_ATTEMPTS) else {
        return Ok(ATTEMPTS_DEFAULT);
    };
    let number = text.parse().ok().filter(|number| (1..=ATTEMPTS_MAX).contains(number));
    number.ok_or_else(|| {
        let wrong = format!("{MAX_ATTEMPTS}: {text:?} is no number from 1 to {ATTEMPTS_MAX}");
        Error::internal(wrong)
    })
}

fn delay_of(request: &Request) -> Result<i64> {
    Ok(options::number(request, ("delay-ms", DELAY), 0..=DELAY_MS_MAX)?.unwrap_or(0))
}

fn number(id: &str) -> Result<i64> {
    id.parse().map_err(|_| Error::bad_request(format!("{id:?} is no message's number")))
}

fn receipt_of<'a>(request: &Request<'a>) -> Result<&'a str> {
    let receipt = options::text(request, "receipt", "")?;
    receipt.ok_or_else(|| Error::bad_request("`receipt` is missing: it came with the message"))
}

fn if_leased(changed: u64, id: &str) -> Result<Response> {
    match changed {
        0 => Err(Error::status(LEASE_ENDED, format!("the lease of message {id} has ended"))),
        _ => Ok(Response::empty()),
    }
}

fn if_dead(changed: u64, id: &str) -> Result<Response> {
    match changed {
        0 => Err(Error::not_found(format!("{NOT_DEAD} {id}"))),
        _ => Ok(Response::empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_what_fits_in_order_and_at_least_one() {
        let of = |sizes: &[usize]| fitting((1..).zip(sizes.iter().copied()).collect()).len();
        let largest = MESSAGE_BYTES_MAX;
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[largest]), 1);
        assert_eq!(of(&[largest; 10]), 4);
        assert_eq!(of(&[0; 10]), 10);
        assert_eq!(of(&[largest, largest, largest, largest - 1, 1, 1, 0]), 5);
    }
}
