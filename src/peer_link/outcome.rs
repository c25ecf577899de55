//! How an exchange with a peer ended, for its sender and for the metrics.

use wasmkeep_supervisors::event::Refusal;
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::ports::{NotReached, RelayError};
use wasmkeep_supervisors::relay::{Answer, HopRefused};

/// Why there is no response.
pub enum Unanswered {
    /// Nothing of the request can have reached the peer.
    NotSent(NotReached),
    Lost,
}

/// Counts the exchange of an event once. Dropped before its end, its client has left.
pub struct Outcome<'a>(Option<&'a Metrics>);

impl<'a> Outcome<'a> {
    pub fn of(metrics: &'a Metrics) -> Self {
        Self(Some(metrics))
    }

    pub fn answered(self) {
        self.count("answered");
    }

    pub fn refused<A, T>(self, refusal: Refusal) -> Result<A, RelayError<T>> {
        self.count("refused");
        Err(RelayError::Refused(refusal))
    }

    pub fn not_reached<A, T>(self, returned: T, cause: NotReached) -> Result<A, RelayError<T>> {
        self.count("not-reached");
        Err(RelayError::NotReached { returned, cause })
    }

    pub fn lost<A, T>(self) -> Result<A, RelayError<T>> {
        self.count("lost");
        Err(RelayError::Lost)
    }

    /// `back` gives the event back unless its body may have been read; then it may also have run.
    pub fn unanswered<A, T>(
        self,
        why: Unanswered,
        back: impl FnOnce() -> Option<T>,
    ) -> Result<A, RelayError<T>> {
        match why {
            Unanswered::NotSent(cause) => match back() {
                Some(returned) => self.not_reached(returned, cause),
                None => self.lost(),
            },
            Unanswered::Lost => self.lost(),
        }
    }

    /// What a peer says in the actor's place. Without a word of a node's, its HTTP refused the
    /// request before any node saw it.
    pub fn said<A, T>(
        self,
        said: Option<Answer>,
        back: impl FnOnce() -> Option<T>,
    ) -> Result<A, RelayError<T>> {
        let cause = match said {
            Some(Answer::Refused(refusal)) => return self.refused(refusal),
            Some(Answer::Reply { .. }) => return self.lost(),
            Some(Answer::Elsewhere(holder)) => {
                let Some(returned) = back() else { return self.lost() };
                self.count("elsewhere");
                return Err(RelayError::Elsewhere { returned, holder });
            }
            Some(Answer::NotTaken(HopRefused::Stranger)) => NotReached::Stranger,
            Some(Answer::NotTaken(HopRefused::NotUnderstood)) | None => NotReached::NotUnderstood,
        };
        self.unanswered(Unanswered::NotSent(cause), back)
    }

    fn count(mut self, word: &str) {
        if let Some(metrics) = self.0.take() {
            metrics.relayed(word);
        }
    }
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.0.take() {
            metrics.relayed("left");
        }
    }
}
