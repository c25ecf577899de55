//! What a key is, whether it is there, and what may be changed.

use std::ops::Range;

pub(super) const KEY_BYTES_MAX: usize = 512;

/// What a change expects of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    Anything,
    Absent,
    Version(i64),
}

impl Expect {
    pub(super) fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(Expect::Anything),
            Some(super::ABSENT) => Some(Expect::Absent),
            Some(version) => {
                version.parse().ok().filter(|version| *version > 0).map(Expect::Version)
            }
        }
    }

    /// Whether a key that has this version, or is not there, is as expected.
    pub(super) fn is_met_by(self, version: Option<i64>) -> bool {
        match self {
            Expect::Anything => true,
            Expect::Absent => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
        }
    }
}

/// The version of an entry that is in the table, if it is still there at this time.
pub(super) fn version_at(entry: Option<(i64, Option<i64>)>, now: i64) -> Option<i64> {
    let (version, expires) = entry?;
    expires.is_none_or(|expires| now < expires).then_some(version)
}

/// The keys, as bytes, that begin with `prefix` and come after `after`.
pub(super) fn keys_after(prefix: &str, after: Option<&str>) -> Range<Vec<u8>> {
    let from = prefix.as_bytes().to_vec();
    // The least key above `after` is `after` and a zero.
    let from = from.max(after.map_or_else(Vec::new, |after| [after.as_bytes(), &[0]].concat()));
    let mut to = prefix.as_bytes().to_vec();
    match to.last_mut() {
        // No text ends with 0xff.
        Some(last) => *last += 1,
        None => to.push(0xff),
    }
    from..to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_only_to_what_was_expected() {
        use Expect::{Absent, Anything, Version};
        let table = [
            (Anything, None, true),
            (Anything, Some(7), true),
            (Absent, None, true),
            (Absent, Some(7), false),
            (Version(7), Some(7), true),
            (Version(7), Some(8), false),
            (Version(7), None, false),
        ];
        for (expect, version, met) in table {
            assert_eq!(expect.is_met_by(version), met, "{expect:?} of {version:?}");
        }
    }

    #[test]
    fn what_is_expected_is_a_version_or_absence() {
        assert_eq!(Expect::parse(None), Some(Expect::Anything));
        assert_eq!(Expect::parse(Some("absent")), Some(Expect::Absent));
        assert_eq!(Expect::parse(Some("12")), Some(Expect::Version(12)));
        for wrong in ["", "0", "-1", "12a", "\"12\"", "Absent", "99999999999999999999"] {
            assert_eq!(Expect::parse(Some(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_is_there_until_its_time_has_come() {
        assert_eq!(version_at(Some((7, None)), i64::MAX), Some(7));
        assert_eq!(version_at(Some((7, Some(1000))), 999), Some(7));
        assert_eq!(version_at(Some((7, Some(1000))), 1000), None);
        assert_eq!(version_at(None, 0), None);
    }

    #[test]
    fn a_page_holds_the_keys_of_its_prefix_after_its_cursor() {
        let mut keys =
            ["a", "a\0", "a/", "a/1", "a/1\0", "a/\u{10ffff}", "a0", "b", "é", "éa", "ê"];
        keys.sort();
        for prefix in ["", "a", "a/", "é", "zz", "a/\u{10ffff}"] {
            for after in [None, Some(""), Some("a"), Some("a/"), Some("a/1"), Some("b"), Some("zz")]
            {
                let range = keys_after(prefix, after);
                let listed: Vec<_> =
                    keys.iter().filter(|key| range.contains(&key.as_bytes().to_vec())).collect();
                let expected: Vec<_> = keys
                    .iter()
                    .filter(|key| key.starts_with(prefix) && after.is_none_or(|at| **key > at))
                    .collect();
                assert_eq!(listed, expected, "{prefix:?} after {after:?}");
            }
        }
    }
}
