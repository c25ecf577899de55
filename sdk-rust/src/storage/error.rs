use std::fmt;

use crate::bindings::wasmkeep::actor::storage as host;

/// Why a storage call failed. Each case says what can be done about it.
///
/// With `?` it becomes an [`Error`](crate::Error): a constraint answers 409, a quota 507, all else
/// 500.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// The statement is wrong as written (syntax, an unknown table or column, the number of
    /// parameters): mend the code. Nothing was changed.
    #[error("invalid SQL: {0}")]
    Invalid(String),
    /// The data broke a constraint: often the user's mistake. Nothing was changed.
    #[error("{message}")]
    Constraint {
        /// Which kind of constraint.
        kind: ConstraintKind,
        /// SQLite's words, which name table and column: `UNIQUE constraint failed: users.email`.
        message: String,
    },
    /// A limit named in the text was reached. The statement changed nothing.
    #[error("limit reached: {0}")]
    QuotaExceeded(String),
    /// The host does not allow this statement, here or at all; the text says which. It did not run.
    #[error("not allowed: {0}")]
    NotAllowed(String),
    /// The disk or the bucket failed. Whether the write is durable is unknown; every later storage
    /// call of this event fails too.
    #[error("storage failed: {0}")]
    Internal(String),
    /// A row does not fit the type it was read into: mend the code. The statement itself has run.
    #[error("{0}")]
    Mismatch(String),
}

/// Which kind of constraint a write ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConstraintKind {
    /// `UNIQUE`
    Unique,
    /// `PRIMARY KEY`
    PrimaryKey,
    /// `FOREIGN KEY`
    ForeignKey,
    /// `NOT NULL`
    NotNull,
    /// `CHECK`
    Check,
    /// Any other.
    Other,
}

impl ConstraintKind {
    /// The kind in lower case: `unique`, `primary-key` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            ConstraintKind::Unique => "unique",
            ConstraintKind::PrimaryKey => "primary-key",
            ConstraintKind::ForeignKey => "foreign-key",
            ConstraintKind::NotNull => "not-null",
            ConstraintKind::Check => "check",
            ConstraintKind::Other => "other",
        }
    }
}

impl fmt::Display for ConstraintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<host::SqlError> for SqlError {
    fn from(error: host::SqlError) -> Self {
        match error {
            host::SqlError::Invalid(how) => SqlError::Invalid(how),
            host::SqlError::Constraint(violation) => {
                SqlError::Constraint { kind: violation.kind.into(), message: violation.message }
            }
            host::SqlError::QuotaExceeded(limit) => SqlError::QuotaExceeded(limit),
            host::SqlError::NotAllowed(what) => SqlError::NotAllowed(what),
            host::SqlError::Internal(how) => SqlError::Internal(how),
        }
    }
}

impl From<host::ConstraintKind> for ConstraintKind {
    fn from(kind: host::ConstraintKind) -> Self {
        match kind {
            host::ConstraintKind::Unique => ConstraintKind::Unique,
            host::ConstraintKind::PrimaryKey => ConstraintKind::PrimaryKey,
            host::ConstraintKind::ForeignKey => ConstraintKind::ForeignKey,
            host::ConstraintKind::NotNull => ConstraintKind::NotNull,
            host::ConstraintKind::Check => ConstraintKind::Check,
            host::ConstraintKind::Other => ConstraintKind::Other,
        }
    }
}
