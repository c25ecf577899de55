//! Requests to the outside. What came of one is `{status, headers, body}`, or `{error}` with the
//! name of `wasi:http`'s error code; one whose answer broke off has `status` and `error`.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value as Json, json};
use wasmkeep_sdk::outbound::{self, Answer, Fetch, OutboundError};
use wasmkeep_sdk::{Error, Request, Response, Result};

/// Passes method, headers named `x-…` and body on.
pub fn one(request: &mut Request) -> Result<Response> {
    let body = request.bytes()?;
    let fetch = asked(request, url(request)?)?;
    Ok(Response::json(&told(fetch.body(body).send())))
}

/// Passes the answer's body on, piece by piece.
pub fn stream(request: &Request) -> Result<Response> {
    let mut answer = asked(request, url(request)?)?.send()?;
    Ok(Response::stream(move |out| {
        while let Some(piece) = answer.body().chunk()? {
            out.write_all(&piece)?;
            out.flush()?;
        }
        Ok(())
    }))
}

/// Sends all `?url=…`, each `?n=` times, and says what came of each in one line. Holds the answers
/// until their bodies end, and says so in another.
pub fn hold(request: &Request) -> Result<Response> {
    let times = request.parse_query("n")?.unwrap_or(1);
    let mut fetches = Vec::new();
    for (_, url) in request.query_pairs().filter(|(name, _)| *name == "url") {
        for _ in 0..times {
            fetches.push(asked(request, url)?);
        }
    }
    Ok(Response::stream(move |out| {
        let mut results = outbound::send_all(fetches);
        let heads: Vec<Json> = results.iter().map(head).collect();
        writeln!(out, "{}", json!(heads))?;
        out.flush()?;
        let mut bodies = Vec::new();
        for answer in results.drain(..).flatten() {
            bodies.push(answer.text().unwrap_or_else(|error| error.to_string()));
        }
        writeln!(out, "{}", json!(bodies))?;
        Ok(())
    }))
}

/// Uploads `?pieces=` of `?size=` bytes, as the server takes them.
pub fn upload(request: &Request) -> Result<Response> {
    let pieces: usize = request.parse_query("pieces")?.unwrap_or(4);
    let piece = vec![b'x'; request.parse_query("size")?.unwrap_or(1000)];
    let mut written = 0;
    let sent = asked(request, url(request)?)?.send_stream(|out| {
        for _ in 0..pieces {
            out.write_all(&piece)?;
            written += piece.len();
        }
        out.write_all(b"")?;
        out.flush()?;
        Ok(())
    });
    let mut answer = match sent {
        Ok(answer) => told(Ok(answer)),
        Err(error) => match error.downcast_ref::<OutboundError>() {
            Some(error) => told(Err(error.clone())),
            None => return Err(error),
        },
    };
    answer["written"] = written.into();
    Ok(Response::json(&answer))
}

/// Keeps the answer in memory, unread, after the event.
pub fn keep(request: &Request, kept: &mut Vec<Answer>) -> Result<Response> {
    let answer = asked(request, url(request)?)?.send()?;
    let status = answer.status_code();
    kept.push(answer);
    Ok(Response::json(&json!({ "status": status, "kept": kept.len() })))
}

/// Reads what an earlier event kept.
pub fn read_kept(kept: &mut Vec<Answer>) -> Response {
    let read = kept.drain(..).map(|answer| told(Ok(answer)));
    Response::json(&read.collect::<Vec<Json>>())
}

fn url<'a>(request: &Request<'a>) -> Result<&'a str> {
    request.query("url").ok_or_else(|| Error::bad_request("say ?url="))
}

fn asked(request: &Request, url: &str) -> Result<Fetch> {
    let mut fetch = outbound::fetch(request.method().clone(), url);
    for (name, value) in request.headers().iter().filter(|(name, _)| name.starts_with("x-")) {
        fetch = fetch.header(name, value);
    }
    fetch = fetch.header("x-wasmkeep-evil", "set by the guest");
    Ok(match request.parse_query("timeout_ms")? {
        Some(ms) => fetch.timeout(Duration::from_millis(ms)),
        None => fetch,
    })
}

fn head(result: &Result<Answer, OutboundError>) -> Json {
    match result {
        Ok(answer) => json!({ "status": answer.status_code() }),
        Err(error) => json!({ "error": error.code(), "message": error.to_string() }),
    }
}

fn told(result: Result<Answer, OutboundError>) -> Json {
    let mut told = head(&result);
    let Ok(answer) = result else { return told };
    let headers = answer.headers().iter();
    let headers = headers.map(|(name, value)| (name, String::from_utf8_lossy(value)));
    told["headers"] = json!(headers.collect::<Vec<_>>());
    match answer.bytes() {
        Ok(body) => told["body"] = String::from_utf8_lossy(&body).into(),
        Err(error) => told["error"] = error.code().into(),
    }
    told
}
