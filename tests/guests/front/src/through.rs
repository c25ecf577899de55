//! What the front has from an actor: its answer, or its WebSocket.

use std::io::Write;
use std::time::Duration;

use wasmkeep_sdk::{Request, Response, actors, front};

use crate::calling::path_to_call;

pub fn ask(request: &Request) -> Response {
    let target = request.query("target").unwrap_or_default();
    match actors::call(target).get(path_to_call(request)).send() {
        Ok(answer) => Response::new(answer.status_code()).body(answer.into_bytes()),
        Err(error) => front::unavailable(&error),
    }
}

/// `?target=CLASS/NAME&path=` hands over; `?x-wasmkeep-handoff-…=` sets those headers alone; with
/// `ms` the answer's body goes on for that long.
pub fn hand_off(request: &Request) -> Response {
    let mut response = match request.query("target").and_then(|target| target.split_once('/')) {
        Some((class, name)) => front::hand_off(class, name, path_to_call(request)),
        None => Response::text("handed over"),
    };
    if let Some(ms) = request.query("ms").and_then(|ms| ms.parse().ok()) {
        let headers = response.headers().clone();
        response = Response::stream(move |out| {
            out.write_all(b"begun")?;
            out.flush()?;
            std::thread::sleep(Duration::from_millis(ms));
            Ok(())
        });
        for (name, value) in headers.iter() {
            response = response.header(name, value);
        }
    }
    for (name, value) in request.query_pairs() {
        if name.starts_with("x-wasmkeep-handoff-") {
            response = response.header(name, value);
        }
    }
    response
}
