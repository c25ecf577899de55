//! Storage calls as data, for [`steps`](crate::steps).
//!
//! The answers: `{"changed": n}`, `{"columns": […], "rows": [[…]…]}`, `{"deleted": true}`, or
//! `{"error": {"case": "constraint", "kind": "unique", "message": "…"}}`.
//!
//! Parameters and values are JSON: null, integers, floats, texts, and blobs as `{"blob": "hex"}`.
//! A parameter can also be `{"zeroblob": n}` or `{"text-of": n}`: n bytes, made here. In an answer,
//! a blob over 64 bytes is `{"blob-len": n}`, a text over 1,000 is `{"text-len": n}`, and a float
//! JSON cannot write is `{"real": "inf"}`.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use wasmkeep_sdk::storage::{self, Rows, SqlError, Value};
use wasmkeep_sdk::{Error, Request, Response, Result};

#[derive(Deserialize)]
#[serde(untagged)]
pub enum Param {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Made(Made),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    Blob(String),
    Zeroblob(usize),
    TextOf(usize),
}

/// What an endless query gives, and whether the next statement of the event still runs.
pub fn spin() -> Response {
    let endless = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
                   SELECT count(*) FROM c";
    let spin = queried(storage::query(endless, ()));
    let later = queried(storage::query("SELECT 1", ()));
    Response::json(&json!({ "spin": spin, "later": later }))
}

/// Leaves a transaction open that added the row `?x=` to `t`.
pub fn leave_open(request: &Request) -> Result<()> {
    let x = request.query("x").unwrap_or("left open");
    storage::exec("CREATE TABLE IF NOT EXISTS t (x)", ())?;
    storage::exec("BEGIN", ())?;
    storage::exec("INSERT INTO t VALUES (?)", (x,))?;
    Ok(())
}

pub fn changed(result: Result<u64, SqlError>) -> Json {
    match result {
        Ok(rows) => json!({ "changed": rows }),
        Err(error) => failed(error),
    }
}

pub fn queried(result: Result<Rows, SqlError>) -> Json {
    match result {
        Ok(Rows { columns, rows }) => {
            let rows = rows.into_iter().map(|row| row.into_iter().map(shown).collect());
            json!({ "columns": columns, "rows": rows.collect::<Vec<Vec<Json>>>() })
        }
        Err(error) => failed(error),
    }
}

pub fn failed(error: SqlError) -> Json {
    let (case, message) = match error {
        SqlError::Constraint { kind, message } => {
            let error = json!({ "case": "constraint", "kind": kind.as_str(), "message": message });
            return json!({ "error": error });
        }
        SqlError::Invalid(message) => ("invalid", message),
        SqlError::QuotaExceeded(message) => ("quota-exceeded", message),
        SqlError::NotAllowed(message) => ("not-allowed", message),
        SqlError::Internal(message) => ("internal", message),
        SqlError::Mismatch(message) => ("mismatch", message),
    };
    json!({ "error": { "case": case, "message": message } })
}

pub fn value(param: Param) -> Result<Value> {
    Ok(match param {
        Param::Null => Value::Null,
        Param::Integer(n) => Value::Integer(n),
        Param::Real(x) => Value::Real(x),
        Param::Text(text) => Value::Text(text),
        Param::Made(Made::Blob(hex)) => Value::Blob(bytes_of(&hex)?),
        Param::Made(Made::Zeroblob(length)) => Value::Blob(vec![0; length]),
        Param::Made(Made::TextOf(length)) => Value::Text("x".repeat(length)),
    })
}

fn shown(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(n) => json!(n),
        Value::Real(x) if x.is_finite() => json!(x),
        Value::Real(x) => json!({ "real": x.to_string() }),
        Value::Text(text) if text.len() > 1000 => json!({ "text-len": text.len() }),
        Value::Text(text) => json!(text),
        Value::Blob(bytes) if bytes.len() > 64 => json!({ "blob-len": bytes.len() }),
        Value::Blob(bytes) => json!({ "blob": hex_of(&bytes) }),
    }
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Result<Vec<u8>> {
    let not_hex = || Error::bad_request(format!("{hex:?} is not hex"));
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2);
            pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(not_hex)
        })
        .collect()
}
