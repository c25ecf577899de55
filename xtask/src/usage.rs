//! A task called with arguments it does not take.

use std::fmt;

use anyhow::Result;

/// Ends the run with exit code 2 and the task's usage line.
#[derive(Debug)]
pub struct UsageError(String);

impl UsageError {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// For tasks without arguments.
pub fn expect_no_arguments(arguments: &[String]) -> Result<()> {
    match arguments.first() {
        None => Ok(()),
        Some(first) => Err(UsageError::new(format!("unexpected argument `{first}`")).into()),
    }
}
