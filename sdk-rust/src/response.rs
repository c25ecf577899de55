use std::fmt;
use std::io::Write;
use std::ops::RangeInclusive;

use serde::Serialize;

use crate::bindings::wasi::http::types::{
    ErrorCode, Fields, OutgoingBody, OutgoingResponse, ResponseOutparam,
};
use crate::body::BodyWriter;
use crate::request::Head;
use crate::{Error, Headers, Method, Result, error};

/// An HTTP response.
///
/// A constructor makes a complete 200; change what you need:
///
/// ```
/// # use wasmkeep_sdk::{Response, json};
/// let response = Response::json(&json!({ "id": 7 }))
///     .status(201)
///     .header("location", "items/7");
/// assert_eq!(response.status_code(), 201);
/// assert_eq!(response.headers().get("content-type"), Some("application/json"));
/// ```
///
/// The SDK sets `content-length` for a body it has whole, and leaves out the body of an answer to
/// `HEAD` and of a 204 or 304. The host removes headers that are its own (`x-wasmkeep-…`).
pub struct Response {
    status: u16,
    headers: Headers,
    body: Content,
}

enum Content {
    Empty,
    Bytes(Vec<u8>),
    Stream(Box<StreamBody>),
    /// What kept the body from being made: the answer is this error instead.
    Failed(Error),
}

/// What a response may have. A 1xx is not one: another response would have to follow.
const STATUSES: RangeInclusive<u16> = 200..=999;

type StreamBody = dyn FnOnce(&mut BodyWriter) -> Result<()>;

impl Response {
    /// An empty body with this status. Add one with [`body`](Response::body).
    pub fn new(status: u16) -> Self {
        Response { status, headers: Headers::new(), body: Content::Empty }
    }

    /// 204: done, with nothing to say.
    pub fn empty() -> Self {
        Response::new(204)
    }

    /// Plain text, in UTF-8.
    pub fn text(text: impl Into<String>) -> Self {
        Response::of("text/plain; charset=utf-8", text.into().into_bytes())
    }

    /// An HTML page, in UTF-8.
    pub fn html(page: impl Into<String>) -> Self {
        Response::of("text/html; charset=utf-8", page.into().into_bytes())
    }

    /// A value written as JSON: anything that is [`Serialize`].
    ///
    /// A value that cannot be written (a map whose keys are no strings, say) answers 500.
    ///
    /// ```
    /// # use wasmkeep_sdk::Response;
    /// #[derive(serde::Serialize)]
    /// struct Item { id: i64, title: String }
    ///
    /// let item = Item { id: 7, title: "milk".to_owned() };
    /// let response = Response::json(&item);
    /// ```
    pub fn json(value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => Response::of("application/json", bytes),
            Err(error) => Response { body: Content::Failed(error.into()), ..Response::new(500) },
        }
    }

    /// 404, as an [`Error`] would answer it. [`Error::not_found`] says what was not found.
    pub fn not_found() -> Self {
        Error::not_found("not found").into()
    }

    /// 303: the browser goes on to `location` with a `GET`.
    ///
    /// A path such as `/done` leaves the actor's address; a relative one, such as `done`, starts
    /// at the URL the browser is at. For a permanent move: `.status(308)`.
    pub fn redirect(location: impl Into<String>) -> Self {
        Response::new(303).header("location", location.into())
    }

    /// A body that is written while it goes out.
    ///
    /// The closure runs after the handler has returned, in the same event: it may use storage,
    /// and the event's limits hold. Status and headers are with the client by then; when the
    /// closure fails, the error is logged and the response is cut off, which the client can see.
    ///
    /// ```no_run
    /// # use wasmkeep_sdk::{Response, Result, storage};
    /// use std::io::Write;
    ///
    /// fn export() -> Result<Response> {
    ///     let rows = storage::query_as::<(i64, String)>("SELECT id, title FROM items", ())?;
    ///     Ok(Response::stream(move |out| {
    ///         for (id, title) in rows {
    ///             writeln!(out, "{id},{title}")?;
    ///         }
    ///         Ok(())
    ///     })
    ///     .header("content-type", "text/csv"))
    /// }
    /// ```
    pub fn stream(write: impl FnOnce(&mut BodyWriter) -> Result<()> + 'static) -> Self {
        Response { body: Content::Stream(Box::new(write)), ..Response::new(200) }
    }

    fn of(content_type: &str, bytes: Vec<u8>) -> Self {
        Response::new(200).header("content-type", content_type).body(bytes)
    }

    /// Changes the status.
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sets a header, in place of values it had. Several `set-cookie`: see
    /// [`append_header`](Response::append_header).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Adds a header beside the values it has.
    pub fn append_header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Sets the body, and leaves the headers as they are.
    ///
    /// ```
    /// # use wasmkeep_sdk::Response;
    /// # let png = [0u8; 4];
    /// let response = Response::new(200).header("content-type", "image/png").body(png);
    /// ```
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = Content::Bytes(bytes.into());
        self
    }

    /// The status.
    pub fn status_code(&self) -> u16 {
        self.status
    }

    /// The headers set so far.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }
}

/// Not [`json!`](crate::json): this is in every guest, and a map would add kilobytes to it.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
}

impl From<Error> for Response {
    fn from(error: Error) -> Self {
        let status = match error.status_code() {
            status if STATUSES.contains(&status) => status,
            _ => 500,
        };
        let error = error.message();
        Response::json(&ErrorBody { error }).status(status)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body: &dyn fmt::Debug = match &self.body {
            Content::Empty => &"empty",
            Content::Bytes(bytes) => &format_args!("{} bytes", bytes.len()),
            Content::Stream(_) => &"stream",
            Content::Failed(error) => error,
        };
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("body", body)
            .finish()
    }
}

/// Answers a request with what its handler returned.
pub(crate) fn send(result: Result<Response>, request: &Head, to: ResponseOutparam) {
    let what = format_args!("{} {}", request.method, request.path());
    let answer = result.and_then(|response| response.prepare(&request.method));
    let answer = answer.or_else(|error| {
        error.log(what);
        Response::from(error).prepare(&request.method)
    });
    let Ok((outgoing, content)) = answer else {
        return ResponseOutparam::set(to, Err(ErrorCode::InternalError(None)));
    };
    let writer = match content {
        Content::Bytes(_) | Content::Stream(_) => BodyWriter::of(outgoing.body()),
        Content::Empty | Content::Failed(_) => None,
    };
    ResponseOutparam::set(to, Ok(outgoing));
    if let Some((writer, body)) = writer {
        write(content, writer, body, what);
    }
}

fn write(content: Content, mut writer: BodyWriter, body: OutgoingBody, what: fmt::Arguments<'_>) {
    let written = match content {
        Content::Bytes(bytes) => writer.write_all(&bytes).map_err(Error::from),
        Content::Stream(write) => write(&mut writer),
        Content::Empty | Content::Failed(_) => Ok(()),
    };
    let client_left = writer.client_left();
    drop(writer);
    match written {
        Ok(()) => {
            // It fails too when the client has left, which is nobody's mistake.
            let finished = OutgoingBody::finish(body, None);
            if let Err(ErrorCode::HttpResponseBodySize(_)) = finished {
                error::log(format_args!("{what}: the body is not as long as its content-length"));
            }
        }
        // A body that is dropped unfinished ends as cut off.
        Err(error) if !client_left => {
            error::log(format_args!("{what}: the response was cut off: {error}"));
        }
        Err(_) => {}
    }
}

impl Response {
    /// Decides on length and body, and hands status and headers to the host.
    fn prepare(mut self, method: &Method) -> Result<(OutgoingResponse, Content)> {
        if let Content::Failed(error) = self.body {
            return Err(error);
        }
        if !STATUSES.contains(&self.status) {
            return Err(no_status(self.status));
        }
        self.settle_length(method);
        let outgoing = OutgoingResponse::new(fields(&self.headers)?);
        // Every outgoing response starts as a 200.
        if self.status != 200 && outgoing.set_status_code(self.status).is_err() {
            return Err(no_status(self.status));
        }
        Ok((outgoing, self.body))
    }

    /// Sets `content-length`, and drops a body that may not be sent.
    fn settle_length(&mut self, method: &Method) {
        let may_have_body = !matches!(self.status, 204 | 304);
        match &self.body {
            Content::Bytes(bytes) if may_have_body => {
                let length = bytes.len().to_string();
                self.headers.set("content-length", length);
            }
            Content::Empty if may_have_body && *method != Method::Head => {
                self.headers.set("content-length", "0");
            }
            _ => {}
        }
        let nothing_to_send = matches!(&self.body, Content::Bytes(bytes) if bytes.is_empty());
        if !may_have_body || *method == Method::Head || nothing_to_send {
            self.body = Content::Empty;
        }
    }
}

fn no_status(status: u16) -> Error {
    Error::internal(format!("{status} is no status of a response"))
}

fn fields(headers: &Headers) -> Result<Fields> {
    headers.to_host().map_err(|why| Error::internal(format!("response {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(mut response: Response, method: Method) -> (Option<String>, usize) {
        response.settle_length(&method);
        let length = response.headers.get("content-length").map(str::to_owned);
        let body = match response.body {
            Content::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        (length, body)
    }

    fn length(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_whole_body_has_its_length() {
        let sent = settled(Response::text("hello"), Method::Get);
        assert_eq!(sent, (length("5"), 5));
        let wrong = Response::text("hello").header("content-length", "4");
        assert_eq!(settled(wrong, Method::Get), (length("5"), 5));
        assert_eq!(settled(Response::new(200), Method::Get), (length("0"), 0));
        assert_eq!(settled(Response::text(""), Method::Get), (length("0"), 0));
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let sent = settled(Response::text("hello"), Method::Head);
        assert_eq!(sent, (length("5"), 0));
        let known = Response::new(200).header("content-length", "99");
        assert_eq!(settled(known, Method::Head), (length("99"), 0));
    }

    #[test]
    fn no_content_and_not_modified_have_neither() {
        assert_eq!(settled(Response::empty(), Method::Get), (None, 0));
        let sent = settled(Response::text("x").status(304), Method::Get);
        assert_eq!(sent, (None, 0));
    }

    #[test]
    fn an_error_answers_json_with_its_status() {
        let response = Response::from(Error::status(409, "name \"a\" is taken"));
        assert_eq!(response.status_code(), 409);
        let Content::Bytes(body) = response.body else {
            panic!("no body");
        };
        assert_eq!(body, br#"{"error":"name \"a\" is taken"}"#);
    }

    #[test]
    fn an_error_with_no_status_of_a_response_answers_500() {
        for status in [0, 100, 199, 1000] {
            let response = Response::from(Error::status(status, "x"));
            assert_eq!(response.status_code(), 500);
        }
        assert!(matches!(
            Response::new(101).prepare(&Method::Get),
            Err(error) if error.to_string() == "101 is no status of a response"
        ));
    }

    #[test]
    fn a_value_that_is_no_json_is_an_error_to_answer() {
        let pairs = std::collections::HashMap::from([((1, 2), 3)]);
        let response = Response::json(&pairs);
        assert!(matches!(response.body, Content::Failed(_)));
        assert_eq!(response.status_code(), 500);
    }
}
