//! A request's path and query, taken apart.

use std::borrow::Cow;

/// The path of `/items?limit=20` is `/items`.
pub(crate) fn path(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// The decoded segments of a path. Empty ones are left out, so `/items/` is `/items`.
pub(crate) fn segments(path: &str) -> Vec<Cow<'_, str>> {
    path.split('/').filter(|segment| !segment.is_empty()).map(percent_decode).collect()
}

/// The decoded names and values of the query, in order.
pub(crate) fn query_pairs(target: &str) -> Vec<(String, String)> {
    pairs(target.split_once('?').map_or("", |(_, query)| query))
}

/// The decoded names and values of a query or of a form, in order.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form_decode(name), form_decode(value))
        })
        .collect()
}

fn form_decode(text: &str) -> String {
    if text.contains('+') {
        percent_decode(&text.replace('+', " ")).into_owned()
    } else {
        percent_decode(text).into_owned()
    }
}

/// Decodes `%20` and the like. A `%` that starts no escape stays as it is; bytes that are no
/// UTF-8 become U+FFFD.
pub(crate) fn percent_decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(match String::from_utf8(decoded_bytes(text)) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// As [`percent_decode`], for what must not become something else: none when it is no UTF-8.
pub(crate) fn text_of(text: &str) -> Option<String> {
    String::from_utf8(decoded_bytes(text)).ok()
}

fn decoded_bytes(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if is_escape(*high, *low) => {
                decoded.push(hex_digit(*high) << 4 | hex_digit(*low));
                rest = after;
            }
            _ => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    decoded
}

/// Unreserved characters as they are, every other byte as `%XX`: one segment of a path, or one value
/// of a query.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn is_escape(high: u8, low: u8) -> bool {
    high.is_ascii_hexdigit() && low.is_ascii_hexdigit()
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_ends_where_the_query_starts() {
        assert_eq!(path("/items?limit=20"), "/items");
        assert_eq!(path("/items"), "/items");
        assert_eq!(path("/?a=b?c"), "/");
        assert_eq!(path(""), "");
    }

    #[test]
    fn segments_are_decoded_after_the_split() {
        assert_eq!(segments("/items/a%2Fb/c%20d"), ["items", "a/b", "c d"]);
    }

    #[test]
    fn empty_segments_do_not_count() {
        assert!(segments("/").is_empty());
        assert!(segments("").is_empty());
        assert_eq!(segments("//items//7/"), ["items", "7"]);
    }

    #[test]
    fn a_plus_is_a_space_in_the_query_only() {
        assert_eq!(segments("/a+b"), ["a+b"]);
        assert_eq!(query_pairs("/?q=a+b%2Bc"), [("q".to_owned(), "a b+c".to_owned())]);
    }

    #[test]
    fn query_pairs_keep_order_and_repetition() {
        let pairs = query_pairs("/?tag=a&flag&tag=b=c&=x&&%6E=1");
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(pairs, [("tag", "a"), ("flag", ""), ("tag", "b=c"), ("", "x"), ("n", "1")]);
        assert!(query_pairs("/no/query").is_empty());
        assert!(query_pairs("/?").is_empty());
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(percent_decode("100%"), "100%");
        assert_eq!(percent_decode("%zz%4"), "%zz%4");
        assert_eq!(percent_decode("%%41"), "%A");
        assert_eq!(percent_decode("%+1"), "%+1");
    }

    #[test]
    fn what_is_encoded_is_decoded_to_the_same() {
        assert_eq!(percent_encode("a-z_0.~"), "a-z_0.~");
        assert_eq!(percent_encode("café/ &%"), "caf%C3%A9%2F%20%26%25");
        for text in ["", "a b", "%41", "日本/?#", "\r\n"] {
            assert_eq!(percent_decode(&percent_encode(text)), text);
        }
    }

    #[test]
    fn escapes_make_utf8_or_the_replacement_character() {
        assert_eq!(percent_decode("caf%C3%A9"), "café");
        assert_eq!(percent_decode("caf%c3%a9"), "café");
        assert_eq!(percent_decode("%FFx"), "\u{FFFD}x");
        assert_eq!(text_of("%FFx"), None);
        assert_eq!(text_of("a%2fb%"), Some("a/b%".to_owned()));
    }
}
