//! What a guest reaches beyond its own: nothing. Each entry is `{"ok": …}` or `{"error": "…"}`.

use std::fmt::Debug;
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};

use serde_json::{Value as Json, json};
use wasmkeep_sdk::Response;
use wasmkeep_sdk::bindings::wasi::http::outgoing_handler;
use wasmkeep_sdk::bindings::wasi::http::types::{ErrorCode, Fields, OutgoingRequest, Scheme};

pub fn report() -> Response {
    let directory = |path| std::fs::read_dir(path).map(|entries| entries.count());
    Response::json(&json!({
        "read_file": outcome(std::fs::read("/etc/passwd")),
        "write_file": outcome(std::fs::write("wasmkeep-probe", "x")),
        "read_dir": outcome(directory("/")),
        "tcp": outcome(TcpStream::connect("127.0.0.1:1")),
        "udp": outcome(UdpSocket::bind("127.0.0.1:0")),
        "lookup": outcome(("localhost", 1).to_socket_addrs().map(Iterator::count)),
        "env": std::env::vars().collect::<Vec<_>>(),
        "args": std::env::args().collect::<Vec<_>>(),
        "http": outcome(get("127.0.0.1:1")),
    }))
}

fn outcome<T: Debug, E: Debug>(result: Result<T, E>) -> Json {
    match result {
        Ok(value) => json!({ "ok": format!("{value:?}") }),
        Err(error) => json!({ "error": format!("{error:?}") }),
    }
}

fn get(authority: &str) -> Result<u16, ErrorCode> {
    let wrong = |()| ErrorCode::ConfigurationError;
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(&Scheme::Http)).map_err(wrong)?;
    request.set_authority(Some(authority)).map_err(wrong)?;
    request.set_path_with_query(Some("/")).map_err(wrong)?;
    let answer = outgoing_handler::handle(request, None)?;
    answer.subscribe().block();
    match answer.get() {
        Some(Ok(answer)) => Ok(answer?.status()),
        _ => Err(ErrorCode::InternalError(None)),
    }
}
