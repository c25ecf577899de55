//! The front: a component that answers every path of a node but `/actor/…` and `/_wasmkeep/…`.
//!
//! It has no state: each request gets an instance of its own, and nothing of it lasts. It routes,
//! signs users in, renders pages, and asks actors with [`actors::call`](crate::actors::call), which
//! it reaches from inside, those of `internal` classes too.
//!
//! ```no_run
//! use wasmkeep_sdk::{Method, Request, Response, Result, actors, front};
//!
//! fn handle(request: Request) -> Result<Response> {
//!     match request.route() {
//!         (Method::Get, []) => Ok(Response::html("<h1>Rooms</h1>")),
//!         // Each new name is a new actor with a database of its own: take only those you know.
//!         (Method::Get, [room @ ("lobby" | "garden")]) => {
//!             match actors::call(format!("room/{room}")).get("/").send() {
//!                 Ok(answer) => Ok(Response::html(answer.ok()?.text()?)),
//!                 Err(error) => Ok(front::unavailable(&error)),
//!             }
//!         }
//!         _ => Ok(Response::not_found()),
//!     }
//! }
//!
//! wasmkeep_sdk::front!(handle);
//! ```

use crate::actors::{Address, CallError};
use crate::{Error, Request, Response, target};

pub(crate) const CALLER: &str = "x-wasmkeep-caller";
const UPGRADE: &str = "x-wasmkeep-upgrade";
const HANDOFF_CLASS: &str = "x-wasmkeep-handoff-class";
const HANDOFF_NAME: &str = "x-wasmkeep-handoff-name";
const HANDOFF_PATH: &str = "x-wasmkeep-handoff-path";
/// What stands in the place of a class in the front's address. No class is called so.
const FRONT_CLASS: &str = "_front";

/// Makes a function the front of this component: `fn(Request) -> Result<Response>`.
///
/// Once in a crate, whose `Cargo.toml` says `crate-type = ["cdylib"]`. See
/// [`front`](mod@crate::front).
#[macro_export]
macro_rules! front {
    ($handler:path) => {
        const _: () = {
            use $crate::bindings::exports::wasi::http::incoming_handler;

            struct Exported;

            impl incoming_handler::Guest for Exported {
                fn handle(
                    incoming: $crate::bindings::wasi::http::types::IncomingRequest,
                    to: $crate::bindings::wasi::http::types::ResponseOutparam,
                ) {
                    $crate::export::answer_as_front(incoming, to, $handler);
                }
            }

            #[cfg(target_arch = "wasm32")]
            $crate::__export_wasi_http_incoming_handler_0_2_0_cabi!(
                Exported with_types_in $crate::bindings::exports::wasi::http::incoming_handler
            );

            // As in `actor!`.
            #[cfg(not(target_arch = "wasm32"))]
            #[used]
            static REACHED: fn(
                $crate::bindings::wasi::http::types::IncomingRequest,
                $crate::bindings::wasi::http::types::ResponseOutparam,
            ) = <Exported as incoming_handler::Guest>::handle;
        };
    };
}

/// Who sent a request. The host says it, and nobody else can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A client, at `/actor/<class>/<name>/…`.
    Outside,
    /// The node's front.
    Front,
    /// Another actor.
    Actor(Address),
}

/// Who sent this request: an actor asks it to answer its front only.
///
/// ```no_run
/// # use wasmkeep_sdk::{Error, Request, Response, Result, front};
/// fn request(request: Request) -> Result<Response> {
///     if front::caller(&request) != front::Caller::Front {
///         return Err(Error::status(403, "this is for the front only"));
///     }
///     Ok(Response::text("hello, front"))
/// }
/// ```
pub fn caller(request: &Request) -> Caller {
    request.header(CALLER).map_or(Caller::Outside, caller_of)
}

pub(crate) fn caller_of(text: &str) -> Caller {
    let mut parts = text.splitn(3, '/').map(str::to_owned);
    let (Some(tenant), Some(class), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Caller::Outside;
    };
    if class == FRONT_CLASS {
        return Caller::Front;
    }
    let name = target::percent_decode(&name).into_owned();
    Caller::Actor(Address { tenant, class, name })
}

/// The host the client asked for, with its port if it named one: `example.org:8080`.
pub fn host<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.header("host").or_else(|| request.authority())
}

/// `https` or `http`: the first `X-Forwarded-Proto`, only as good as the proxy that sets it, else
/// `http`.
pub fn scheme(request: &Request) -> &'static str {
    scheme_of(request.header("x-forwarded-proto"))
}

fn scheme_of(forwarded: Option<&str>) -> &'static str {
    let first = forwarded.and_then(|protocols| protocols.split(',').next());
    match first {
        Some(first) if first.trim().eq_ignore_ascii_case("https") => "https",
        _ => "http",
    }
}

/// Whether the client asks for a WebSocket: such a request may be answered with [`hand_off`]. The
/// host says it, and nobody else can.
pub fn wants_websocket(request: &Request) -> bool {
    request.header(UPGRADE) == Some("websocket")
}

/// Hands the client's WebSocket over to the actor `class/name`, an `internal` one too: it gets
/// [`socket_open`](crate::Actor::socket_open) with this path and query, and every event of the
/// socket comes from inside. When it refuses, the client gets 403 with its reason. This instance
/// ends with the answer.
///
/// What the actor shall know, such as who signed in, goes into the path: a client that comes
/// through the front cannot write it. The path is percent-encoded and starts with `/`.
///
/// A client that asked for no WebSocket gets what this is otherwise: 426.
///
/// ```no_run
/// use wasmkeep_sdk::{Error, Request, Response, Result, front};
///
/// fn handle(request: Request) -> Result<Response> {
///     match request.segments() {
///         ["chat"] if front::wants_websocket(&request) => {
///             let user = signed_in(&request).ok_or_else(|| Error::status(401, "sign in first"))?;
///             Ok(front::hand_off("room", "lobby", &format!("/?user={user}")))
///         }
///         _ => Ok(Response::not_found()),
///     }
/// }
/// # fn signed_in(_: &Request) -> Option<u64> { None }
/// ```
pub fn hand_off(class: &str, name: &str, path: &str) -> Response {
    Response::text("this is for WebSockets\n")
        .status(426)
        .header(HANDOFF_CLASS, class)
        .header(HANDOFF_NAME, target::percent_encode(name))
        .header(HANDOFF_PATH, path)
}

/// The answer when an actor could not be asked: 503 with `Retry-After: 1` for
/// [`CallError::Failed`] and [`CallError::Timeout`], which a retry may mend, and for the others,
/// which it will not, what an [`Error`] answers: 500. The log gets the error.
pub fn unavailable(error: &CallError) -> Response {
    crate::error::log(format_args!("{error}"));
    match error {
        CallError::Failed(_) | CallError::Timeout => {
            Response::text("not available now; try again\n").status(503).header("retry-after", "1")
        }
        CallError::Reentrant | CallError::InvalidAddress => Error::internal(error.clone()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_the_front_an_actor_or_a_client() {
        assert_eq!(caller_of("default/_front/main"), Caller::Front);
        let address =
            Address { tenant: "t".into(), class: "room".into(), name: "a/b c".to_owned() };
        assert_eq!(caller_of("t/room/a%2Fb%20c"), Caller::Actor(address));
        assert_eq!(caller_of("nonsense"), Caller::Outside);
    }

    #[test]
    fn the_first_forwarded_protocol_is_the_scheme() {
        let rows = [
            (None, "http"),
            (Some("https"), "https"),
            (Some("HTTPS, http"), "https"),
            (Some("http,https"), "http"),
            (Some("gopher"), "http"),
            (Some(""), "http"),
        ];
        for (forwarded, scheme) in rows {
            assert_eq!(scheme_of(forwarded), scheme, "{forwarded:?}");
        }
    }

    #[test]
    fn a_hand_off_names_the_actor_in_three_headers() {
        let response = hand_off("room", "café/1", "/?user=7");
        let header = |name| response.headers().get(name);
        assert_eq!(header("x-wasmkeep-handoff-class"), Some("room"));
        assert_eq!(header("x-wasmkeep-handoff-name"), Some("caf%C3%A9%2F1"));
        assert_eq!(header("x-wasmkeep-handoff-path"), Some("/?user=7"));
        assert_eq!(response.status_code(), 426, "what a client gets that asked for no WebSocket");
    }

    #[test]
    fn a_retry_is_offered_where_it_may_help() {
        for error in [CallError::Failed("front busy".into()), CallError::Timeout] {
            let response = unavailable(&error);
            assert_eq!(response.status_code(), 503);
            assert_eq!(response.headers().get("retry-after"), Some("1"));
        }
        for error in [CallError::Reentrant, CallError::InvalidAddress] {
            let response = unavailable(&error);
            assert_eq!(response.status_code(), 500);
            assert_eq!(response.headers().get("retry-after"), None);
        }
    }
}
