//! Calls of other actors, in the forms the probe and the front give them.

use serde_json::{Value as Json, json};
use wasmkeep_sdk::actors::{self, Answer, Call, CallError};
use wasmkeep_sdk::{Request, Response, Result, calls, env as values};

use crate::http::headers_json;

const LONG_BODY: usize = 64 * 1024;

pub fn env(request: &Request) -> Response {
    Response::json(&values::get(request.query("name").unwrap_or_default()))
}

pub fn call(request: &mut Request) -> Result<Response> {
    let target = request.query("target").unwrap_or_default();
    let call = actors::call(target)
        .method(request.method().clone(), path_to_call(request))
        .header("x-probe", "call")
        .header("x-wasmkeep-evil", "set by the guest")
        .header("x-wasmkeep-kv-durable", "1")
        .body(request.bytes()?);
    Ok(Response::json(&answered(call.send())))
}

pub fn call_many(request: &Request) -> Response {
    let targets = request.query_pairs().filter(|(name, _)| *name == "target");
    let calls = targets.map(|(_, target)| actors::call(target).get(path_to_call(request)));
    let answers = calls::call_many(calls.collect::<Vec<Call>>()).into_iter();
    Response::json(&answers.map(answered).collect::<Vec<Json>>())
}

pub fn path_to_call<'a>(request: &Request<'a>) -> &'a str {
    request.query("path").unwrap_or("/hello")
}

/// `{status, headers, body}`, of a long body `{…, body_len}` instead, or `{error}`.
pub fn answered(answer: Result<Answer, CallError>) -> Json {
    match answer {
        Ok(answer) if answer.bytes().len() > LONG_BODY => {
            json!({ "status": answer.status_code(), "body_len": answer.bytes().len() })
        }
        Ok(answer) => {
            json!({
                "status": answer.status_code(),
                "headers": headers_json(answer.headers()),
                "body": String::from_utf8_lossy(answer.bytes()),
            })
        }
        Err(CallError::Timeout) => json!({ "error": "timeout" }),
        Err(CallError::Reentrant) => json!({ "error": "reentrant" }),
        Err(CallError::InvalidAddress) => json!({ "error": "invalid-address" }),
        Err(CallError::Failed(how)) => json!({ "error": "failed", "message": how }),
    }
}
