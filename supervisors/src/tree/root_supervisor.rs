//! Keeps the node's permanent processes, one class supervisor a class, the timer and
//! the one that looks after sockets, and gives up
//! when they fail too often: then the node stops.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ractor::{Actor as Process, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;
use tokio::time::Instant;

use super::class_supervisor::{ClassSupervisor, StartActor};
use super::directory::Directory;
use super::lapses::{LapsesParts, LapsesProcess};
use super::restart::{Child, Decision, Exit, decide};
use crate::actor::Residents;
use crate::actor::process::ClassRuntime;
use crate::address::Class;
use crate::alarm::{TimerParts, TimerProcess};
use crate::limits::RESTART_WINDOW;
use crate::metrics::Metrics;
use crate::replica::{ReplicaSupervisor, Replicas};
use crate::socket::{SocketsParts, SocketsProcess};

pub struct RootSupervisor {
    pub directory: Arc<Directory>,
    pub classes: HashMap<Class, Arc<ClassRuntime>>,
    pub timer: Arc<TimerParts>,
    pub sockets: Arc<SocketsParts>,
    /// Of a node in a cluster.
    pub lapses: Option<Arc<LapsesParts>>,
    pub replicas: Option<Arc<Replicas>>,
    pub residents: Arc<Residents>,
    pub metrics: Arc<Metrics>,
    /// Becomes true when the node cannot go on.
    pub given_up: watch::Sender<bool>,
}

/// Start a permanent process, again or for the first time.
pub struct StartChild(ChildName);

#[derive(Debug, Clone)]
enum ChildName {
    Class(Class),
    Timer,
    Sockets,
    Replicas,
    Lapses,
}

impl ChildName {
    /// As metrics and the log name it.
    fn process(&self) -> &'static str {
        match self {
            ChildName::Class(_) => "class-supervisor",
            ChildName::Timer => "timer",
            ChildName::Sockets => "sockets",
            ChildName::Replicas => "replica-supervisor",
            ChildName::Lapses => "lapses",
        }
    }
}

#[derive(Default)]
pub struct State {
    children: HashMap<ActorId, ChildName>,
    restarts: VecDeque<Instant>,
}

impl Process for RootSupervisor {
    type Msg = StartChild;
    type State = State;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<StartChild>,
        (): (),
    ) -> Result<State, ActorProcessingErr> {
        let mut state = State::default();
        // Before the actors that need it.
        if self.replicas.is_some() {
            self.start_child(&myself, ChildName::Replicas, &mut state).await?;
        }
        if self.lapses.is_some() {
            self.start_child(&myself, ChildName::Lapses, &mut state).await?;
        }
        for class in self.classes.keys() {
            self.start_child(&myself, ChildName::Class(class.clone()), &mut state).await?;
        }
        self.start_child(&myself, ChildName::Timer, &mut state).await?;
        self.start_child(&myself, ChildName::Sockets, &mut state).await?;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<StartChild>,
        StartChild(name): StartChild,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        self.start_child(&myself, name, state).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<StartChild>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let (child, cause) = match event {
            SupervisionEvent::ActorFailed(child, error) => (child, error.to_string()),
            SupervisionEvent::ActorTerminated(child, _, reason) => {
                (child, reason.unwrap_or_else(|| "it stopped".to_owned()))
            }
            _ => return Ok(()),
        };
        let Some(name) = state.children.remove(&child.get_id()) else { return Ok(()) };
        if self.residents.is_stopping() {
            return Ok(());
        }
        self.metrics.process_exits.with_label_values(&[name.process(), "failed"]).inc();
        if let ChildName::Class(class) = &name {
            self.residents.end_class(class);
        }
        let now = Instant::now();
        state.restarts.push_back(now);
        state.restarts.retain(|at| now.duration_since(*at) < RESTART_WINDOW);
        match decide(Child::Permanent, Exit::Abnormal, state.restarts.len(), 0) {
            Decision::Restart(after) => {
                tracing::error!(child = ?name, %cause, ?after, "process ended, restarting it");
                myself.send_after(after, move || StartChild(name));
            }
            _ => {
                tracing::error!(child = ?name, %cause, "process keeps ending, the node stops");
                self.given_up.send_replace(true);
            }
        }
        Ok(())
    }
}

impl RootSupervisor {
    /// Waits until the process has started: one that ended before that would go unnoticed.
    async fn start_child(
        &self,
        myself: &ActorRef<StartChild>,
        name: ChildName,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let root = myself.get_cell();
        let id = match &name {
            ChildName::Class(class) => {
                let process = ClassSupervisor(Arc::clone(&self.classes[class]));
                let (supervisor, _joined): (ActorRef<StartActor>, _) =
                    ClassSupervisor::spawn_linked(None, process, (), root).await?;
                self.directory.set(class, supervisor.clone());
                supervisor.get_id()
            }
            ChildName::Timer => {
                let process = TimerProcess(Arc::clone(&self.timer));
                let (timer, _joined) = TimerProcess::spawn_linked(None, process, (), root).await?;
                timer.get_id()
            }
            ChildName::Sockets => {
                let process = SocketsProcess(Arc::clone(&self.sockets));
                let (sockets, _joined) =
                    SocketsProcess::spawn_linked(None, process, (), root).await?;
                sockets.get_id()
            }
            ChildName::Replicas => {
                let Some(replicas) = &self.replicas else { return Ok(()) };
                let process = ReplicaSupervisor(Arc::clone(replicas));
                let (supervisor, _joined) =
                    ReplicaSupervisor::spawn_linked(None, process, (), root).await?;
                supervisor.get_id()
            }
            ChildName::Lapses => {
                let Some(lapses) = &self.lapses else { return Ok(()) };
                let process = LapsesProcess(Arc::clone(lapses));
                let (lapses, _joined) =
                    LapsesProcess::spawn_linked(None, process, (), root).await?;
                lapses.get_id()
            }
        };
        state.children.insert(id, name);
        Ok(())
    }
}
