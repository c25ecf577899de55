//! What a command's exit code says.

use thiserror::Error;

use crate::serve::UnfitBucket;

/// Exit codes. A wrong command line is 2 by itself: clap's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    /// By rule, or because there is no such actor.
    Refused = 3,
    /// Asked for, and not carried out yet.
    Pending = 4,
}

/// What `wasmkeep --help` says of them.
pub const HELP: &str = "\
The log goes to standard error; WASMKEEP_LOG chooses what is in it (info, warn, debug, …).
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused or no such actor, 4 still pending.";

/// An error that ends the command with its own exit code.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct Ended {
    pub exit: Exit,
    pub message: String,
}

impl Ended {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }
}

/// Whoever reads what the command prints has seen enough: `wasmkeep actor list | head`.
pub fn nobody_reads(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The exit code for how a command ended.
pub fn of(error: &anyhow::Error) -> Exit {
    if error.is::<UnfitBucket>() {
        return Exit::Refused;
    }
    error.downcast_ref::<Ended>().map_or(Exit::Failed, |ended| ended.exit)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn an_error_keeps_its_code_with_context_around_it() {
        let ended: anyhow::Result<()> = Err(Ended::refused("no such actor").into());
        assert_eq!(of(&ended.context("show it").expect_err("an error")), Exit::Refused);
        assert_eq!(of(&anyhow::anyhow!("anything")), Exit::Failed);
        let codes = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Refused, Exit::Pending];
        assert_eq!(codes.map(|code| code as u8), [0, 1, 2, 3, 4]);
    }
}
