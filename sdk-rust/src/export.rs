//! Between what the host calls and [`Actor`], or a front's handler. Used by
//! [`actor!`](crate::actor) and [`front!`](crate::front).

use std::cell::RefCell;

use crate::bindings::exports::wasi::http::incoming_handler;
use crate::bindings::wasi::http::types::{IncomingRequest, ResponseOutparam};
use crate::bindings::{self, SocketId};
use crate::request::Head;
use crate::websockets::{Message, OpenRequest, Socket};
use crate::{Actor, Error, Request, Response, Result, response};

/// Where the one value of an actor in this instance can be reached.
pub trait Instance: 'static {
    /// The actor.
    type Actor: Actor;

    /// Runs an event on the value.
    fn with<R>(event: impl FnOnce(&mut Self::Actor) -> R) -> R;
}

/// Reaches all of an actor, as the exports do where there are any.
#[cfg(not(target_arch = "wasm32"))]
pub fn reach<I: Instance>() {
    let _ = <I as bindings::Guest>::on_init();
}

/// Answers a request with what a front's handler makes of it.
pub fn answer_as_front(
    incoming: IncomingRequest,
    to: ResponseOutparam,
    handler: impl FnOnce(Request) -> Result<Response>,
) {
    // Links the description of the front's world, which says what the component exports.
    #[cfg(target_arch = "wasm32")]
    bindings::front::__link_custom_section_describing_imports();
    let mut head = Head::receive(incoming);
    let result = head.with_request(handler);
    head.close();
    response::send(result, &head, to);
}

/// Where the value lives, made when it is first entered.
pub struct Memory<A>(RefCell<Option<A>>);

impl<A: Actor> Memory<A> {
    /// Not made yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Memory(RefCell::new(None))
    }

    /// Runs an event. The host runs one at a time, and enters no instance that is in one.
    pub fn enter<R>(&self, event: impl FnOnce(&mut A) -> R) -> R {
        event(self.0.borrow_mut().get_or_insert_with(A::default))
    }
}

impl<I: Instance> incoming_handler::Guest for I {
    fn handle(incoming: IncomingRequest, to: ResponseOutparam) {
        let mut head = Head::receive(incoming);
        let result = head.with_request(|request| I::with(|actor| actor.request(request)));
        head.close();
        response::send(result, &head, to);
    }
}

impl<I: Instance> bindings::Guest for I {
    fn on_init() -> Result<(), String> {
        I::with(I::Actor::init).map_err(for_the_log)
    }

    fn on_alarm() -> Result<(), String> {
        I::with(I::Actor::alarm).map_err(for_the_log)
    }

    fn on_websocket_open(socket: SocketId, request: bindings::OpenRequest) -> Result<(), String> {
        let open = |actor: &mut I::Actor| {
            actor.socket_open(Socket::from_id(socket), OpenRequest::from(request))
        };
        I::with(open).map_err(|error| {
            error.log(format_args!("WebSocket open"));
            error.message().to_owned()
        })
    }

    fn on_websocket_message(socket: SocketId, message: Message) -> Result<(), String> {
        I::with(|actor| actor.socket_message(Socket::from_id(socket), message)).map_err(for_the_log)
    }

    fn on_websocket_close(socket: SocketId, code: u16, reason: String) -> Result<(), String> {
        I::with(|actor| actor.socket_close(Socket::from_id(socket), code, reason))
            .map_err(for_the_log)
    }
}

fn for_the_log(error: Error) -> String {
    error.to_string()
}
