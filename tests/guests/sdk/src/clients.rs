//! The clients of stores and queues, driven by JSON: `{"op": …}` and what it takes.
//!
//! Answers are `{ok}`, `{conflict}` with the version there is, `{ended}`, or `{failed, retry}`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;
use wasmkeep_sdk::actors::Failure;
use wasmkeep_sdk::kv::{self, KvError};
use wasmkeep_sdk::queue::{self, QueueError, Received};
use wasmkeep_sdk::{Error, Request, Response, Result, json};

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
enum Kv {
    Get {
        key: String,
    },
    Set {
        key: String,
        value: String,
        /// A version, or `"absent"`.
        expect: Option<Json>,
        ttl_ms: Option<u64>,
        #[serde(default)]
        durable: bool,
    },
    Delete {
        key: String,
        expect: Option<u64>,
    },
    List {
        prefix: String,
        after: Option<String>,
        limit: u32,
    },
    /// Adds one with compare-and-set until it succeeds.
    Add {
        key: String,
    },
}

pub fn kv(request: &mut Request) -> Result<Response> {
    let store = kv::Client::new(target(request, "store")?);
    Ok(Response::json(&match run_kv(&store, request.json()?) {
        Ok(value) => json!({ "ok": value }),
        Err(KvError::Conflict { version }) => json!({ "conflict": version }),
        Err(KvError::Failed(failure)) => failed(&failure),
    }))
}

fn run_kv(store: &kv::Client, op: Kv) -> Result<Json, KvError> {
    Ok(match op {
        Kv::Get { key } => match store.get(&key)? {
            Some(entry) => json!({
                "value": String::from_utf8_lossy(&entry.value),
                "version": entry.version,
                "expires": entry.expires.is_some(),
            }),
            None => Json::Null,
        },
        Kv::Set { key, value, expect, ttl_ms, durable } => {
            let mut set = store.set(&key, value);
            if let Some(expect) = expect {
                set = set.expect(expect.as_u64());
            }
            if let Some(ms) = ttl_ms {
                set = set.ttl(Duration::from_millis(ms));
            }
            if durable {
                set = set.durable();
            }
            json!(set.send()?)
        }
        Kv::Delete { key, expect } => {
            let delete = store.delete(&key);
            let delete = match expect {
                Some(version) => delete.expect(version),
                None => delete,
            };
            json!(delete.send()?)
        }
        Kv::List { prefix, after, limit } => {
            json!(store.list(&prefix, after.as_deref(), limit)?)
        }
        Kv::Add { key } => loop {
            let entry = store.get(&key)?;
            let total = entry.as_ref().and_then(|entry| entry.json::<u64>().ok()).unwrap_or(0) + 1;
            let version = entry.map(|entry| entry.version);
            match store.set_json(&key, &total).expect(version).send() {
                Err(KvError::Conflict { .. }) => {}
                sent => {
                    sent?;
                    break json!(total);
                }
            }
        },
    })
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
enum Queue {
    Send { body: String, delay_ms: Option<u64> },
    Receive { max: u32, lease_ms: u64 },
    Ack { message: Received },
    Nack { message: Received, delay_ms: u64 },
    Extend { message: Received, lease_ms: u64 },
    Counts,
    Dead { after: u64 },
    Requeue { id: u64 },
    DeleteDead { id: u64 },
}

pub fn queue(request: &mut Request) -> Result<Response> {
    let queue = queue::Client::new(target(request, "queue")?);
    Ok(Response::json(&match run_queue(&queue, request.json()?) {
        Ok(value) => json!({ "ok": value }),
        Err(QueueError::LeaseEnded { id }) => json!({ "ended": id }),
        Err(QueueError::Failed(failure)) => failed(&failure),
    }))
}

fn run_queue(queue: &queue::Client, op: Queue) -> Result<Json, QueueError> {
    let ms = Duration::from_millis;
    Ok(match op {
        Queue::Send { body, delay_ms: None } => json!(queue.send(body)?),
        Queue::Send { body, delay_ms: Some(delay) } => json!(queue.send_after(body, ms(delay))?),
        Queue::Receive { max, lease_ms } => json!(queue.receive(max, ms(lease_ms))?),
        Queue::Ack { message } => json!(queue.ack(&message)?),
        Queue::Nack { message, delay_ms } => json!(queue.nack(&message, ms(delay_ms))?),
        Queue::Extend { message, lease_ms } => json!(queue.extend(&message, ms(lease_ms))?),
        Queue::Counts => json!(queue.counts()?),
        Queue::Dead { after } => json!(queue.dead(after)?),
        Queue::Requeue { id } => json!(queue.requeue(id)?),
        Queue::DeleteDead { id } => json!(queue.delete_dead(id)?),
    })
}

fn target<'a>(request: &Request<'a>, name: &str) -> Result<&'a str> {
    request.query(name).ok_or_else(|| Error::bad_request(format!("`{name}` is missing")))
}

fn failed(failure: &Failure) -> Json {
    json!({ "failed": failure.to_string(), "retry": failure.may_be_retried() })
}
