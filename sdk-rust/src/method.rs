use std::fmt;

use crate::bindings::wasi::http::types as wasi;

/// The method of an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `CONNECT`
    Connect,
    /// Any other method, spelled as the client sent it.
    Other(String),
}

impl Method {
    /// The method as it is written in a request.
    ///
    /// ```
    /// # use wasmkeep_sdk::Method;
    /// assert_eq!(Method::Patch.as_str(), "PATCH");
    /// ```
    pub fn as_str(&self) -> &str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Other(name) => name,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<wasi::Method> for Method {
    fn from(method: wasi::Method) -> Self {
        match method {
            wasi::Method::Get => Method::Get,
            wasi::Method::Head => Method::Head,
            wasi::Method::Post => Method::Post,
            wasi::Method::Put => Method::Put,
            wasi::Method::Patch => Method::Patch,
            wasi::Method::Delete => Method::Delete,
            wasi::Method::Options => Method::Options,
            wasi::Method::Trace => Method::Trace,
            wasi::Method::Connect => Method::Connect,
            wasi::Method::Other(name) => Method::Other(name),
        }
    }
}

impl From<Method> for wasi::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Get => wasi::Method::Get,
            Method::Head => wasi::Method::Head,
            Method::Post => wasi::Method::Post,
            Method::Put => wasi::Method::Put,
            Method::Patch => wasi::Method::Patch,
            Method::Delete => wasi::Method::Delete,
            Method::Options => wasi::Method::Options,
            Method::Trace => wasi::Method::Trace,
            Method::Connect => wasi::Method::Connect,
            Method::Other(name) => wasi::Method::Other(name),
        }
    }
}
