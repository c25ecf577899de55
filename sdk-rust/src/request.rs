use std::cell::OnceCell;
use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use crate::bindings::wasi::http::types as wasi;
use crate::body::Body;
use crate::error::json_of_client;
use crate::{Error, Headers, Method, Result, target};

/// An HTTP request, from a client or from another actor.
///
/// What it returns (`path`, `query`, `header`, the parts of [`route`](Request::route)) lives as
/// long as the request and does not borrow it, so reading the body does not get in the way:
///
/// ```no_run
/// # use wasmkeep_sdk::{Method, Request, Response, Result, json};
/// fn handle(mut request: Request) -> Result<Response> {
///     match request.route() {
///         (Method::Get, []) => Ok(Response::text("hello")),
///         (Method::Get, ["items"]) => {
///             let limit = request.parse_query("limit")?.unwrap_or(20);
///             list(limit)
///         }
///         (Method::Put, ["items", id]) => {
///             let title: String = request.json()?;
///             Ok(Response::json(&json!({ "id": id, "title": title })))
///         }
///         _ => Ok(Response::not_found()),
///     }
/// }
/// # fn list(limit: u32) -> Result<Response> { Ok(Response::empty()) }
/// ```
pub struct Request<'a> {
    head: &'a Head,
    segments: &'a [&'a str],
    body: Option<Body>,
}

/// What a request borrows from: everything but the body.
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) target: String,
    authority: Option<String>,
    query: OnceCell<Vec<(String, String)>>,
    headers: OnceCell<Headers>,
    incoming: Option<wasi::IncomingRequest>,
}

impl Head {
    pub(crate) fn receive(incoming: wasi::IncomingRequest) -> Self {
        let method = incoming.method().into();
        let target = incoming.path_with_query().unwrap_or_else(|| "/".to_owned());
        let authority = incoming.authority();
        Head { incoming: Some(incoming), authority, ..Head::new(method, target) }
    }

    fn new(method: Method, target: impl Into<String>) -> Self {
        Head {
            method,
            target: target.into(),
            authority: None,
            query: OnceCell::new(),
            headers: OnceCell::new(),
            incoming: None,
        }
    }

    pub(crate) fn path(&self) -> &str {
        target::path(&self.target)
    }

    fn query(&self) -> &[(String, String)] {
        self.query.get_or_init(|| target::query_pairs(&self.target))
    }

    fn headers(&self) -> &Headers {
        self.headers.get_or_init(|| match &self.incoming {
            Some(incoming) => Headers::from(incoming.headers().entries()),
            None => Headers::new(),
        })
    }

    /// Runs a handler on the request this is the head of.
    pub(crate) fn with_request<R>(&self, handler: impl FnOnce(Request) -> R) -> R {
        let decoded = target::segments(self.path());
        let segments: Vec<&str> = decoded.iter().map(|segment| &**segment).collect();
        handler(Request { head: self, segments: &segments, body: None })
    }

    /// Gives the request back to the host, with a body nobody read.
    pub(crate) fn close(&mut self) {
        self.incoming = None;
    }

    fn take_body(&self) -> Body {
        match &self.incoming {
            Some(incoming) => Body::receive(incoming),
            None => Body::ended(),
        }
    }
}

impl<'a> Request<'a> {
    /// The method.
    pub fn method(&self) -> &'a Method {
        &self.head.method
    }

    /// The path below the actor's address, as the client encoded it: `/items/a%20b`.
    pub fn path(&self) -> &'a str {
        self.head.path()
    }

    /// Path and query as they came: `/items/a%20b?limit=20`.
    pub fn path_and_query(&self) -> &'a str {
        &self.head.target
    }

    /// The path's segments, percent-decoded: `["items", "a b"]`.
    ///
    /// Empty segments are left out, so `/items/` is `/items`, and `/` has none.
    pub fn segments(&self) -> &'a [&'a str] {
        self.segments
    }

    /// Method and [`segments`](Request::segments), to match on: see the [example](Request).
    ///
    /// `HEAD` comes as `Method::Get`: the answer's body is left out when it is sent.
    pub fn route(&self) -> (Method, &'a [&'a str]) {
        match &self.head.method {
            Method::Head => (Method::Get, self.segments),
            method => (method.clone(), self.segments),
        }
    }

    /// The first value of a query parameter, percent-decoded: `20` for `limit` in `?limit=20`.
    pub fn query(&self, name: &str) -> Option<&'a str> {
        let mut pairs = self.query_pairs();
        pairs.find_map(|(have, value)| (have == name).then_some(value))
    }

    /// A query parameter as a number, or anything else that parses; `None` when it is absent.
    ///
    /// A value that does not parse is a 400 that names the parameter.
    ///
    /// ```no_run
    /// # fn handle(request: wasmkeep_sdk::Request) -> wasmkeep_sdk::Result<()> {
    /// let limit: u32 = request.parse_query("limit")?.unwrap_or(20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse_query<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.query(name) else {
            return Ok(None);
        };
        let parsed = value.parse().map(Some);
        parsed.map_err(|_| {
            Error::bad_request(format!("query parameter `{name}`: {value:?} is not valid"))
        })
    }

    /// Every query parameter with its value, percent-decoded, in order.
    pub fn query_pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let pairs = self.head.query().iter();
        pairs.map(|(name, value)| (&**name, &**value))
    }

    /// The first value of a header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers().get(name)
    }

    /// A cookie the browser sent, as it stands there: nothing is decoded.
    pub fn cookie(&self, name: &str) -> Option<&'a str> {
        cookie_in(self.headers().get_all("cookie"), name)
    }

    /// Every header.
    pub fn headers(&self) -> &'a Headers {
        self.head.headers()
    }

    /// The host the client asked for, with its port if it named one.
    pub fn authority(&self) -> Option<&'a str> {
        self.head.authority.as_deref()
    }

    /// The whole body. Over 16 MiB: an error that answers 413.
    ///
    /// A body is read once; what was read before is not in it.
    pub fn bytes(&mut self) -> Result<Vec<u8>> {
        Ok(self.body().read_all()?)
    }

    /// The whole body as text. Not UTF-8: an error that answers 400.
    pub fn text(&mut self) -> Result<String> {
        let not_text = |_| Error::bad_request("the request body is not UTF-8");
        String::from_utf8(self.bytes()?).map_err(not_text)
    }

    /// The whole body, read as JSON. What does not fit: an error that answers 400 and says why.
    ///
    /// ```no_run
    /// # use wasmkeep_sdk::{Request, Result};
    /// #[derive(serde::Deserialize)]
    /// struct Note {
    ///     title: String,
    /// }
    ///
    /// fn create(mut request: Request) -> Result<()> {
    ///     let note: Note = request.json()?;
    /// #   Ok(())
    /// }
    /// ```
    pub fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        json_of_client("the request body", &self.bytes()?)
    }

    /// The fields of an HTML form that a browser posted, in order.
    ///
    /// ```no_run
    /// # use wasmkeep_sdk::{Request, Response, Result};
    /// fn sign_in(mut request: Request) -> Result<Response> {
    ///     let form = request.form()?;
    ///     let name = form.get("name").unwrap_or_default();
    /// #   let _ = name;
    ///     Ok(Response::redirect("/"))
    /// }
    /// ```
    pub fn form(&mut self) -> Result<Form> {
        let of_type = self.header("content-type").unwrap_or_default();
        let of_type = of_type.split(';').next().unwrap_or_default().trim();
        if !of_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            let wanted = "the body is to be a form: content-type application/x-www-form-urlencoded";
            return Err(Error::status(415, wanted));
        }
        Ok(Form(target::pairs(&self.text()?)))
    }

    /// The body, to read piece by piece.
    pub fn body(&mut self) -> &mut Body {
        let head = self.head;
        self.body.get_or_insert_with(|| head.take_body())
    }

    /// The body alone, which may outlive the request: to read it while a streamed response goes
    /// out.
    ///
    /// ```no_run
    /// # use wasmkeep_sdk::{Request, Response, Result};
    /// fn echo(request: Request) -> Result<Response> {
    ///     let mut body = request.into_body();
    ///     Ok(Response::stream(move |out| {
    ///         std::io::copy(&mut body, out)?;
    ///         Ok(())
    ///     }))
    /// }
    /// ```
    pub fn into_body(self) -> Body {
        self.body.unwrap_or_else(|| self.head.take_body())
    }
}

fn cookie_in<'a>(mut headers: impl Iterator<Item = &'a [u8]>, name: &str) -> Option<&'a str> {
    headers.find_map(|header| {
        let mut pairs = std::str::from_utf8(header).ok()?.split(';');
        pairs.find_map(|pair| {
            let (have, value) = pair.trim().split_once('=')?;
            (have == name).then_some(value)
        })
    })
}

/// The fields of an HTML form: see [`Request::form`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find_map(|(have, value)| (have == name).then_some(value))
    }

    /// Every field with its value, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} {})", self.method(), self.path_and_query())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_request<R>(method: Method, target: &str, check: impl FnOnce(Request) -> R) -> R {
        Head::new(method, target).with_request(check)
    }

    fn routed(method: Method, target: &str) -> String {
        with_request(method, target, |mut request| match request.route() {
            (Method::Get, []) => "home".to_owned(),
            (Method::Get, ["items"]) => format!("list {:?}", request.query("q")),
            (Method::Put, ["items", id]) => {
                let body = request.bytes().unwrap();
                format!("put {id} of {}", body.len())
            }
            (Method::Other(name), ["items", ..]) => format!("other {name}"),
            _ => "none".to_owned(),
        })
    }

    #[test]
    fn routes_match_on_method_and_decoded_segments() {
        assert_eq!(routed(Method::Get, "/"), "home");
        assert_eq!(routed(Method::Get, "/items/?q=a%20b"), "list Some(\"a b\")");
        assert_eq!(routed(Method::Put, "/items/a%2Fb"), "put a/b of 0");
        assert_eq!(routed(Method::Put, "/items/a/b"), "none");
        assert_eq!(routed(Method::Post, "/items"), "none");
        let other = Method::Other("PURGE".to_owned());
        assert_eq!(routed(other, "/items/7/x"), "other PURGE");
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let headers: [&[u8]; 3] = [b"a=1; session=x=y ;b", b"\xff=1", b"last=%20"];
        let cookie = |name| cookie_in(headers.into_iter(), name);
        assert_eq!(cookie("a"), Some("1"));
        assert_eq!(cookie("session"), Some("x=y"));
        assert_eq!(cookie("last"), Some("%20"));
        assert_eq!(cookie("b"), None);
        assert_eq!(cookie("SESSION"), None);
    }

    #[test]
    fn head_routes_as_get() {
        assert_eq!(routed(Method::Head, "/"), "home");
        with_request(Method::Head, "/", |request| {
            assert_eq!(request.method(), &Method::Head);
        });
    }

    #[test]
    fn a_query_parameter_that_does_not_parse_is_a_400_that_names_it() {
        with_request(Method::Get, "/?limit=many&n=7&n=8&empty=", |request| {
            assert_eq!(request.query("n"), Some("7"));
            assert_eq!(request.query("empty"), Some(""));
            assert_eq!(request.parse_query::<i64>("n").unwrap(), Some(7));
            assert_eq!(request.parse_query::<i64>("absent").unwrap(), None);
            let error = request.parse_query::<u32>("limit").unwrap_err();
            assert_eq!(error.status_code(), 400);
            assert_eq!(error.message(), "query parameter `limit`: \"many\" is not valid");
        });
    }

    #[test]
    fn a_request_keeps_path_and_query_as_they_came() {
        with_request(Method::Get, "/a%20b/?x=%41", |request| {
            assert_eq!(request.path(), "/a%20b/");
            assert_eq!(request.path_and_query(), "/a%20b/?x=%41");
            assert_eq!(request.segments(), ["a b"]);
            assert_eq!(request.query_pairs().collect::<Vec<_>>(), [("x", "A")]);
        });
    }
}
