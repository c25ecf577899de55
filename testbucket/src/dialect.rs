use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a store understands conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// As AWS: 412 for a condition that does not hold, 404 for `If-Match` without an object.
    Aws,
    /// As Ceph: an ETag in quotes never matches, the loser of a race may get 500, and DELETE heeds no
    /// condition.
    Ceph,
    /// Broken: `If-None-Match` is ignored.
    IgnoresAbsent,
    /// Broken: `If-Match` is ignored.
    IgnoresMatch,
    /// Broken: `If-Match` writes where there is no object.
    WritesWhenMissing,
    /// Broken: ETags are weak, and match whatever their strength.
    WeakEtags,
    /// Broken: conditions are an error.
    NoConditions,
    /// Broken: an ETag that is not the object's own is refused, and the own one too.
    NeverMatches,
}

impl Dialect {
    pub const ALL: [Dialect; 8] = [
        Dialect::Aws,
        Dialect::Ceph,
        Dialect::IgnoresAbsent,
        Dialect::IgnoresMatch,
        Dialect::WritesWhenMissing,
        Dialect::WeakEtags,
        Dialect::NoConditions,
        Dialect::NeverMatches,
    ];

    /// Those a cluster can rely on.
    pub const HONEST: [Dialect; 2] = [Dialect::Aws, Dialect::Ceph];

    pub const fn as_str(self) -> &'static str {
        match self {
            Dialect::Aws => "aws",
            Dialect::Ceph => "ceph",
            Dialect::IgnoresAbsent => "ignores-absent",
            Dialect::IgnoresMatch => "ignores-match",
            Dialect::WritesWhenMissing => "writes-when-missing",
            Dialect::WeakEtags => "weak-etags",
            Dialect::NoConditions => "no-conditions",
            Dialect::NeverMatches => "never-matches",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.as_str() == text);
        found.ok_or_else(|| {
            format!("{text:?} is none of {}", Self::ALL.map(Self::as_str).join(", "))
        })
    }
}
