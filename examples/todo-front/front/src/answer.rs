//! What the actors answer, as the front uses it.

use serde::Deserialize;
use wasmkeep_sdk::actors::{Answer, CallError};
use wasmkeep_sdk::{Error, Result};

/// An actor's answer. What it tells a person becomes an error that tells it; all else is the
/// server's affair.
pub fn of(answer: Result<Answer, CallError>) -> Result<Answer> {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }
    let answer = answer.map_err(|error| match error {
        CallError::Failed(_) | CallError::Timeout => unavailable(),
        error => Error::internal(error),
    })?;
    match answer.status_code() {
        status @ (403 | 409 | 422) => Err(Error::status(status, answer.json::<Refused>()?.error)),
        429 | 503 => Err(unavailable()),
        _ => answer.ok(),
    }
}

fn unavailable() -> Error {
    Error::status(503, "This is not available now. Try again in a moment.")
}
