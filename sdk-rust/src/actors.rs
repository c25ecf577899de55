//! This actor's address, and calls to other actors of the same tenant and app.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::wasmkeep::actor::actors as host;
pub use crate::failure::{Failure, Ran, Refusal};
use crate::{Error, Headers, Method, Result};

/// Who an actor is. Displayed as `tenant/class/name`.
///
/// ```
/// # use wasmkeep_sdk::actors::Address;
/// let address = Address {
///     tenant: "default".to_owned(),
///     class: "room".to_owned(),
///     name: "lobby".to_owned(),
/// };
/// assert_eq!(address.to_string(), "default/room/lobby");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Who owns the app; `default` on a node that serves no deployed app.
    pub tenant: String,
    /// Which component.
    pub class: String,
    /// Which of its actors: the name as it is, not percent-encoded.
    pub name: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.class, self.name)
    }
}

/// The address of the actor this code runs as.
pub fn self_address() -> Address {
    host::self_address()
}

/// Starts a call to the actor `class/name`: say what to ask, then [`send`](Call::send) it.
///
/// The name is written as it is, not percent-encoded. Without further words it is a `GET` of `/`.
///
/// ```no_run
/// # use wasmkeep_sdk::{Result, actors, json};
/// # fn order() -> Result<()> {
/// let answer = actors::call("stock/blue socks")
///     .post("/take")
///     .json(&json!({ "pairs": 2 }))
///     .send()?;
/// if answer.status_code() == 409 {
///     // none left
/// }
/// let left: u32 = answer.ok()?.json()?;
/// # Ok(())
/// # }
/// ```
pub fn call(target: impl Into<String>) -> Call {
    Call {
        target: target.into(),
        method: Method::Get,
        path: "/".to_owned(),
        headers: Headers::new(),
        body: Vec::new(),
        unsendable: None,
    }
}

/// A call to another actor, before it is sent. Made by [`call`].
#[derive(Debug)]
#[must_use = "a call does nothing until it is sent"]
pub struct Call {
    target: String,
    method: Method,
    path: String,
    headers: Headers,
    body: Vec<u8>,
    unsendable: Option<serde_json::Error>,
}

impl Call {
    /// `GET` this path and query, as the callee shall see them: `/items?limit=20`.
    pub fn get(self, path: impl Into<String>) -> Self {
        self.method(Method::Get, path)
    }

    /// `POST` to this path.
    pub fn post(self, path: impl Into<String>) -> Self {
        self.method(Method::Post, path)
    }

    /// `PUT` to this path.
    pub fn put(self, path: impl Into<String>) -> Self {
        self.method(Method::Put, path)
    }

    /// `DELETE` this path.
    pub fn delete(self, path: impl Into<String>) -> Self {
        self.method(Method::Delete, path)
    }

    /// Any method, on this path.
    pub fn method(mut self, method: Method, path: impl Into<String>) -> Self {
        self.method = method;
        self.path = path.into();
        self
    }

    /// Sets a header, in place of values it had.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Sets the body: at most 16 MiB.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    /// Sets the body to a value written as JSON, and `content-type`.
    pub fn json(mut self, value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => self.body = bytes,
            Err(error) => self.unsendable = Some(error),
        }
        self.header("content-type", "application/json")
    }

    /// Sends the call and waits for the answer, while this event stays open: other events of this
    /// actor wait. For several calls at once, [`call_many`](crate::calls::call_many).
    ///
    /// Every answer is `Ok`, also a 404 or a 500: see [`Answer::ok`].
    pub fn send(self) -> Result<Answer, CallError> {
        let (target, request) = self.into_request()?;
        Ok(Answer::from(host::call(&target, &request)?))
    }

    pub(crate) fn into_request(self) -> Result<(String, host::Request), CallError> {
        if let Some(error) = self.unsendable {
            return Err(CallError::Failed(format!("not sent: the body is no JSON: {error}")));
        }
        let request = host::Request {
            method: self.method.as_str().to_owned(),
            path: self.path,
            headers: self.headers.into_fields(),
            body: self.body,
        };
        Ok((self.target, request))
    }
}

/// What another actor answered.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Headers,
    body: Vec<u8>,
}

impl Answer {
    /// The status.
    pub fn status_code(&self) -> u16 {
        self.status
    }

    /// The first value of a header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// Every header.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// This answer if its status is 2xx, else an error whose text (in the log) has the status and
    /// the start of the body.
    pub fn ok(self) -> Result<Self> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let start = &self.body[..self.body.len().min(200)];
        let start = String::from_utf8_lossy(start);
        Err(Error::internal(format!("the called actor answered {}: {start}", self.status)))
    }

    /// The body.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The body, to keep.
    pub fn into_bytes(self) -> Vec<u8> {
        self.body
    }

    /// The body as text.
    pub fn text(&self) -> Result<&str> {
        Ok(std::str::from_utf8(&self.body)?)
    }

    /// The body, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

impl From<host::Response> for Answer {
    fn from(response: host::Response) -> Self {
        Answer {
            status: response.status,
            headers: Headers::from(response.headers),
            body: response.body,
        }
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The call's time ran out. Whether the callee ran is unknown.
    ///
    /// A call gives up while 5 s of this event's time remain (a fifth of it, under 25 s), so
    /// there is time to answer.
    #[error("the call timed out; whether the callee ran is unknown")]
    Timeout,
    /// The callee is waiting further up this chain of calls: it would wait for itself.
    #[error("the callee is waiting for this call, directly or through others")]
    Reentrant,
    /// Not a `class/name`, or no class of this app. Nothing ran.
    #[error("no such address: a call goes to `class/name`, a class of this app")]
    InvalidAddress,
    /// The call failed otherwise; the text says how, and whether the callee ran.
    #[error("the call failed: {0}")]
    Failed(String),
}

impl From<host::CallError> for CallError {
    fn from(error: host::CallError) -> Self {
        match error {
            host::CallError::Timeout => CallError::Timeout,
            host::CallError::Reentrant => CallError::Reentrant,
            host::CallError::InvalidAddress => CallError::InvalidAddress,
            host::CallError::Failed(how) => CallError::Failed(how),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_says_what_it_asks() {
        let call = call("room/a b").post("/say?x=1").header("x-a", "1").json("hi");
        let (target, request) = call.into_request().unwrap();
        assert_eq!(target, "room/a b");
        assert_eq!((&*request.method, &*request.path), ("POST", "/say?x=1"));
        assert_eq!(request.body, b"\"hi\"");
        assert_eq!(request.headers.len(), 2);
    }

    #[test]
    fn a_body_that_is_no_json_is_not_sent() {
        let pairs = std::collections::HashMap::from([((1, 2), 3)]);
        let sent = call("room/a").post("/").json(&pairs).into_request();
        assert!(matches!(sent, Err(CallError::Failed(how)) if how.starts_with("not sent")));
    }

    #[test]
    fn an_answer_is_ok_when_it_is_2xx() {
        let answer = |status| Answer { status, headers: Headers::new(), body: b"gone".to_vec() };
        assert!(answer(204).ok().is_ok());
        let error = answer(410).ok().unwrap_err();
        assert_eq!(error.status_code(), 500);
        assert_eq!(error.to_string(), "the called actor answered 410: gone");
    }
}
