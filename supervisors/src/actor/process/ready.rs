//! What stands before a handler: the actor may exist, `on-init` has succeeded, and there is an instance.

use std::sync::Arc;

use tokio::time::Instant;

use super::{ActorProcess, State, refusal};
use crate::event::{Caller, Reason, Refusal};
use crate::ports::{GuestCall, GuestFault};

impl ActorProcess {
    /// Makes the actor ready for an event of `caller`, which may be the one that creates it.
    pub(super) async fn ready(
        &self,
        caller: &Caller,
        state: &mut State,
        deadline: Instant,
    ) -> Result<(), Refusal> {
        if state.initialised {
            return Ok(());
        }
        self.admit(caller, state)?;
        Box::pin(self.initialise(state, deadline)).await
    }

    /// Refuses what may not create this actor. Asked again here, where nobody else can delete it
    /// meanwhile: what the tree saw may be over.
    fn admit(&self, caller: &Caller, state: &State) -> Result<(), Refusal> {
        // In a cluster it was asked before the hold was.
        let mut exists = Ok(true);
        if self.0.scope.replicas.is_some() {
            return Ok(());
        }
        let admitted = self.0.access.admit(caller, &state.shared.address.name, || {
            exists = state.scope.exists();
            exists != Ok(false)
        });
        exists.and(admitted)
    }

    /// Sees to it that `on-init` of the present component has succeeded for this actor.
    pub(super) async fn initialise(
        &self,
        state: &mut State,
        deadline: Instant,
    ) -> Result<(), Refusal> {
        if state.initialised {
            return Ok(());
        }
        let guest = Arc::clone(&state.guest.borrow());
        let component = guest.component();
        if state.scope.initialised_by()?.as_deref() != Some(component) {
            let init = self.call(state, GuestCall::Init, deadline).await;
            let ended = state.scope.end_init();
            init.map_err(|fault| match fault {
                GuestFault::NotInstantiated(_) => refusal(&fault),
                fault => Refusal::ran(Reason::InitFailed).with_detail(format!(
                    "on-init failed ({fault}); it is tried again with the next event"
                )),
            })?;
            let recorded = ended.and_then(|()| state.scope.set_initialised_by(component));
            if let Err(fault) = recorded {
                tracing::error!(actor = %state.shared.address, error = %fault, "on-init not kept");
                return Err(Refusal::ran(Reason::DatabaseUnusable));
            }
        }
        state.initialised = true;
        Ok(())
    }

    /// Runs one handler in the actor's instance, making the instance when there is none.
    pub(super) async fn call(
        &self,
        state: &mut State,
        call: GuestCall<'_>,
        deadline: Instant,
    ) -> Result<(), GuestFault> {
        let instance = match &mut state.instance {
            Some(instance) => instance,
            none => {
                let scope = Arc::clone(&state.scope);
                let guest = Arc::clone(&state.guest.borrow());
                none.insert(guest.instantiate(scope).await?)
            }
        };
        let result = instance.run(call, deadline).await;
        if result.as_ref().is_err_and(|fault| !fault.keeps_instance()) {
            state.instance = None;
        }
        result
    }
}
