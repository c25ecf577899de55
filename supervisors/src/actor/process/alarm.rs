//! The event of an actor's alarm.

use tokio::time::Instant;

use super::{ActorProcess, State, failed, refusal};
use crate::actor::scope::{Attempt, EndOfEvent};
use crate::event::{Caller, Reason, Refusal, Reply, ReplyTo};
use crate::ports::{GuestCall, StorageFault};
use crate::tap::Outcome;

impl ActorProcess {
    /// Runs `on-alarm`, if the database says that the alarm is due. Answers with an error only when
    /// what is pending now could not be written: whoever asked then has to ask again.
    pub(super) async fn run_alarm(
        &self,
        reply: &mut ReplyTo,
        state: &mut State,
        deadline: Instant,
    ) -> (Outcome, Option<u32>) {
        state.scope.begin_event(&Caller::Outside, deadline);
        let (attempt, outcome) = match self.attempt_alarm(state, deadline).await {
            Ok(Some((attempt, Ok(())))) => (Some(attempt), Outcome::Answered),
            Ok(Some((attempt, Err(refusal)))) => (Some(attempt), failed(state, &refusal)),
            Ok(None) => (None, Outcome::Skipped),
            Err(fault) => {
                tracing::error!(actor = %state.shared.address, error = %fault, "alarm not read");
                state.scope.give_up();
                (None, Outcome::Failed(Reason::DatabaseUnusable))
            }
        };
        let number = attempt.map(|attempt| attempt.number);
        match self.end_event(state, attempt).await {
            EndOfEvent::Kept | EndOfEvent::Deleted => {
                reply.send(Ok(Reply::done()));
                (outcome, number)
            }
            EndOfEvent::GivenUp => {
                // It runs again, whatever became of it.
                reply.send(Err(Refusal::ran(Reason::DatabaseUnusable)));
                (Outcome::Failed(Reason::DatabaseUnusable), number)
            }
        }
    }

    /// Makes the actor ready and runs `on-alarm`; none when no alarm is due.
    async fn attempt_alarm(
        &self,
        state: &mut State,
        deadline: Instant,
    ) -> Result<Option<(Attempt, Result<(), Refusal>)>, StorageFault> {
        let Some(number) = state.scope.due_attempt()? else { return Ok(None) };
        if let Err(refusal) = self.initialise(state, deadline).await {
            return Ok(Some((Attempt { number, succeeded: false }, Err(refusal))));
        }
        // `on-init` may have set another alarm, or none.
        let Some(number) = state.scope.begin_alarm()? else { return Ok(None) };
        let ended = self.call(state, GuestCall::Alarm, deadline).await;
        let attempt = Attempt { number, succeeded: ended.is_ok() };
        Ok(Some((attempt, ended.map_err(|fault| refusal(&fault)))))
    }
}
