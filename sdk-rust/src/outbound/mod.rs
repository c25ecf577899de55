//! HTTP requests to the outside.
//!
//! They reach public addresses, and what the operator opened (`--allow-outbound`). Redirects are
//! answers like others, connections and cookies are not kept. An actor has at most 16 requests
//! open at once, each until its answer's body has been read or dropped.

mod error;
mod upload;
mod url;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::error::OutboundError;
pub(crate) use self::upload::Upload;
use self::upload::{Exchange, finish_all};
use self::url::Url;
use crate::bindings::wasi::http::outgoing_handler;
use crate::bindings::wasi::http::types::{
    self as wasi, IncomingResponse, OutgoingBody, OutgoingRequest, RequestOptions,
};
use crate::body::{Body, BodyError, BodyWriter};
use crate::{Error, Headers, Method, Result};

/// How much of an answer's body goes into an error's text.
const SHOWN_BYTES: usize = 200;

/// Starts a `GET` of a URL: say more if need be, then [`send`](Fetch::send) it.
///
/// ```no_run
/// # use wasmkeep_sdk::{Result, outbound};
/// # fn rate() -> Result<f64> {
/// let answer = outbound::get("https://rates.example/eur").header("accept", "text/plain").send()?;
/// let rate = answer.ok()?.text()?.parse()?;
/// # Ok(rate)
/// # }
/// ```
pub fn get(url: impl Into<String>) -> Fetch {
    fetch(Method::Get, url)
}

/// Starts a `POST` to a URL.
///
/// ```no_run
/// # use wasmkeep_sdk::{Result, json, outbound};
/// # fn notify() -> Result<()> {
/// outbound::post("https://hooks.example/orders").json(&json!({ "order": 7 })).send()?.ok()?;
/// # Ok(())
/// # }
/// ```
pub fn post(url: impl Into<String>) -> Fetch {
    fetch(Method::Post, url)
}

/// Starts a request of any method.
pub fn fetch(method: Method, url: impl Into<String>) -> Fetch {
    Fetch {
        method,
        url: url.into(),
        headers: Headers::new(),
        body: Vec::new(),
        wait: None,
        unsendable: None,
    }
}

/// Sends several requests together, and returns one result each, in the order given, when all have
/// answered or failed. Up to 16 may be open at once: more fail with `connection-limit-reached`.
///
/// ```no_run
/// # use wasmkeep_sdk::{Result, outbound};
/// # fn cheapest(shops: &[String]) -> Result<Option<u32>> {
/// let mut prices = Vec::new();
/// for answer in outbound::send_all(shops.iter().map(outbound::get)) {
///     prices.push(answer?.ok()?.json::<u32>()?);
/// }
/// # Ok(prices.into_iter().min())
/// # }
/// ```
pub fn send_all(fetches: impl IntoIterator<Item = Fetch>) -> Vec<Result<Answer, OutboundError>> {
    let mut results = Vec::new();
    let mut exchanges = Vec::new();
    for fetch in fetches {
        match fetch.start() {
            Ok(exchange) => {
                exchanges.push(exchange);
                results.push(None);
            }
            Err(error) => results.push(Some(Err(error))),
        }
    }
    let mut outcomes = finish_all(exchanges).into_iter();
    let mut next = || match outcomes.next() {
        Some((answer, upload)) => {
            answer.map(|answer| Answer::receive(&answer, upload)).map_err(OutboundError::Failed)
        }
        None => Err(OutboundError::Failed(wasi::ErrorCode::InternalError(None))),
    };
    results.into_iter().map(|result| result.unwrap_or_else(&mut next)).collect()
}

/// A request to the outside, before it is sent. Made by [`get`], [`post`] and [`fetch`].
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct Fetch {
    method: Method,
    url: String,
    headers: Headers,
    body: Vec<u8>,
    wait: Option<Duration>,
    unsendable: Option<String>,
}

impl Fetch {
    /// Sets a header, in place of values it had. `host` and those of the connection are the host's.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Sets the body.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    /// Sets the body to a value written as JSON, and `content-type`.
    pub fn json(mut self, value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => self.body = bytes,
            Err(error) => self.unsendable = Some(format!("the body is no JSON: {error}")),
        }
        self.header("content-type", "application/json")
    }

    /// How long each step may take: connecting, the first byte of the answer, and the time between
    /// two pieces of its body. 30 s unless said, 60 s at most.
    pub fn timeout(mut self, each_step: Duration) -> Self {
        self.wait = Some(each_step);
        self
    }

    /// Sends the request and waits for the head of the answer, while this event stays open: other
    /// events of this actor wait. For several at once, [`send_all`].
    ///
    /// Every answer is `Ok`, also a 404 or a redirect: see [`Answer::ok`].
    pub fn send(self) -> Result<Answer, OutboundError> {
        let mut answers = send_all([self]);
        answers.pop().unwrap_or(Err(OutboundError::Failed(wasi::ErrorCode::InternalError(None))))
    }

    /// Sends the request with a body that is written piece by piece, as the server takes it, and
    /// then waits for the answer. A server that takes no more ends the writing; its answer says why.
    ///
    /// ```no_run
    /// # use wasmkeep_sdk::{Request, Result, outbound};
    /// use std::io::Write;
    ///
    /// # fn pass_on(request: &mut Request) -> Result<()> {
    /// let answer = outbound::post("https://store.example/upload").send_stream(|out| {
    ///     while let Some(piece) = request.body().chunk()? {
    ///         out.write_all(&piece)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// # answer.ok()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_stream(self, write: impl FnOnce(&mut BodyWriter) -> Result<()>) -> Result<Answer> {
        let (request, options) = self.prepare()?;
        let (mut writer, body) = BodyWriter::of(request.body())
            .ok_or_else(|| not_sent("the host gave no body to write"))?;
        let answer = outgoing_handler::handle(request, options).map_err(OutboundError::Failed)?;
        let written = write(&mut writer);
        let left = writer.client_left();
        drop(writer);
        match written {
            Ok(()) if !left => OutgoingBody::finish(body, None).map_err(OutboundError::Failed)?,
            // What was written is not all: dropping the body says so.
            Err(error) if !left => return Err(error),
            // The server took no more: its answer says why.
            _ => drop(body),
        }
        let exchange = Exchange { upload: None, answer };
        let (answer, _) =
            finish_all(vec![exchange]).pop().ok_or_else(|| not_sent("the host gave no answer"))?;
        Ok(Answer::receive(&answer.map_err(OutboundError::Failed)?, None))
    }

    fn start(mut self) -> Result<Exchange, OutboundError> {
        let bytes = std::mem::take(&mut self.body);
        if !bytes.is_empty() {
            self.headers.set("content-length", bytes.len().to_string());
        }
        let (request, options) = self.prepare()?;
        let mut upload = None;
        if !bytes.is_empty() {
            let no_body = |()| not_sent("the host gave no body to write");
            let body = request.body().map_err(no_body)?;
            let stream = body.write().map_err(no_body)?;
            upload = Some(Upload::new(bytes, stream, body));
        }
        let answer = outgoing_handler::handle(request, options).map_err(OutboundError::Failed)?;
        Ok(Exchange { upload, answer })
    }

    fn prepare(self) -> Result<(OutgoingRequest, Option<RequestOptions>), OutboundError> {
        if let Some(why) = self.unsendable {
            return Err(OutboundError::NotSent(why));
        }
        let url = Url::parse(&self.url).map_err(OutboundError::NotSent)?;
        let request = OutgoingRequest::new(self.headers.to_host().map_err(OutboundError::NotSent)?);
        let wrong = |what| move |()| not_sent(&format!("the host does not take {what}"));
        request.set_method(&self.method.into()).map_err(wrong("the method"))?;
        request.set_scheme(Some(&url.scheme)).map_err(wrong("the scheme"))?;
        request.set_authority(Some(&url.authority)).map_err(wrong("the URL's host"))?;
        request
            .set_path_with_query(Some(&url.path_and_query))
            .map_err(wrong("the URL's path and query"))?;
        let options = self.wait.map(|wait| {
            let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            let options = RequestOptions::new();
            // A host that cannot do one of these has its own time.
            let _ = options.set_connect_timeout(Some(nanos));
            let _ = options.set_first_byte_timeout(Some(nanos));
            let _ = options.set_between_bytes_timeout(Some(nanos));
            options
        });
        Ok((request, options))
    }
}

fn not_sent(why: &str) -> OutboundError {
    OutboundError::NotSent(why.to_owned())
}

/// What a server answered: its head, and its body as it arrives. Dropped, it ends the request.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    headers: Headers,
    body: Body,
}

impl Answer {
    fn receive(answer: &IncomingResponse, upload: Option<Upload>) -> Self {
        let headers = Headers::from(answer.headers().entries());
        Answer { status: answer.status(), headers, body: Body::of_answer(answer, upload) }
    }

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
    pub fn ok(mut self) -> Result<Self> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let start = self.body.chunk().ok().flatten().unwrap_or_default();
        let start = String::from_utf8_lossy(&start[..start.len().min(SHOWN_BYTES)]).into_owned();
        Err(Error::internal(format!("the server answered {}: {start}", self.status)))
    }

    /// The body, to read piece by piece. One that breaks off is an error, never an end.
    pub fn body(&mut self) -> &mut Body {
        &mut self.body
    }

    /// The body, to keep.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// The whole body.
    pub fn bytes(mut self) -> Result<Vec<u8>, OutboundError> {
        self.body.read_all().map_err(|error| match error {
            BodyError::Answer(error) => error,
            other => OutboundError::Failed(wasi::ErrorCode::InternalError(Some(other.to_string()))),
        })
    }

    /// The whole body as text.
    pub fn text(self) -> Result<String> {
        Ok(String::from_utf8(self.bytes()?)?)
    }

    /// The whole body, read as JSON.
    pub fn json<T: DeserializeOwned>(self) -> Result<T> {
        Ok(serde_json::from_slice(&self.bytes()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_no_json_is_not_sent() {
        let pairs = std::collections::HashMap::from([((1, 2), 3)]);
        let sent = post("https://a.example").json(&pairs).send();
        assert!(matches!(sent, Err(OutboundError::NotSent(why)) if why.contains("JSON")));
    }

    #[test]
    fn a_url_that_is_none_is_not_sent_and_the_others_of_a_batch_are_told_apart() {
        let results = send_all([get("a.example"), get("ftp://a.example")]);
        let [Err(first), Err(second)] = &results[..] else { panic!("two results: {results:?}") };
        assert!(first.to_string().starts_with("not sent: \"a.example\""), "{first}");
        assert!(second.to_string().contains("\"ftp\""), "{second}");
        assert_eq!(first.code(), None);
    }

    #[test]
    fn a_failed_request_names_its_code_and_is_500_to_the_client() {
        let error = OutboundError::Failed(wasi::ErrorCode::DestinationIpProhibited);
        assert_eq!(error.code(), Some("destination-IP-prohibited"));
        let error = Error::from(error);
        assert_eq!((error.status_code(), error.message()), (500, "internal error"));
        assert_eq!(error.to_string(), "the request failed: destination-IP-prohibited");
    }

    #[test]
    fn an_answer_that_breaks_off_is_500_and_not_the_clients_fault() {
        let broken = OutboundError::Failed(wasi::ErrorCode::HttpResponseIncomplete);
        let error = Error::from(BodyError::Answer(broken));
        assert_eq!((error.status_code(), error.message()), (500, "internal error"));
        assert!(error.to_string().contains("HTTP-response-incomplete"), "{error}");
    }
}
