//! An actor's calls of others. They tell of what it wrote, so they wait until that is durable.

use std::sync::Arc;

use super::ActorScope;
use crate::call::{Outgoing, reserve};
use crate::event::{CallChain, Caller, NotDurable};
use crate::ports::{CallError, CallRequest, CallResponse, ScopeFuture};

impl ActorScope {
    pub(super) fn call_one(
        &self,
        target: &str,
        request: CallRequest,
    ) -> ScopeFuture<'static, Result<CallResponse, CallError>> {
        if !self.is_held() {
            return Box::pin(std::future::ready(Err(no_longer_here())));
        }
        let settled = self.before_output();
        let call = self.outgoing().call(target.to_owned(), request);
        Box::pin(async move {
            if let Some(settled) = settled {
                settled.await.map_err(not_sent)?;
            }
            call.await
        })
    }

    pub(super) fn call_each(
        &self,
        calls: Vec<(String, CallRequest)>,
    ) -> ScopeFuture<'static, Vec<Result<CallResponse, CallError>>> {
        if !self.is_held() {
            let refused = calls.iter().map(|_| Err(no_longer_here())).collect();
            return Box::pin(std::future::ready(refused));
        }
        let settled = self.before_output();
        let (count, calls) = (calls.len(), self.outgoing().call_many(calls));
        Box::pin(async move {
            if let Some(settled) = settled
                && let Err(lost) = settled.await
            {
                return (0..count).map(|_| Err(not_sent(lost))).collect();
            }
            calls.await
        })
    }

    /// What this event can call with.
    fn outgoing(&self) -> Outgoing {
        let state = self.lock();
        Outgoing {
            ports: Arc::clone(&self.calls),
            caller: Caller::Actor(CallChain::below(&state.caller, &self.address)),
            from: self.address.clone(),
            deadline: state.deadline - reserve(self.wall_budget),
            waiting: None,
        }
    }
}

fn not_sent(lost: NotDurable) -> CallError {
    CallError::Failed(format!("{lost}; nothing ran"))
}

fn no_longer_here() -> CallError {
    CallError::Failed("this node does not have the actor any more; nothing ran".into())
}
