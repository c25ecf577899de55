#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod actors;
pub mod alarms;
pub mod bindings;
pub mod calls;
pub mod env;
#[doc(hidden)]
pub mod export;
pub mod front;
pub mod kv;
pub mod outbound;
pub mod queue;
pub mod service;
pub mod storage;
pub mod timers;
pub mod websockets;

mod actor;
mod body;
mod error;
mod failure;
mod headers;
mod method;
mod options;
mod request;
mod response;
mod target;

pub use actor::Actor;
pub use body::{Body, BodyWriter};
pub use error::{Error, Result};
pub use headers::Headers;
pub use method::Method;
pub use request::{Form, Request};
pub use response::Response;
/// A JSON value written as JSON, from [`serde_json`]: `Response::json(&json!({ "n": 1 }))`.
pub use serde_json::json;

/// Pages of the project, whose Rust is compiled with this crate's.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../../docs/api.md")]
    mod api {}
}
