//! What the outcome of one operation means for a write under a condition. It decides and awaits
//! nothing; it is no `rules.rs` only because what it decides on are the port's own words.

use std::time::Duration;

use crate::limits::{BUCKET_BACKOFF_FIRST, BUCKET_BACKOFF_LONGEST};
use crate::ports::{Cond, Denial, Doubt, ETag, GetError, Object, PutError, Written};

/// What the object was when the write was decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Absent,
    Version(ETag),
}

impl From<Expected> for Cond {
    fn from(expected: Expected) -> Self {
        match expected {
            Expected::Absent => Cond::Absent,
            Expected::Version(etag) => Cond::Match(etag),
        }
    }
}

/// What an attempt's answer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterPut {
    Landed(Written),
    Denied(Denial),
    /// A refusal too: the object may be our own earlier attempt.
    ReadBack(Option<Doubt>),
}

pub fn after_put(answer: Result<Written, PutError>) -> AfterPut {
    match answer {
        Ok(written) => AfterPut::Landed(written),
        Err(PutError::Denied(denial)) => AfterPut::Denied(denial),
        Err(PutError::Mismatch | PutError::Missing) => AfterPut::ReadBack(None),
        Err(PutError::Unknown(doubt)) => AfterPut::ReadBack(Some(doubt)),
    }
}

/// What the object read back says of the attempts before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterRead {
    Landed(Written),
    /// Another write came first; this is what it wrote, none when the object is gone.
    Lost(Option<Object>),
    /// All is as it was: the same bytes may be sent again.
    SendAgain,
    ReadAgain(Doubt),
    Denied(Denial),
}

pub fn after_read(expected: &Expected, body: &[u8], answer: Result<Object, GetError>) -> AfterRead {
    match (answer, expected) {
        (Ok(object), _) if object.body == body => {
            // When it landed, not when it was read: the later time would prove less.
            AfterRead::Landed(Written { etag: object.etag, date: object.modified })
        }
        (Ok(object), Expected::Version(etag)) if object.etag == *etag => AfterRead::SendAgain,
        (Ok(object), _) => AfterRead::Lost(Some(object)),
        (Err(GetError::Missing), Expected::Absent) => AfterRead::SendAgain,
        (Err(GetError::Missing), Expected::Version(_)) => AfterRead::Lost(None),
        (Err(GetError::Denied(denial)), _) => AfterRead::Denied(denial),
        (Err(GetError::Unknown(doubt)), _) => AfterRead::ReadAgain(doubt),
    }
}

/// How long to wait before the attempt after `failed` ones: any time up to a bound that doubles.
/// `random` is uniform. Many nodes that failed together then do not come back together.
pub fn backoff(failed: u32, random: u64) -> Duration {
    let doubled = 1u32.checked_shl(failed.min(31)).unwrap_or(u32::MAX);
    let most = BUCKET_BACKOFF_FIRST.saturating_mul(doubled).min(BUCKET_BACKOFF_LONGEST);
    let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random % (micros + 1))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ports::BucketTime;

    fn etag(text: &str) -> ETag {
        ETag::new(text).expect("a version")
    }

    fn object(body: &'static str, version: &str) -> Object {
        let (modified, date) = (Some(BucketTime(1000)), Some(BucketTime(9000)));
        Object { body: Bytes::from_static(body.as_bytes()), etag: etag(version), modified, date }
    }

    #[test]
    fn only_what_was_read_decides_about_an_attempt_in_doubt() {
        let doubt = || Doubt::Answered { status: 409, code: "ConditionalRequestConflict".into() };
        for refused in [PutError::Mismatch, PutError::Missing] {
            assert_eq!(after_put(Err(refused)), AfterPut::ReadBack(None));
        }
        let unknown = PutError::Unknown(doubt());
        assert_eq!(after_put(Err(unknown)), AfterPut::ReadBack(Some(doubt())));
    }

    #[test]
    fn what_a_read_says() {
        let (absent, version) = (Expected::Absent, Expected::Version(etag("old")));
        let landed = Written { etag: etag("new"), date: Some(BucketTime(1000)) };
        let lost = |body, version| AfterRead::Lost(Some(object(body, version)));
        for (expected, read, means) in [
            (&absent, Ok(object("mine", "new")), AfterRead::Landed(landed.clone())),
            (&version, Ok(object("mine", "new")), AfterRead::Landed(landed)),
            (&absent, Ok(object("other", "new")), lost("other", "new")),
            (&version, Ok(object("other", "new")), lost("other", "new")),
            (&version, Ok(object("before", "old")), AfterRead::SendAgain),
            (&absent, Err(GetError::Missing), AfterRead::SendAgain),
            (&version, Err(GetError::Missing), AfterRead::Lost(None)),
        ] {
            assert_eq!(after_read(expected, b"mine", read), means);
        }
    }

    #[test]
    fn waits_double_to_a_second_and_are_spread_from_nothing() {
        let most = |failed| backoff(failed, u64::MAX - (u64::MAX % 1_000_001));
        for failed in [0, 1, 2, 4, 5, 31, 32, u32::MAX] {
            let bound = Duration::from_millis(50 << failed.min(5)).min(Duration::from_secs(1));
            let micros = bound.as_micros() as u64;
            assert_eq!(backoff(failed, micros), bound, "{failed}");
            assert_eq!(backoff(failed, micros + 1), Duration::ZERO, "{failed}");
            assert!(most(failed) <= bound);
        }
    }
}
