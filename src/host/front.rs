//! The front: an instance for one request, made from what is compiled and linked already.

use std::sync::Arc;

use tokio::time::Instant;
use wasmkeep_supervisors::event::{ReplyTo, Request};
use wasmkeep_supervisors::ports::{FrontGuest, GuestFault, GuestFuture, GuestScope};
use wasmkeep_wit::front::FrontPre;

use super::component::InstanceConfig;
use super::instance::GuestInstance;
use super::state::HostState;

/// `ports::FrontGuest` over a component that is compiled and linked.
pub struct LoadedFront {
    pub pre: FrontPre<HostState>,
    pub instances: InstanceConfig,
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
            let state = HostState::of_front(scope, &self.instances);
            let mut instance =
                GuestInstance::of_front(&self.pre, state).await.map_err(|error| {
                    tracing::error!(error = format!("{error:#}"), "no instance of the front");
                    GuestFault::NotInstantiated(format!("{error:#}"))
                })?;
            instance.request(request, reply, deadline).await
        })
    }
}
