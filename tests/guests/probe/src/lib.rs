//! One actor that does what a request tells it to, so that a test says in one place what it does
//! and what it expects. Every answer is JSON unless it says otherwise.
//!
//! | request | does |
//! |---|---|
//! | `GET /hello` | text `hello` |
//! | `GET /address` | `{tenant, class, name}` |
//! | any `/echo` | `{method, path, query, headers: [[name, value]…], body_len, body_utf8?}` |
//! | `POST /echo-body` | the body's bytes; `?stream=1` piece by piece, as they come |
//! | `GET /seen…` | text: path and query as the guest sees them |
//! | `GET /memory` | text: how often this instance was asked |
//! | `GET /init` | text: how often `on-init` ran; not for names that start with `nostore` |
//! | `POST /sql` | runs `{"steps": […]}`: see [`steps`] |
//! | `POST /on-alarm` | keeps such steps: `on-alarm` runs them |
//! | `GET /spin-sql` | an endless query and one after it: `{spin, later}` |
//! | `GET /trap-in-transaction`, `/leave-open`, `/error-in-transaction` | `BEGIN`, one row into `t` (made before), then a trap, a 200, an error |
//! | `GET /error?status=` | an error of that status, or an internal one |
//! | `GET /trap`, `/panic`, `/stack`, `/loop` | never answers |
//! | `GET /span?ms=` | waits; `{began, ended}` in ms |
//! | `GET /burn?iters=`, `/wait?ms=`, `/grow?mib=&keep=&touch=` | uses CPU, time, memory: see [`work`] |
//! | `GET /stream?chunks=&size=&ms=` | that many chunks with a pause before each |
//! | `GET /stream-call?target=&path=` | a chunk of 5 bytes, then what a call from there gave |
//! | `GET /stream-trap`, `/stream-error`, `/stream-short` | a chunk of 5 bytes, then a trap or an error; 10 bytes of 100 declared |
//! | `GET /nothing` | returns without an answer |
//! | `GET /status?code=`, `/headers` | text with that status; a host's header, a cookie twice |
//! | `POST /ignore-body`, `/read-part` | answers after no byte, after at most 10 |
//! | `GET /log?text=` | prints it on both outputs |
//! | `GET /wasi` | what files, sockets, names, environment and outbound HTTP give: see [`sandbox`] |
//! | `GET`, `POST ?in=`/`?at=`, `DELETE /alarm` | reads, sets, clears the alarm |
//! | `GET /alarms` | `[[ms, attempt]…]`: alarms that ran, without those that failed |
//! | any `/call?target=&path=` | passes method and body on: `{status, headers, body}` or `{error}` |
//! | `GET /call-many?path=&target=…` | as many as there are targets |
//! | `GET /env?name=` | the value, or null |
//! | any `/fetch?url=&timeout_ms=`, `GET /fetch-stream?url=` | sends method, `x-` headers and body to a URL: see [`fetch`] |
//! | `GET /fetch-hold?url=…&n=`, `/fetch-keep?url=`, `/fetch-kept` | several at once; one whose answer outlives the event; reads those |
//! | `POST /fetch-upload?url=&pieces=&size=` | a body written piece by piece: also `written` |
//! | `GET /sockets`, `POST /send?socket=`, `/close?socket=&code=&reason=`, `/broadcast` | WebSockets |
//!
//! The actor's name decides on the rest: `badinit…` fails `on-init`, `trapinit…` traps in it,
//! `flakyinit…` fails it once in an instance, `callinit…` calls `probe/called` in it and keeps what it
//! saw in `init_saw`; `badalarm…` and `trapalarm…` fail and trap in `on-alarm`.

mod below;
mod calling;
mod fetch;
mod host;
mod http;
mod sandbox;
mod sql;
mod steps;
mod work;

use std::sync::atomic::{AtomicU32, Ordering};

use wasmkeep_sdk::websockets::{Message, OpenRequest, Socket};
use wasmkeep_sdk::{
    Actor, Error, Request, Response, Result, actors, alarms, json, outbound, storage,
};

#[derive(Default)]
struct Probe {
    asked: u64,
    kept: Vec<Vec<u8>>,
    answers: Vec<outbound::Answer>,
}

impl Actor for Probe {
    fn init(&mut self) -> Result<()> {
        static FAILED: AtomicU32 = AtomicU32::new(0);
        let name = actors::self_address().name;
        if name.starts_with("nostore") {
            return Ok(());
        }
        storage::exec("CREATE TABLE IF NOT EXISTS init_log (at INTEGER)", ())?;
        storage::exec("INSERT INTO init_log VALUES (unixepoch())", ())?;
        if name.starts_with("callinit") {
            let saw = json!([host::address_json(), host::call_in_init()]).to_string();
            storage::exec("CREATE TABLE IF NOT EXISTS init_saw (saw)", ())?;
            storage::exec("INSERT INTO init_saw VALUES (?)", (saw,))?;
        }
        if name.starts_with("trapinit") {
            work::trap();
        }
        let flaky = name.starts_with("flakyinit") && FAILED.fetch_add(1, Ordering::Relaxed) == 0;
        if flaky || name.starts_with("badinit") {
            return Err(Error::internal("told to fail"));
        }
        Ok(())
    }

    fn request(&mut self, mut request: Request) -> Result<Response> {
        let method = request.method().clone();
        let [first, rest @ ..] = request.segments() else {
            return Ok(Response::not_found());
        };
        match (*first, rest) {
            ("memory", []) => {
                self.asked += 1;
                Ok(Response::text(self.asked.to_string()))
            }
            ("init", []) => {
                let ran: i64 = storage::query_one("SELECT count(*) FROM init_log", ())?;
                Ok(Response::text(ran.to_string()))
            }
            ("grow", []) => work::grow(&request, &mut self.kept),
            ("burn", []) => work::burn(&request),
            ("wait", []) => work::wait(&request),
            ("span", []) => work::span(&request),
            ("loop", []) => work::spin(),
            ("stack", []) => Ok(Response::text(work::recurse(1).to_string())),
            ("trap", []) => work::trap(),
            ("panic", []) => panic!("told to panic"),
            ("error", []) => Err(match request.parse_query("status")? {
                Some(status) => Error::status(status, "told to fail"),
                None => Error::internal("told to fail"),
            }),

            ("sql", []) => steps::run(&mut request),
            ("on-alarm", []) => steps::keep(&mut request),
            ("spin-sql", []) => Ok(sql::spin()),
            ("trap-in-transaction", []) => {
                sql::leave_open(&request)?;
                work::trap()
            }
            ("leave-open", []) => {
                sql::leave_open(&request)?;
                Ok(Response::text("left open"))
            }
            ("error-in-transaction", []) => {
                sql::leave_open(&request)?;
                Err(Error::status(409, "told to fail"))
            }

            ("alarm", []) => host::alarm(&method, &request),
            ("alarms", []) => host::alarms_that_ran(),
            ("address", []) => Ok(Response::json(&host::address_json())),
            ("call", []) => calling::call(&mut request),
            ("call-many", []) => Ok(calling::call_many(&request)),
            ("env", []) => Ok(calling::env(&request)),
            ("fetch", []) => fetch::one(&mut request),
            ("fetch-stream", []) => fetch::stream(&request),
            ("fetch-hold", []) => fetch::hold(&request),
            ("fetch-upload", []) => fetch::upload(&request),
            ("fetch-keep", []) => fetch::keep(&request, &mut self.answers),
            ("fetch-kept", []) => Ok(fetch::read_kept(&mut self.answers)),
            ("sockets", []) => Ok(host::sockets()),
            ("send", []) => host::send(&mut request),
            ("close", []) => host::close(&request),
            ("broadcast", []) => host::broadcast(&mut request),
            ("wasi", []) => Ok(sandbox::report()),
            _ => http::answer(request),
        }
    }

    fn alarm(&mut self) -> Result<()> {
        let name = actors::self_address().name;
        if name.starts_with("trapalarm") {
            work::trap();
        }
        if name.starts_with("badalarm") {
            return Err(Error::internal("told to fail"));
        }
        storage::exec("CREATE TABLE IF NOT EXISTS alarm_log (at, attempt)", ())?;
        let row = (work::now_ms()?, alarms::attempt());
        storage::exec("INSERT INTO alarm_log VALUES (?, ?)", row)?;
        steps::alarm_script()
    }

    /// `?refuse=TEXT` refuses, `?trap=` traps, `?name=TEXT` becomes the attachment, and `?echo=` path
    /// and headers: `{path, caller, headers}`.
    fn socket_open(&mut self, socket: Socket, request: OpenRequest) -> Result<()> {
        if request.query("trap").is_some() {
            work::trap();
        }
        if let Some(reason) = request.query("refuse") {
            return Err(Error::status(403, reason));
        }
        if request.query("echo").is_some() {
            let text = host::open_request_json(&request).to_string();
            socket.set_attachment(text.as_bytes())?;
            return Ok(());
        }
        let name = request.query("name").unwrap_or_default();
        socket.set_attachment(name.as_bytes())?;
        Ok(())
    }

    /// Sends the message back. The text `trap` traps, `error` fails, `close` closes with 4000.
    fn socket_message(&mut self, socket: Socket, message: Message) -> Result<()> {
        match &message {
            Message::Text(text) if text == "trap" => work::trap(),
            Message::Text(text) if text == "error" => return Err(Error::internal("told to fail")),
            Message::Text(text) if text == "close" => socket.close(4000, "told to close")?,
            _ => socket.send(&message)?,
        }
        Ok(())
    }

    /// Tells the others: `closed ID CODE REASON ATTACHMENT`.
    fn socket_close(&mut self, socket: Socket, code: u16, reason: String) -> Result<()> {
        let attachment = socket.attachment().unwrap_or_default();
        let attachment = String::from_utf8_lossy(&attachment);
        let text = format!("closed {} {code} {reason:?} {attachment:?}", socket.id());
        wasmkeep_sdk::websockets::broadcast(&Message::Text(text));
        Ok(())
    }
}
