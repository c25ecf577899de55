use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

const TIMEOUT: Duration = Duration::from_secs(60);
const BODY_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// One actor, or the front: where requests go.
#[derive(Clone, Debug)]
pub struct Actor {
    base: String,
    agent: ureq::Agent,
}

impl Actor {
    pub(crate) fn at(url: &str, path: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .build();
        Self { base: format!("{url}{path}"), agent: ureq::Agent::new_with_config(config) }
    }

    /// Sends a `GET` to a path below the actor's address: `/items?limit=20`.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// Sends a `POST` with this body.
    #[track_caller]
    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send("POST", path, &[], body)
    }

    /// Sends any request. No redirect is followed, no cookie kept.
    #[track_caller]
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.as_ref()).expect("method, path and headers are legal");
        let response = self.agent.run(request);
        let mut response =
            response.unwrap_or_else(|error| panic!("{method} {}{path}: {error}", self.base));
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let (status, headers) = (response.status().as_u16(), headers.collect());
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec();
        let body = body.unwrap_or_else(|error| panic!("the answer to {method} {path}: {error}"));
        Answer { status, headers, body }
    }
}

/// What came back.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of that name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| &**value)
    }

    /// Itself; panics unless the status is 200 to 299.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{self:?}");
        self
    }

    /// The body as text; panics unless the status is 200 to 299.
    #[track_caller]
    pub fn text(self) -> String {
        String::from_utf8(self.ok().body).expect("a body of UTF-8")
    }

    /// The body read as JSON; panics unless the status is 200 to 299.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(self) -> T {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}
