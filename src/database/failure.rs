//! What a failure of SQLite means: the guest's mistake, a limit, a refusal, or a database that
//! must not be used any more.

use rusqlite::{ErrorCode, ffi};
use wasmkeep_supervisors::ports::{ConstraintKind, SqlError, StorageFault};

use super::budget::{Limit, mib};
use super::connection::LocalDatabase;
use super::prepared::Failure;

/// Less free space than this after a failed write means that the disk is full, not the database.
const DISK_FULL_BYTES: u64 = 1024 * 1024;

impl LocalDatabase {
    /// The error for the guest; a failure of the files also makes the database unusable.
    pub(super) fn sql_error(&mut self, failure: Failure, out_of_memory: bool) -> SqlError {
        if let Some(why) = self.hooks.gate.take_refusal() {
            return SqlError::NotAllowed(why);
        }
        let budget = &self.hooks.budget;
        let unusable = match failure.code & 0xff {
            ffi::SQLITE_NOMEM | ffi::SQLITE_IOERR if out_of_memory => {
                return budget.exceeded(Limit::Memory);
            }
            ffi::SQLITE_INTERRUPT => match budget.stopped_by() {
                Some(limit) => return budget.exceeded(limit),
                None => true,
            },
            ffi::SQLITE_CONSTRAINT => {
                let kind = constraint_kind(failure.code);
                return SqlError::Constraint { kind, message: failure.message };
            }
            ffi::SQLITE_TOOBIG => {
                return SqlError::QuotaExceeded(format!(
                    "{}: a value or a row is limited to 16 MiB",
                    failure.message
                ));
            }
            ffi::SQLITE_FULL if !self.disk_is_full() => {
                return SqlError::QuotaExceeded(format!(
                    "the database has reached {}; deletes still work",
                    mib(self.config.bytes_max as u64)
                ));
            }
            ffi::SQLITE_AUTH => return SqlError::NotAllowed(failure.message),
            // A full-text index that disagrees with its content, or the guest's own change to
            // sqlite_sequence: nothing is wrong with the file.
            ffi::SQLITE_CORRUPT => {
                !matches!(failure.code, ffi::SQLITE_CORRUPT_VTAB | ffi::SQLITE_CORRUPT_SEQUENCE)
            }
            ffi::SQLITE_FULL
            | ffi::SQLITE_IOERR
            | ffi::SQLITE_NOTADB
            | ffi::SQLITE_CANTOPEN
            | ffi::SQLITE_READONLY
            | ffi::SQLITE_PERM
            | ffi::SQLITE_PROTOCOL
            | ffi::SQLITE_NOMEM
            | ffi::SQLITE_MISUSE
            | ffi::SQLITE_INTERNAL => true,
            _ => false,
        };
        if unusable {
            let fault = self.fault("run a statement on", failure.message);
            return SqlError::Internal(self.give_up(fault).to_string());
        }
        SqlError::Invalid(failure.message)
    }

    /// SQLite gives one code for both. A wrong guess is harmless: the statement was undone.
    fn disk_is_full(&self) -> bool {
        let Some(directory) = self.path.parent() else { return false };
        rustix::fs::statvfs(directory)
            .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < DISK_FULL_BYTES)
    }

    pub(super) fn fault(&self, operation: &'static str, cause: impl ToString) -> StorageFault {
        StorageFault { operation, path: self.path.display().to_string(), cause: cause.to_string() }
    }

    /// Makes the database unusable; the first fault is the one that is told.
    pub(super) fn give_up(&mut self, fault: StorageFault) -> StorageFault {
        self.given_up.get_or_insert(fault).clone()
    }

    pub(super) fn usable(&self) -> Result<(), StorageFault> {
        self.given_up.clone().map_or(Ok(()), Err)
    }
}

fn constraint_kind(code: i32) -> ConstraintKind {
    match code {
        ffi::SQLITE_CONSTRAINT_UNIQUE => ConstraintKind::Unique,
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
            ConstraintKind::PrimaryKey
        }
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ConstraintKind::ForeignKey,
        ffi::SQLITE_CONSTRAINT_NOTNULL => ConstraintKind::NotNull,
        ffi::SQLITE_CONSTRAINT_CHECK => ConstraintKind::Check,
        _ => ConstraintKind::Other,
    }
}

/// Whether the same may work once there is room.
pub(super) fn is_disk_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Whether a file could not be made: where temporary ones go may be closed to this process.
pub(super) fn is_unopenable(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Whether the bytes of the file are at fault, so that opening it again will not help.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}
