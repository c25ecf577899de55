use std::fmt;

use crate::bindings::wasi::http::types::{Fields, HeaderError};

/// The header fields of a request or a response, in order. Names compare without regard to case.
///
/// ```
/// # use wasmkeep_sdk::Headers;
/// let mut headers = Headers::new();
/// headers.set("Content-Type", "text/csv");
/// headers.append("set-cookie", "a=1");
/// headers.append("set-cookie", "b=2");
/// assert_eq!(headers.get("content-type"), Some("text/csv"));
/// assert_eq!(headers.get_all("Set-Cookie").count(), 2);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    /// No fields at all.
    pub const fn new() -> Self {
        Headers(Vec::new())
    }

    /// The first value of a field, if it is there and is text.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.get_all(name).next()?;
        std::str::from_utf8(value).ok()
    }

    /// Every value of a field, as bytes: a header's value need not be UTF-8.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(move |(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Every field with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Sets a field, in place of all values it had.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        let name = name.into();
        self.remove(&name);
        self.0.push((name, value.into()));
    }

    /// Adds a field beside the values it has already, as `set-cookie` needs it.
    pub fn append(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.push((name.into(), value.into()));
    }

    /// Removes every value of a field.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(have, _)| !have.eq_ignore_ascii_case(name));
    }

    /// The fields as the host takes them, or which it does not take and why.
    pub(crate) fn to_host(&self) -> Result<Fields, String> {
        Fields::from_list(&self.0).map_err(|error| {
            let refused =
                |(name, value): &&(String, Vec<u8>)| Fields::new().append(name, value).is_err();
            let name = self.0.iter().find(refused).map_or("?", |(name, _)| name);
            let why = match error {
                HeaderError::InvalidSyntax => "its name or value is not valid",
                HeaderError::Forbidden => "it is the host's to set",
                HeaderError::Immutable => "the headers cannot be changed",
            };
            format!("header {name:?}: {why}")
        })
    }

    pub(crate) fn into_fields(self) -> Vec<(String, Vec<u8>)> {
        self.0
    }
}

impl From<Vec<(String, Vec<u8>)>> for Headers {
    fn from(fields: Vec<(String, Vec<u8>)>) -> Self {
        Headers(fields)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |(name, value)| (name, String::from_utf8_lossy(value).into_owned());
        f.debug_map().entries(self.iter().map(text)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_replaces_and_append_adds() {
        let mut headers = Headers::new();
        headers.append("X-A", "1");
        headers.append("x-a", "2");
        assert_eq!(headers.get_all("x-A").count(), 2);
        headers.set("x-a", "3");
        assert_eq!(headers.get_all("x-a").collect::<Vec<_>>(), [b"3"]);
    }

    #[test]
    fn a_value_that_is_no_text_is_not_got_as_text() {
        let headers = Headers::from(vec![("x-raw".to_owned(), vec![0xff])]);
        assert_eq!(headers.get("x-raw"), None);
        assert_eq!(headers.get_all("X-Raw").collect::<Vec<_>>(), [[0xff]]);
    }
}
