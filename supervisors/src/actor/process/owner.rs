//! In a cluster: an event runs only where its actor is held. The hold is got when the first event
//! asks, and given back when the actor leaves memory.

use std::sync::Arc;

use ractor::ActorRef;

use super::{ActorProcess, State};
use crate::actor::mailbox::ActorMessage;
use crate::address::{Address, NodeId};
use crate::event::{Caller, Reason, Refusal};
use crate::ownership::AcquireError;
use crate::replica::{HoldError, Holding, Replicas};

/// Why an event does not run here.
pub(super) enum NotHere {
    Elsewhere(NodeId),
    Refused(Refusal),
}

/// How often an acquisition that met another one looks again at once.
const ATTEMPTS: usize = 3;

impl ActorProcess {
    /// Sees to it that this node holds the actor, and that its file is the head of its history.
    pub(super) async fn ensure_owner(
        &self,
        myself: &ActorRef<ActorMessage>,
        state: &mut State,
    ) -> Result<(), NotHere> {
        let Some(replicas) = &self.0.scope.replicas else { return Ok(()) };
        if state.scope.may_run() {
            return Ok(());
        }
        if state.scope.is_held() {
            // The horizon is near. What was written before is still on its way to the bucket.
            return Err(NotHere::Refused(Refusal::not_run(Reason::NoLease)));
        }
        // In a box, as all that is large and rare: a process has room for what it may wait for as long
        // as it lives.
        Box::pin(self.acquire(myself, state, replicas)).await
    }

    async fn acquire(
        &self,
        myself: &ActorRef<ActorMessage>,
        state: &mut State,
        replicas: &Arc<Replicas>,
    ) -> Result<(), NotHere> {
        self.lose_hold(state);
        for attempt in 1.. {
            match replicas.hold(&state.shared.address).await {
                Ok(Holding::Here(held)) => {
                    let received = state.scope.receive(held).await;
                    self.follow_uploads(myself, state);
                    received.map_err(|error| {
                        NotHere::Refused(refused(&state.shared.address, &error))
                    })?;
                    return match state.scope.may_run() {
                        true => Ok(()),
                        false => Err(NotHere::Refused(Refusal::not_run(Reason::NoLease))),
                    };
                }
                Ok(Holding::Elsewhere(node)) => return Err(NotHere::Elsewhere(node)),
                Err(HoldError::Acquire(AcquireError::LostRace)) if attempt < ATTEMPTS => {}
                Err(error) => return Err(NotHere::Refused(refused(&state.shared.address, &error))),
            }
        }
        unreachable!("the last attempt returns");
    }

    /// Before a hold is asked for: a client that may not create this actor leaves no trace of it in the
    /// bucket. An actor exists if it has a record, or a file that is still to be adopted.
    pub(super) async fn admit_unheld(
        &self,
        caller: Option<Caller>,
        address: Address,
    ) -> Result<(), NotHere> {
        let (Some(replicas), Some(caller)) = (&self.0.scope.replicas, caller) else {
            return Ok(());
        };
        let access = &self.0.access;
        if access.admit(&caller, &address.name, || false).is_ok() {
            return Ok(());
        }
        let exists = self.0.scope.databases.has_file(&address)
            || match replicas.owners().recorded(&address).await {
                Ok(record) => record.is_some(),
                Err(error) => return Err(NotHere::Refused(refused(&address, &error.into()))),
            };
        access.admit(&caller, &address.name, || exists).map_err(NotHere::Refused)
    }

    /// The hold has ended, or its end is near: nothing that rests on it is of use.
    pub(super) fn lose_hold(&self, state: &mut State) {
        state.follows = None;
        state.instance = None;
        state.initialised = false;
        state.scope.lose_hold();
    }

    /// Ships what waited for the upload before it. The hold may turn out to be lost.
    pub(super) fn ship_more(&self, myself: &ActorRef<ActorMessage>, state: &mut State) {
        if state.scope.ship_more() {
            self.follow_uploads(myself, state);
        } else {
            self.lose_hold(state);
        }
    }

    /// Has this process told when an upload has ended and more waits.
    fn follow_uploads(&self, myself: &ActorRef<ActorMessage>, state: &mut State) {
        let Some(shipped) = state.scope.shipped() else { return };
        let myself = myself.clone();
        let follows = async move {
            shipped.await;
            let _ = myself.send_message(ActorMessage::Shipped);
        };
        state.follows = Some(AbortOnDrop(tokio::spawn(follows)));
    }
}

/// A task that ends with its owner.
pub(super) struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn refused(actor: &Address, error: &HoldError) -> Refusal {
    match error {
        HoldError::Broken(_) | HoldError::Newer(_) => {
            tracing::error!(%actor, %error, "history not restored");
            let refusal = Refusal::not_run(Reason::HistoryUnusable);
            match error {
                HoldError::Newer(_) => refusal.with_detail(
                    "the actor's history was written by a newer version: upgrade this node",
                ),
                _ => refusal,
            }
        }
        HoldError::Storage(fault) => {
            tracing::error!(%actor, error = %fault, "actor not restored");
            Refusal::not_run(Reason::Unavailable)
                .with_detail("the actor's files could not be written; retry")
        }
        HoldError::Acquire(AcquireError::NotLive) => Refusal::not_run(Reason::NoLease),
        HoldError::Acquire(error) => {
            tracing::warn!(%actor, %error, "actor not acquired");
            Refusal::not_run(Reason::NoLease)
                .with_detail("the actor's record in the bucket could not be read or changed; retry")
        }
    }
}
