//! Requests and responses in all their shapes.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::{Value as Json, json};
use wasmkeep_sdk::{Error, Headers, Request, Response, Result, actors};

use crate::{calling, work};

pub fn answer(mut request: Request) -> Result<Response> {
    let number = |name| request.parse_query::<u64>(name);
    match request.segments() {
        ["hello"] => Ok(Response::text("hello")),
        ["seen", ..] => Ok(Response::text(request.path_and_query())),
        ["echo", ..] => echo(&mut request),
        ["echo-body"] => echo_body(request),
        ["status"] => {
            let code = request.parse_query("code")?.unwrap_or(200);
            Ok(Response::text(format!("status {code}")).status(code))
        }
        ["headers"] => Ok(Response::text("headers")
            .header("x-probe", "kept")
            .header("x-wasmkeep-evil", "the host's to set")
            .append_header("set-cookie", "a=1")
            .append_header("set-cookie", "b=2; Path=/")
            .header("x-bytes", [0xe9])),
        ["ignore-body"] => Ok(Response::text("ignored")),
        ["read-part"] => {
            let mut part = Vec::new();
            request.body().take(10).read_to_end(&mut part)?;
            Ok(Response::new(200).body(part))
        }
        ["log"] => {
            let text = request.query("text").unwrap_or("told to log");
            println!("{text}");
            eprintln!("{text}");
            Ok(Response::text("logged"))
        }
        ["stream"] => {
            let chunks = number("chunks")?.unwrap_or(3);
            let size = request.parse_query("size")?.unwrap_or(5);
            let pause = Duration::from_millis(number("ms")?.unwrap_or(0));
            Ok(Response::stream(move |out| {
                let chunk = vec![b'x'; size];
                for _ in 0..chunks {
                    if !pause.is_zero() {
                        std::thread::sleep(pause);
                    }
                    out.write_all(&chunk)?;
                }
                Ok(())
            }))
        }
        ["stream-trap"] => {
            let ms = request.parse_query("ms")?.unwrap_or(0);
            Ok(Response::stream(move |out| {
                out.write_all(b"chunk")?;
                out.flush()?;
                std::thread::sleep(Duration::from_millis(ms));
                work::trap()
            }))
        }
        ["stream-call"] => {
            let target = request.query("target").unwrap_or_default().to_owned();
            let path = request.query("path").unwrap_or("/hello").to_owned();
            Ok(Response::stream(move |out| {
                out.write_all(b"chunk")?;
                out.flush()?;
                let answer = calling::answered(actors::call(target).get(path).send());
                Ok(out.write_all(answer.to_string().as_bytes())?)
            }))
        }
        ["stream-error"] => Ok(Response::stream(|out| {
            out.write_all(b"chunk")?;
            out.flush()?;
            Err(Error::internal("told to fail"))
        })),
        ["stream-short"] => {
            let short = Response::stream(|out| Ok(out.write_all(b"0123456789")?));
            Ok(short.header("content-length", "100"))
        }
        _ => Ok(Response::not_found()),
    }
}

fn echo(request: &mut Request) -> Result<Response> {
    let body = request.bytes()?;
    let query = request.path_and_query().split_once('?');
    let mut answer = json!({
        "method": request.method().as_str(),
        "path": request.path(),
        "query": query.map(|(_, query)| query),
        "headers": headers_json(request.headers()),
        "body_len": body.len(),
    });
    if let Ok(text) = String::from_utf8(body) {
        answer["body_utf8"] = text.into();
    }
    Ok(Response::json(&answer))
}

/// `[[name, value]…]`
pub fn headers_json(headers: &Headers) -> Json {
    headers.iter().map(|(name, value)| json!([name, String::from_utf8_lossy(value)])).collect()
}

fn echo_body(mut request: Request) -> Result<Response> {
    if request.query("stream").is_none() {
        return Ok(Response::new(200).body(request.bytes()?));
    }
    let mut body = request.into_body();
    Ok(Response::stream(move |out| {
        while let Some(piece) = body.chunk()? {
            out.write_all(&piece)?;
        }
        Ok(())
    }))
}
