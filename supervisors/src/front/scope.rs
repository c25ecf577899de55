//! What the front may ask while it answers one request: call actors, read its values, log.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::Shared;
use super::rules::{Busy, Waiting};
use crate::address::Address;
use crate::call::{Outgoing, WaitingCall, WaitingCalls, reserve};
use crate::event::Caller;
use crate::metrics::Metrics;
use crate::ports::{CallError, CallRequest, CallResponse, GuestScope, ScopeFuture};
use crate::tap::Happening;

/// The scope of one request.
pub struct FrontScope {
    shared: Arc<Shared>,
    deadline: Instant,
    /// Lines of this request that were dropped.
    log_dropped: AtomicU32,
}

impl FrontScope {
    pub fn new(shared: Arc<Shared>, deadline: Instant) -> Self {
        Self { shared, deadline, log_dropped: AtomicU32::new(0) }
    }

    /// The request is over.
    pub fn end(&self) {
        match self.log_dropped.load(Ordering::Relaxed) {
            0 => {}
            lines => self.shared.tell(|| Happening::LogDropped { lines }),
        }
    }

    /// What a call that starts now goes by: it ends early enough for the front to answer, and no
    /// later than one of an actor would.
    fn outgoing(&self) -> Outgoing {
        let config = &self.shared.config;
        let for_the_answer = self.deadline - reserve(config.wall_budget);
        Outgoing {
            ports: Arc::clone(&self.shared.calls),
            caller: Caller::Front(self.shared.address.clone()),
            from: self.shared.address.clone(),
            deadline: for_the_answer.min(Instant::now() + config.call_limit),
            waiting: Some(Arc::clone(&self.shared.waiting) as _),
        }
    }

    fn log_line(&self, line: &str, is_error: bool) {
        let shared = &self.shared;
        let mut rate = shared.log_rate.lock().unwrap_or_else(PoisonError::into_inner);
        if !rate.admits(Instant::now()) {
            self.log_dropped.fetch_add(1, Ordering::Relaxed);
            shared.metrics().guest_log_lines_dropped.inc();
            return;
        }
        drop(rate);
        shared.calls.tap.guest_line(&shared.address, line, is_error);
    }
}

impl GuestScope for FrontScope {
    fn address(&self) -> &Address {
        &self.shared.address
    }

    fn call<'a>(
        &'a self,
        target: &'a str,
        request: CallRequest,
    ) -> ScopeFuture<'a, Result<CallResponse, CallError>> {
        Box::pin(self.outgoing().call(target.to_owned(), request))
    }

    fn call_many(
        &self,
        calls: Vec<(String, CallRequest)>,
    ) -> ScopeFuture<'_, Vec<Result<CallResponse, CallError>>> {
        Box::pin(self.outgoing().call_many(calls))
    }

    fn env(&self, name: &str) -> Option<String> {
        self.shared.values.get(name).map(str::to_owned)
    }

    fn log(&self, text: &str, is_error: bool) {
        for line in text.split('\n') {
            self.log_line(line, is_error);
        }
    }
}

/// The calls of a node's front that wait, counted by all its requests.
pub struct FrontCalls {
    waiting: Arc<Mutex<Waiting>>,
    metrics: Arc<Metrics>,
}

impl FrontCalls {
    pub fn new(slots: usize, metrics: Arc<Metrics>) -> Self {
        Self { waiting: Arc::new(Mutex::new(Waiting::within(slots))), metrics }
    }
}

impl WaitingCalls for FrontCalls {
    fn begin(&self, callee: &Address) -> Result<WaitingCall, CallError> {
        let begun = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).begin(callee);
        begun.map_err(|busy| {
            self.metrics.front_call_refused(match busy {
                Busy::Actor(_) => "actor",
                Busy::Node => "node",
            });
            CallError::Failed(busy.to_string())
        })?;
        Ok(Box::new(Counted { waiting: Arc::clone(&self.waiting), callee: callee.clone() }))
    }
}

/// A call that waits, until it is dropped.
struct Counted {
    waiting: Arc<Mutex<Waiting>>,
    callee: Address,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).end(&self.callee);
    }
}
