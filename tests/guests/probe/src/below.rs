//! What the SDK does not let an actor do: return without an answer. So this guest exports the
//! world by hand, and hands all else to the SDK.

use wasmkeep_sdk::bindings::exports::wasi::http::incoming_handler;
use wasmkeep_sdk::bindings::wasi::http::types::{IncomingRequest, ResponseOutparam};
use wasmkeep_sdk::bindings::wasmkeep::actor::websockets::OpenRequest;
use wasmkeep_sdk::bindings::{self, SocketId};
use wasmkeep_sdk::export::{Instance, Memory};
use wasmkeep_sdk::websockets::Message;

use crate::Probe;

impl Instance for Probe {
    type Actor = Self;

    fn with<R>(event: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static MEMORY: Memory<Probe> = const { Memory::new() };
        }
        MEMORY.with(|memory| memory.enter(event))
    }
}

#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
struct Exports;

impl incoming_handler::Guest for Exports {
    fn handle(request: IncomingRequest, to: ResponseOutparam) {
        if request.path_with_query().as_deref() == Some("/nothing") {
            return;
        }
        <Probe as incoming_handler::Guest>::handle(request, to);
    }
}

impl bindings::Guest for Exports {
    fn on_init() -> Result<(), String> {
        <Probe as bindings::Guest>::on_init()
    }

    fn on_alarm() -> Result<(), String> {
        <Probe as bindings::Guest>::on_alarm()
    }

    fn on_websocket_open(socket: SocketId, request: OpenRequest) -> Result<(), String> {
        <Probe as bindings::Guest>::on_websocket_open(socket, request)
    }

    fn on_websocket_message(socket: SocketId, message: Message) -> Result<(), String> {
        <Probe as bindings::Guest>::on_websocket_message(socket, message)
    }

    fn on_websocket_close(socket: SocketId, code: u16, reason: String) -> Result<(), String> {
        <Probe as bindings::Guest>::on_websocket_close(socket, code, reason)
    }
}

#[cfg(target_arch = "wasm32")]
wasmkeep_sdk::bindings::export_actor!(Exports with_types_in wasmkeep_sdk::bindings);

// Elsewhere nothing calls the actor, and the compiler would report all of it as unused.
#[cfg(not(target_arch = "wasm32"))]
#[used]
static REACHED: fn() = wasmkeep_sdk::export::reach::<Probe>;
