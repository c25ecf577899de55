//! Calls between actors with types: [`service!`](crate::service!) makes a client and a server of one
//! description.
//!
//! ```
//! # use wasmkeep_sdk::{Actor, Request, Response, Result};
//! # use serde::{Deserialize, Serialize};
//! #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
//! pub enum StockError {
//!     #[error("only {left} left")]
//!     TooFew { left: u32 },
//! }
//!
//! wasmkeep_sdk::service! {
//!     /// A stock of one thing.
//!     pub trait Stock {
//!         type Client = StockClient;
//!         type Error = StockError;
//!
//!         /// Puts some in; says how many there are.
//!         fn put(&mut self, pairs: u32) -> u32;
//!         /// Takes some out.
//!         fn take(&mut self, pairs: u32, whose: String);
//!     }
//! }
//!
//! // The callee: each method returns a `wasmkeep_sdk::Result`.
//! #[derive(Default)]
//! struct Shelf { pairs: u32 }
//!
//! impl Stock for Shelf {
//!     fn put(&mut self, pairs: u32) -> Result<u32> {
//!         self.pairs += pairs;
//!         Ok(self.pairs)
//!     }
//!
//!     fn take(&mut self, pairs: u32, _whose: String) -> Result<()> {
//!         let left = self.pairs.checked_sub(pairs);
//!         self.pairs = left.ok_or(StockError::TooFew { left: self.pairs })?;
//!         Ok(())
//!     }
//! }
//!
//! impl Actor for Shelf {
//!     fn request(&mut self, request: Request) -> Result<Response> {
//!         Stock::serve(self, request)
//!     }
//! }
//!
//! // The caller.
//! # use wasmkeep_sdk::service::ServiceError;
//! fn order() -> Result<Response> {
//!     let stock = StockClient::new("stock/blue socks");
//!     match stock.take(2, "ann".to_owned()) {
//!         Ok(()) => Ok(Response::text("they are yours")),
//!         Err(ServiceError::Own(StockError::TooFew { left })) => {
//!             Ok(Response::text(format!("only {left} left")).status(409))
//!         }
//!         // The host's refusal, no answer in time, another error of the callee.
//!         Err(ServiceError::Failed(failure)) if failure.may_be_retried() => {
//!             Ok(Response::new(503).header("retry-after", "1"))
//!         }
//!         Err(error) => Err(error.into()),
//!     }
//! }
//! # let _ = order;
//! ```
//!
//! **On the wire** `take(2, "ann")` is `POST /Stock/take` with the body `[2,"ann"]`, `null` for a
//! method without arguments, and its answer is 200 with the value as JSON. An error of the service's
//! own type is 422 with `{"own": …}`, any other [`Error`](crate::Error) what it always is. So
//! arguments, values and the error are types of serde; a struct as the one argument can get fields
//! later, while one more argument is another method to older callers (400).
//!
//! **Who may call** is as with any request: clients from outside, too, where the class lets them in.
//! [`front::caller`](crate::front::caller) says who it is, before `serve` takes the request.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error as StdError;

use crate::actors::{self, Failure};
use crate::{Error, Request, Response, Result};

/// Says that the service's own error is in the body.
const OWN_ERROR: u16 = 422;

/// Why a call of a [`service!`](crate::service!) gave no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError<E> {
    /// The error the callee returned, of the service's own type.
    #[error(transparent)]
    Own(E),
    /// All else: a refusal of the host, no answer, another error of the callee.
    #[error(transparent)]
    Failed(Failure),
}

#[derive(Serialize, serde::Deserialize)]
struct OwnError<E> {
    own: E,
}

/// Describes a service once: makes the trait its server implements, and a client. See
/// [`service`](mod@crate::service).
///
/// The trait gets a method more, `serve(&mut self, Request) -> Result<Response>`, which answers the
/// requests below `/<trait>/`; others it answers with 404. The error's type is a
/// [`std::error::Error`] and of serde; a method that returns it, with `?` or `.into()`, gives it to
/// the caller as [`ServiceError::Own`].
#[macro_export]
macro_rules! service {
    (
        $(#[$about:meta])*
        $vis:vis trait $service:ident {
            type Client = $client:ident;
            type Error = $error:ty;
            $(
                $(#[$about_method:meta])*
                fn $method:ident(&mut self $(, $argument:ident: $of:ty)* $(,)?) $(-> $value:ty)?;
            )*
        }
    ) => {
        $(#[$about])*
        $vis trait $service {
            $(
                $(#[$about_method])*
                fn $method(&mut self $(, $argument: $of)*)
                    -> $crate::Result<$crate::service!(@value $($value)?)>;
            )*

            /// Answers a request that a client of this service sent.
            fn serve(&mut self, mut request: $crate::Request<'_>)
                -> $crate::Result<$crate::Response>
            {
                match $crate::service::method_of(&request, ::core::stringify!($service))? {
                    $(
                        ::core::stringify!($method) => {
                            let ($($argument,)*) =
                                $crate::service::arguments::<($($of,)*)>(&mut request)?;
                            $crate::service::answer::<_, $error>(self.$method($($argument),*))
                        }
                    )*
                    method => ::core::result::Result::Err(
                        $crate::service::no_method(::core::stringify!($service), method)
                    ),
                }
            }
        }

        $(#[$about])*
        #[derive(Clone, Debug)]
        $vis struct $client {
            target: ::std::string::String,
        }

        #[allow(dead_code)]
        impl $client {
            /// A client of the actor `class/name`, the name as it is.
            pub fn new(target: impl ::core::convert::Into<::std::string::String>) -> Self {
                $client { target: target.into() }
            }

            $(
                $(#[$about_method])*
                pub fn $method(&self $(, $argument: $of)*) -> ::core::result::Result<
                    $crate::service!(@value $($value)?),
                    $crate::service::ServiceError<$error>,
                > {
                    $crate::service::ask(
                        &self.target,
                        ::core::concat!(
                            "/", ::core::stringify!($service), "/", ::core::stringify!($method)
                        ),
                        &($($argument,)*),
                    )
                }
            )*
        }
    };
    (@value) => { () };
    (@value $value:ty) => { $value };
}

/// The method a request names.
#[doc(hidden)]
pub fn method_of<'a>(request: &Request<'a>, service: &str) -> Result<&'a str> {
    match request.segments() {
        [of, method] if *of == service => match request.method() {
            crate::Method::Post => Ok(method),
            _ => Err(Error::status(405, "a method of a service is called with POST")),
        },
        _ => Err(Error::not_found(format!("this is the service {service}: POST /{service}/…"))),
    }
}

#[doc(hidden)]
pub fn no_method(service: &str, method: &str) -> Error {
    Error::not_found(format!("the service {service} has no method {method:?}"))
}

#[doc(hidden)]
pub fn arguments<T: DeserializeOwned>(request: &mut Request) -> Result<T> {
    request.json()
}

#[doc(hidden)]
pub fn answer<T, E>(result: Result<T>) -> Result<Response>
where
    T: Serialize,
    E: StdError + Serialize + 'static,
{
    let error = match result {
        Ok(value) => return Ok(Response::json(&value)),
        Err(error) => error,
    };
    match error.downcast_ref::<E>() {
        Some(own) => Ok(Response::json(&OwnError { own }).status(OWN_ERROR)),
        None => Err(error),
    }
}

#[doc(hidden)]
pub fn ask<T: DeserializeOwned, E: DeserializeOwned>(
    target: &str,
    path: &str,
    arguments: &impl Serialize,
) -> Result<T, ServiceError<E>> {
    let sent = actors::call(target).post(path).json(arguments).send();
    read(sent.map_err(Failure::from)).map_err(|error| *error)
}

/// Boxed: the service's own error may be large.
fn read<T: DeserializeOwned, E: DeserializeOwned>(
    answer: Result<actors::Answer, Failure>,
) -> Result<T, Box<ServiceError<E>>> {
    let failed = |failure| Box::new(ServiceError::Failed(failure));
    let answer = answer.map_err(failed)?;
    // No refusal of the host is a 422 with such a body. A 422 of another kind is read below.
    if answer.status_code() == OWN_ERROR
        && let Ok(OwnError { own }) = serde_json::from_slice(answer.bytes())
    {
        return Err(Box::new(ServiceError::Own(own)));
    }
    let answer = answer.done().map_err(failed)?;
    serde_json::from_slice(answer.bytes())
        .map_err(|error| failed(Failure::Unreadable(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::{Answer, Ran, Refusal};
    use crate::bindings::wasmkeep::actor::actors::Response as HostResponse;

    #[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, serde::Deserialize)]
    #[error("only {left} left")]
    struct TooFew {
        left: u32,
    }

    fn answered(status: u16, headers: &[(&str, &str)], body: &str) -> Result<Answer, Failure> {
        let headers = headers.iter();
        let headers = headers.map(|&(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        Ok(Answer::from(HostResponse { status, headers: headers.collect(), body: body.into() }))
    }

    fn read_number(answer: Result<Answer, Failure>) -> Result<u32, ServiceError<TooFew>> {
        read(answer).map_err(|error| *error)
    }

    #[test]
    fn an_answer_is_a_value_the_services_error_or_a_failure() {
        assert_eq!(read_number(answered(200, &[], "7")), Ok(7));
        let own = read_number(answered(422, &[], r#"{"own":{"left":1}}"#));
        assert_eq!(own, Err(ServiceError::Own(TooFew { left: 1 })));
        // A 422 that is not the service's own, such as an `Error::status(422, …)`.
        let other = read_number(answered(422, &[], r#"{"error":"no"}"#));
        let message = "no".to_owned();
        assert_eq!(other, Err(ServiceError::Failed(Failure::Answered { status: 422, message })));
        let misfit = read_number(answered(200, &[], "\"seven\""));
        assert!(matches!(misfit, Err(ServiceError::Failed(Failure::Unreadable(_)))), "{misfit:?}");
        let headers = [("x-wasmkeep-reason", "queue-full"), ("x-wasmkeep-event", "not-run")];
        let refused = read_number(answered(429, &headers, "{}"));
        let refusal = Refusal { status: 429, reason: "queue-full".into(), ran: Ran::No };
        assert_eq!(refused, Err(ServiceError::Failed(Failure::Refused(refusal))));
    }

    #[test]
    fn the_services_own_error_is_an_answer_and_others_stay_errors() {
        let own = answer::<u32, TooFew>(Err(TooFew { left: 1 }.into())).unwrap();
        assert_eq!(own.status_code(), 422);
        let other = answer::<u32, TooFew>(Err(Error::status(409, "taken"))).unwrap_err();
        assert_eq!(other.status_code(), 409);
        assert_eq!(answer::<_, TooFew>(Ok(7)).unwrap().status_code(), 200);
    }
}
