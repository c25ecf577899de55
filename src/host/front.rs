//! The front: an instance for one request, made from what is compiled and linked already.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wasmkeep_supervisors::event::{ReplyTo, Request};
use wasmkeep_supervisors::ports::{FrontGuest, GuestFault, GuestFuture, GuestScope};
use wasmkeep_wit::front::FrontPre;

use super::instance::GuestInstance;
use super::outbound::Outbound;
use super::state::HostState;

/// `ports::FrontGuest` over a component that is compiled and linked.
pub struct LoadedFront {
    pub pre: FrontPre<HostState>,
    pub outbound: Outbound,
    pub cpu_budget: Duration,
    pub memory_bytes_max: usize,
}

impl FrontGuest for LoadedFront {
    fn run<'a>(
        &'a self,
        request: Request,
        reply: &'a mut ReplyTo,
        scope: Arc<dyn GuestScope>,
        deadline: Instant,
    ) -> GuestFuture<'a, ()> {
        Box::pin(async move {
            let outbound = self.outbound.of_an_instance();
            let state =
                HostState::of_front(scope, outbound, self.cpu_budget, self.memory_bytes_max);
            let mut instance =
                GuestInstance::of_front(&self.pre, state).await.map_err(|error| {
                    tracing::error!(error = format!("{error:#}"), "no instance of the front");
                    GuestFault::NotInstantiated(format!("{error:#}"))
                })?;
            instance.request(request, reply, deadline).await
        })
    }
}
