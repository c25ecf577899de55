//! What the other functions of the host answer.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use wasmkeep_sdk::actors::{self, Call};
use wasmkeep_sdk::storage::SqlError;
use wasmkeep_sdk::websockets::{self, Message, OpenRequest, Socket};
use wasmkeep_sdk::{Error, Method, Request, Response, Result, alarms, storage};

use crate::calling::answered;
use crate::http::headers_json;
use crate::sql;

pub fn address_json() -> Json {
    let actors::Address { tenant, class, name } = actors::self_address();
    json!({ "tenant": tenant, "class": class, "name": name })
}

pub fn alarm(method: &Method, request: &Request) -> Result<Response> {
    let done = match method {
        Method::Post => match (request.parse_query("in")?, request.parse_query("at")?) {
            (Some(ms), _) => alarms::set_after(std::time::Duration::from_millis(ms)),
            (None, Some(at)) => alarms::set_at_ms(at),
            (None, None) => return Err(Error::bad_request("say ?in= or ?at=")),
        },
        Method::Delete => alarms::clear(),
        _ => Ok(()),
    };
    Ok(Response::json(&pending(done)))
}

/// The alarm that is pending once `done` is, and the attempt that runs.
pub fn pending(done: Result<(), SqlError>) -> Json {
    match done.and_then(|()| alarms::get_ms()) {
        Ok(at) => json!({ "at": at, "attempt": alarms::attempt() }),
        Err(error) => sql::failed(error),
    }
}

pub fn alarms_that_ran() -> Result<Response> {
    let ran = storage::query_as::<(i64, u32)>("SELECT at, attempt FROM alarm_log", ());
    match ran {
        Ok(ran) => Ok(Response::json(&ran)),
        // None has run.
        Err(SqlError::Invalid(_)) => Ok(Response::json(&json!([]))),
        Err(error) => Err(error.into()),
    }
}

pub fn call_in_init() -> Json {
    answered(actors::call("probe/called").get("/echo").send())
}

/// One call as data. A body of `body-size` bytes, no text, is made here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CallStep {
    target: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default = "hello")]
    path: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    #[serde(default)]
    body_size: usize,
}

fn hello() -> String {
    "/hello".to_owned()
}

impl CallStep {
    pub fn call(self) -> Call {
        let method = self.method.map_or(Method::Get, Method::Other);
        let call = actors::call(self.target).method(method, self.path);
        let call =
            self.headers.into_iter().fold(call, |call, (name, value)| call.header(name, value));
        match self.body_size {
            0 => call.body(self.body),
            size => call.body(vec![0xff; size]),
        }
    }
}

/// `{path, caller, headers}` of the upgrade a client asked for.
pub fn open_request_json(request: &OpenRequest) -> Json {
    json!({
        "path": request.path_and_query(),
        "caller": format!("{:?}", request.caller()),
        "headers": headers_json(request.headers()),
    })
}

/// `[[id, attachment]…]`
pub fn sockets() -> Response {
    let sockets = websockets::connections().into_iter().map(|socket| {
        let attachment = socket.attachment();
        let text = attachment.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        json!([socket.id(), text])
    });
    Response::json(&sockets.collect::<Vec<Json>>())
}

/// Sends the body as text to `?socket=`.
pub fn send(request: &mut Request) -> Result<Response> {
    let text = request.text()?;
    Ok(done(socket(request)?.send_text(text)))
}

pub fn close(request: &Request) -> Result<Response> {
    let code = request.parse_query("code")?.unwrap_or(1000);
    let reason = request.query("reason").unwrap_or_default();
    Ok(done(socket(request)?.close(code, reason)))
}

/// Sends the body as text to all.
pub fn broadcast(request: &mut Request) -> Result<Response> {
    let text = request.text()?;
    let sent = websockets::broadcast(&Message::Text(text));
    Ok(Response::json(&json!({ "sent": sent })))
}

fn socket(request: &Request) -> Result<Socket> {
    let id = request.parse_query("socket")?;
    id.map(Socket::from_id).ok_or_else(|| Error::bad_request("say ?socket="))
}

fn done<E: std::fmt::Debug>(result: std::result::Result<(), E>) -> Response {
    match result {
        Ok(()) => Response::json(&json!({ "ok": true })),
        Err(error) => Response::json(&json!({ "error": format!("{error:?}") })),
    }
}
