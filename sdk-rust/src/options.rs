//! What a request to a ready-made class says beside its body: a query parameter, or of a call also a
//! header.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::alarms::to_ms;
use crate::{Error, Request, Response, Result};

/// Refuses a parameter nobody reads: a misspelt one would be an option that is silently not taken.
pub(crate) fn only(request: &Request, names: &[&str]) -> Result<()> {
    match request.query_pairs().find(|(name, _)| !names.contains(name)) {
        None => Ok(()),
        Some((unknown, _)) if names.is_empty() => {
            Err(Error::bad_request(format!("no query parameter {unknown:?}: this takes none")))
        }
        Some((unknown, _)) => {
            let names = names.join(", ");
            Err(Error::bad_request(format!("no query parameter {unknown:?}: this takes {names}")))
        }
    }
}

/// The text of a parameter, or of the header that says the same. One of them, once.
pub(crate) fn text<'a>(request: &Request<'a>, name: &str, header: &str) -> Result<Option<&'a str>> {
    let given = request.query_pairs().filter(|(have, _)| *have == name).count()
        + request.headers().get_all(header).count();
    if given > 1 {
        return Err(Error::bad_request(format!("`{name}` is given {given} times")));
    }
    match (request.query(name), request.headers().get_all(header).next()) {
        (Some(value), _) => Ok(Some(value)),
        (None, Some(_)) => request
            .header(header)
            .map(Some)
            .ok_or_else(|| Error::bad_request(format!("header `{header}`: the value is no text"))),
        (None, None) => Ok(None),
    }
}

/// A parameter that is a number of this range.
pub(crate) fn number<T>(
    request: &Request,
    (name, header): (&str, &str),
    range: RangeInclusive<T>,
) -> Result<Option<T>>
where
    T: FromStr + PartialOrd + Display,
{
    let Some(value) = text(request, name, header)? else {
        return Ok(None);
    };
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => {
            let (from, to) = (range.start(), range.end());
            let wrong = format!("`{name}`: {value:?} is no number from {from} to {to}");
            Err(Error::bad_request(wrong))
        }
    }
}

/// The whole body. One that is longer is not read to its end.
pub(crate) fn body(request: &mut Request, what: &str, bytes_max: usize) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(piece) = request.body().chunk()? {
        if all.len() + piece.len() > bytes_max {
            return Err(Error::status(413, format!("{what} has at most {bytes_max} bytes")));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// 405 with what is allowed.
pub(crate) fn not_allowed(allow: &str) -> Response {
    Response::from(Error::status(405, format!("only {allow}"))).header("allow", allow)
}

pub(crate) fn now_ms() -> i64 {
    i64::try_from(to_ms(SystemTime::now())).unwrap_or(i64::MAX)
}

/// As a header or a parameter of a client has it. What is finer than a millisecond is rounded up:
/// a time of its own is never none.
pub(crate) fn in_ms(duration: Duration) -> String {
    duration.as_nanos().div_ceil(1_000_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_never_shortened() {
        assert_eq!(in_ms(Duration::ZERO), "0");
        assert_eq!(in_ms(Duration::from_nanos(1)), "1");
        assert_eq!(in_ms(Duration::from_millis(1500)), "1500");
        assert_eq!(in_ms(Duration::from_micros(1501)), "2");
    }
}
