use crate::actors::{Answer, CallError};

const REASON: &str = "x-wasmkeep-reason";
const EVENT: &str = "x-wasmkeep-event";
/// How much of an answer's body goes into an error's text.
const SHOWN_BYTES: usize = 200;

/// An answer that the host made in the callee's place: its queue is full, the node has no room, its
/// code trapped. `docs/errors.md` lists the reasons.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host answered {status} in place of the called actor: {reason}")]
pub struct Refusal {
    /// 429 and 503 for what may pass, 4xx for what is wrong with the call, 500 for a fault.
    pub status: u16,
    /// One word: `queue-full`, `no-capacity`, `trapped`, …
    pub reason: String,
    /// Whether the callee's handler ran.
    pub ran: Ran,
}

impl Refusal {
    /// Whether the same call may succeed later, and does no harm: nothing ran, and what stood in
    /// its way may pass (429 or 503).
    pub fn may_be_retried(&self) -> bool {
        self.ran == Ran::No && matches!(self.status, 429 | 503)
    }
}

/// Whether an event ran whose answer the host made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ran {
    /// No code ran for it.
    No,
    /// It started; what it committed stays.
    Yes,
    /// The host cannot tell.
    Unknown,
}

/// Why another actor did not do what a call asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no answer.
    #[error(transparent)]
    NotAnswered(#[from] CallError),
    /// The host answered in the callee's place.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The callee answered with an error of its own.
    #[error("the called actor answered {status}: {message}")]
    Answered {
        /// 300 or more.
        status: u16,
        /// The text of `{"error": "…"}`, as an [`Error`](crate::Error) answers; else the start of
        /// the body.
        message: String,
    },
    /// The callee's answer is not what this kind of call is answered with; the text says how. Most
    /// likely it is another kind of actor.
    #[error("the called actor's answer does not fit: {0}")]
    Unreadable(String),
}

impl Failure {
    /// As [`Refusal::may_be_retried`]; false for all that is no refusal.
    pub fn may_be_retried(&self) -> bool {
        matches!(self, Failure::Refused(refusal) if refusal.may_be_retried())
    }
}

#[derive(serde::Deserialize)]
struct ErrorBody {
    error: String,
}

impl Answer {
    /// What the host said, if it made this answer in the callee's place. No guest can make one.
    pub fn refusal(&self) -> Option<Refusal> {
        let reason = self.header(REASON)?.to_owned();
        let ran = match self.header(EVENT) {
            Some("not-run") => Ran::No,
            Some("ran") => Ran::Yes,
            _ => Ran::Unknown,
        };
        Some(Refusal { status: self.status_code(), reason, ran })
    }

    /// This answer if its status is 2xx, else why not, for a caller that tells failures apart. To
    /// pass them on with `?`, [`ok`](Answer::ok) will do.
    ///
    /// ```no_run
    /// # use wasmkeep_sdk::{Response, Result, actors};
    /// # fn take() -> Result<Response> {
    /// match actors::call("stock/socks").post("/take").send()?.done() {
    ///     Ok(_) => Ok(Response::text("taken")),
    ///     Err(failure) if failure.may_be_retried() => {
    ///         Ok(Response::new(503).header("retry-after", "1"))
    ///     }
    ///     Err(failure) => Err(failure.into()),
    /// }
    /// # }
    /// ```
    pub fn done(self) -> Result<Answer, Failure> {
        let status = self.status_code();
        if (200..300).contains(&status) {
            return Ok(self);
        }
        if let Some(refusal) = self.refusal() {
            return Err(refusal.into());
        }
        let message = match serde_json::from_slice(self.bytes()) {
            Ok(ErrorBody { error }) => error,
            Err(_) => {
                let start = &self.bytes()[..self.bytes().len().min(SHOWN_BYTES)];
                String::from_utf8_lossy(start).into_owned()
            }
        };
        Err(Failure::Answered { status, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::wasmkeep::actor::actors::Response;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        let headers = headers.iter();
        let headers = headers.map(|&(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        Answer::from(Response { status, headers: headers.collect(), body: body.into() })
    }

    #[test]
    fn a_refusal_of_the_host_is_no_answer_of_the_callee() {
        let refused = |status, reason, event| {
            let headers = [(REASON, reason), (EVENT, event)];
            answer(status, &headers, r#"{"reason":"x"}"#).done().unwrap_err()
        };
        let table = [
            (429, "queue-full", "not-run", Ran::No, true),
            (503, "no-capacity", "not-run", Ran::No, true),
            (503, "unavailable", "unknown", Ran::Unknown, false),
            (500, "trapped", "ran", Ran::Yes, false),
            (403, "forbidden", "not-run", Ran::No, false),
        ];
        for (status, reason, event, ran, may_be_retried) in table {
            let failure = refused(status, reason, event);
            let reason = reason.to_owned();
            assert_eq!(failure, Failure::Refused(Refusal { status, reason, ran }));
            assert_eq!(failure.may_be_retried(), may_be_retried, "{failure:?}");
        }
        // The same statuses, of the callee's own.
        for status in [429, 503] {
            let failure = answer(status, &[], r#"{"error":"mine"}"#).done().unwrap_err();
            assert_eq!(failure, Failure::Answered { status, message: "mine".to_owned() });
            assert!(!failure.may_be_retried());
        }
    }

    #[test]
    fn what_is_2xx_is_done_and_an_error_has_its_text() {
        assert!(answer(204, &[], "").done().is_ok());
        let failure = answer(404, &[], "no such page").done().unwrap_err();
        assert_eq!(failure.to_string(), "the called actor answered 404: no such page");
        assert!(matches!(answer(302, &[], "").done(), Err(Failure::Answered { status: 302, .. })));
    }
}
