use crate::bindings::wasi::http::types::Scheme;

/// A URL in the parts a request is made of; what they may hold is the host's to judge.
#[derive(Debug)]
pub(super) struct Url {
    pub(super) scheme: Scheme,
    pub(super) authority: String,
    pub(super) path_and_query: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!("{text:?} is no URL: http://… or https://…"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(format!("{scheme:?} is no scheme of a request: http or https is")),
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.is_empty() {
            return Err(format!("{text:?} names no host"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path_and_query = format!("{slash}{path}");
        Ok(Url { scheme, authority: authority.to_owned(), path_and_query })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let table = [
            ("https://a.example", "a.example", "/"),
            ("HTTPS://a.example?x=1", "a.example", "/?x=1"),
            ("https://a.example:8443/b/c?d=/e#f", "a.example:8443", "/b/c?d=/e"),
            ("https://[2001:db8::1]/#/x", "[2001:db8::1]", "/"),
            ("https://user@a.example/@b", "user@a.example", "/@b"),
        ];
        for (text, authority, path) in table {
            let url = Url::parse(text).expect(text);
            assert!(matches!(url.scheme, Scheme::Https), "{text}");
            assert_eq!((&*url.authority, &*url.path_and_query), (authority, path), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_with_what_to_write() {
        for text in ["", "a.example/b", "/b", "ftp://a.example", "https://", "https:///b"] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
