//! Several calls at once.

use crate::Result;
use crate::actors::{Answer, Call, CallError};
use crate::bindings::wasmkeep::actor::calls as host;

/// Sends up to 16 calls together and returns one result each, in the order given, when all have
/// answered or the batch's one deadline has passed.
///
/// The requests together and the answers together hold at most 16 MiB. More than 16 calls: every
/// result is [`CallError::Failed`].
///
/// ```no_run
/// # use wasmkeep_sdk::{Response, Result, actors, calls};
/// fn total() -> Result<Response> {
///     let shards = ["count/a", "count/b", "count/c"];
///     let answers = calls::call_many(shards.map(|shard| actors::call(shard).get("/total")));
///     let mut total = 0;
///     for answer in answers {
///         total += answer?.ok()?.json::<u64>()?;
///     }
///     Ok(Response::json(&total))
/// }
/// ```
pub fn call_many(calls: impl IntoIterator<Item = Call>) -> Vec<Result<Answer, CallError>> {
    let mut results = Vec::new();
    let mut sent = Vec::new();
    for call in calls {
        match call.into_request() {
            Ok(request) => {
                sent.push(request);
                results.push(None);
            }
            Err(error) => results.push(Some(Err(error))),
        }
    }
    let mut answers = host::call_many(&sent).into_iter();
    let mut next_answer = || match answers.next() {
        Some(answer) => Ok(Answer::from(answer?)),
        None => Err(CallError::Failed("the host gave no result".to_owned())),
    };
    results.into_iter().map(|result| result.unwrap_or_else(&mut next_answer)).collect()
}
