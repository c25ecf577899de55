use std::fmt;

use serde_json::Value as Json;

/// What came back for a request.
#[derive(Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// As a test that fails shows it: the end of a long body is left out.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        for (name, value) in &self.headers {
            write!(f, " [{name}: {}]", String::from_utf8_lossy(value))?;
        }
        let shown = &self.body[..self.body.len().min(400)];
        write!(f, " {} bytes: {}", self.body.len(), String::from_utf8_lossy(shown))
    }
}

impl Answer {
    /// The first header of that name, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(have, _)| have == name)?;
        std::str::from_utf8(value).ok()
    }

    pub fn headers(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(have, _)| have == name);
        named.filter_map(|(_, value)| std::str::from_utf8(value).ok()).collect()
    }

    /// The body as text; a 200 is required.
    #[track_caller]
    pub fn text(&self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        String::from_utf8(self.body.clone()).expect("a body of UTF-8")
    }

    /// Whether the body holds this text, whatever the status.
    pub fn says(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.body).contains(text)
    }

    /// The body as JSON; a 200 is required.
    #[track_caller]
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.text()).expect("a body of JSON")
    }

    /// Asserts that the host itself answered, and how: in the headers and in the body.
    #[track_caller]
    pub fn refused(&self, status: u16, reason: &str, event: &str) -> &Self {
        let shown = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{shown}");
        assert_eq!(self.header("x-wasmkeep-reason"), Some(reason), "{shown}");
        assert_eq!(self.header("x-wasmkeep-event"), Some(event), "{shown}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{shown}");
        if status == 503 {
            assert_eq!(self.header("retry-after"), Some("1"), "{shown}");
        }
        let body: Json = serde_json::from_slice(&self.body).expect("a refusal's body is JSON");
        assert_eq!(body["reason"], reason, "{shown}");
        assert_eq!(body["event"], event, "{shown}");
        assert!(body["message"].as_str().is_some_and(|text| text.len() > 5), "{shown}");
        self
    }
}
