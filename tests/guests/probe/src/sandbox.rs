//! What a guest reaches beyond its own: nothing. Each entry is `{"ok": …}` or `{"error": "…"}`.
//!
//! Sockets are tried through `wasi:sockets` itself, which is what `std::net` calls: the C library
//! of some toolchains has no `std::net` to link.

use std::fmt::Debug;

use serde_json::{Value as Json, json};
use wasmkeep_sdk::Response;
use wasmkeep_sdk::bindings::wasi::http::outgoing_handler;
use wasmkeep_sdk::bindings::wasi::http::types::{ErrorCode, Fields, OutgoingRequest, Scheme};

mod sockets {
    wit_bindgen::generate!({ path: "wit", world: "wasmkeep:probe/sockets", generate_all });
}
use sockets::wasi::sockets as net;
use sockets::wasi::sockets::network::{
    ErrorCode as NetError, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress,
};

pub fn report() -> Response {
    Response::json(&json!({
        "read_file": outcome(std::fs::read("/etc/passwd")),
        "write_file": outcome(std::fs::write("wasmkeep-probe", "x")),
        "read_dir": outcome(std::fs::read_dir("/").map(|entries| entries.count())),
        "tcp": outcome(connect(1)),
        "udp": outcome(bind(0)),
        "lookup": outcome(look_up("localhost")),
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

fn connect(port: u16) -> Result<(), NetError> {
    let socket = net::tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4)?;
    let network = net::instance_network::instance_network();
    socket.start_connect(&network, loopback(port))
}

fn bind(port: u16) -> Result<(), NetError> {
    let socket = net::udp_create_socket::create_udp_socket(IpAddressFamily::Ipv4)?;
    let network = net::instance_network::instance_network();
    socket.start_bind(&network, loopback(port))?;
    socket.finish_bind()
}

fn look_up(name: &str) -> Result<(), NetError> {
    let network = net::instance_network::instance_network();
    net::ip_name_lookup::resolve_addresses(&network, name).map(drop)
}

fn loopback(port: u16) -> IpSocketAddress {
    let address = (127, 0, 0, 1);
    IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address })
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
