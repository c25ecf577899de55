//! The processes that talk to the bucket for a hold, and their supervisor.
//!
//! A hold has at most two: one sends its segments, one what rests on them, so that a large snapshot
//! holds no segment up. Each does one thing after the other. They are started with the first thing there
//! is to do, and never again: what one was doing when it failed is not known, so its hold is lost.

use std::sync::Arc;

use ractor::{
    Actor as Process, ActorProcessingErr, ActorRef, ActorRuntime, SpawnErr, SupervisionEvent,
};

use super::error::Lost;
use super::replicas::Replicas;
use super::shared::Shared;
use super::ship::Shipment;
use super::stand_in::StandIn;

pub(super) enum Work {
    Ship(Shipment, Underway),
    StandIn(StandIn, Underway),
}

/// Something is under way. Dropped without having been done it loses the hold: a process failed.
pub(super) struct Underway {
    shared: Arc<Shared>,
    is_done: bool,
}

impl Underway {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), is_done: false }
    }

    fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.lose(Lost::Process);
            self.shared.change(|status| (status.ships, status.stand_ins) = (false, 0));
        }
    }
}

pub(super) struct ReplicaProcess {
    replicas: Arc<Replicas>,
    shared: Arc<Shared>,
}

impl ReplicaProcess {
    pub fn start(
        replicas: &Arc<Replicas>,
        shared: &Arc<Shared>,
    ) -> Result<ActorRef<Work>, SpawnErr> {
        let supervisor = replicas.supervisor().ok_or_else(|| {
            SpawnErr::StartupFailed(ActorProcessingErr::from("replicas are not supervised"))
        })?;
        let process = Self { replicas: Arc::clone(replicas), shared: Arc::clone(shared) };
        let (process, _joined) = ActorRuntime::spawn_linked_instant(None, process, (), supervisor)?;
        Ok(process)
    }
}

impl Process for ReplicaProcess {
    type Msg = Work;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Work>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Work>,
        work: Work,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match work {
            Work::Ship(shipment, underway) => {
                self.replicas.ship(&self.shared, shipment).await;
                underway.done();
            }
            Work::StandIn(stand_in, underway) => {
                self.replicas.stand_in(&self.shared, stand_in).await;
                self.shared.change(|status| status.stand_ins = status.stand_ins.saturating_sub(1));
                underway.done();
            }
        }
        Ok(())
    }
}

/// Keeps the processes of holds. It restarts none: their holds are lost, and their actors given up.
pub struct ReplicaSupervisor(pub Arc<Replicas>);

impl ReplicaSupervisor {
    /// Starts it on its own; in a tree its supervisor does.
    pub async fn start(replicas: Arc<Replicas>) -> Result<ActorRef<()>, SpawnErr> {
        let (process, _joined) = Process::spawn(None, Self(replicas), ()).await?;
        Ok(process)
    }
}

impl Process for ReplicaSupervisor {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        self.0.supervised_by(myself.get_cell());
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, error) = event {
            self.0.parts.metrics.process_exits.with_label_values(&["replica", "failed"]).inc();
            tracing::error!(process = "replica", %error, "process failed");
        }
        Ok(())
    }
}
