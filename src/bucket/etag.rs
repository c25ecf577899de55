//! ETags and dates in headers.

use std::time::UNIX_EPOCH;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wasmkeep_supervisors::ports::{BucketTime, Doubt, ETag};

/// How a store wants an ETag in `If-Match`. RFC 9110 has quotes; Ceph compares them as a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ETagForm {
    Quoted,
    Unquoted,
}

impl ETagForm {
    pub fn write(self, etag: &ETag) -> String {
        match self {
            ETagForm::Quoted => format!("\"{etag}\""),
            ETagForm::Unquoted => etag.to_string(),
        }
    }
}

/// An ETag as a header or a listing has it. A weak one may stay the same over a change, so no write
/// may depend on it.
pub fn read_etag(text: Option<&str>) -> Result<ETag, Doubt> {
    let text = text.ok_or(Doubt::Version("no ETag"))?;
    if text.starts_with("W/") {
        return Err(Doubt::Version("a weak ETag"));
    }
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    ETag::new(bare).ok_or(Doubt::Version("an ETag that cannot be sent back"))
}

/// A `Date` or `Last-Modified`.
pub fn read_http_date(text: &str) -> Option<BucketTime> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(BucketTime)
}

/// A `LastModified` of a listing.
pub fn read_timestamp(text: &str) -> Option<BucketTime> {
    let ms = OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp_nanos() / 1_000_000;
    u64::try_from(ms).ok().map(BucketTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_not_a_part_of_a_version() {
        let etag = read_etag(Some("\"abc-1\"")).expect("an ETag");
        assert_eq!(read_etag(Some("abc-1")), Ok(etag.clone()));
        assert_eq!(ETagForm::Quoted.write(&etag), "\"abc-1\"");
        assert_eq!(ETagForm::Unquoted.write(&etag), "abc-1");
    }

    #[test]
    fn what_is_no_version_is_said() {
        for (text, what) in [
            (None, "no ETag"),
            (Some("W/\"abc\""), "a weak ETag"),
            (Some("\"\""), "an ETag that cannot be sent back"),
            (Some("\"a\"b\""), "an ETag that cannot be sent back"),
            (Some("\"a b\""), "an ETag that cannot be sent back"),
        ] {
            assert_eq!(read_etag(text), Err(Doubt::Version(what)), "{text:?}");
        }
    }

    #[test]
    fn dates_of_headers_and_listings_are_one_clock() {
        let time = Some(BucketTime(784_111_777_000));
        assert_eq!(read_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), time);
        assert_eq!(read_timestamp("1994-11-06T08:49:37.000Z"), time);
        assert_eq!(read_timestamp("1994-11-06T08:49:37Z"), time);
        assert_eq!(read_timestamp("1994-11-06T08:49:37.250Z"), Some(BucketTime(784_111_777_250)));
        for wrong in ["", "yesterday", "1969-12-31T23:59:59Z"] {
            assert_eq!(read_http_date(wrong), None, "{wrong}");
            assert_eq!(read_timestamp(wrong), None, "{wrong}");
        }
    }
}
