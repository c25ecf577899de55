//! Keeps the node's permanent processes, one class supervisor a class for now, and gives up when
//! they fail too often: then the node stops.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ractor::{Actor as Process, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;
use tokio::time::Instant;

use super::class_supervisor::{ClassSupervisor, StartActor};
use super::directory::Directory;
use super::restart::{Child, Decision, Exit, decide};
use crate::actor::process::ClassRuntime;
use crate::address::Class;
use crate::limits::RESTART_WINDOW;

pub struct RootSupervisor {
    pub directory: Arc<Directory>,
    pub classes: HashMap<Class, Arc<ClassRuntime>>,
    /// Becomes true when the node cannot go on.
    pub given_up: watch::Sender<bool>,
}

/// Start the supervisor of a class, again or for the first time.
pub struct StartClass(pub Class);

#[derive(Default)]
pub struct State {
    children: HashMap<ActorId, Class>,
    restarts: VecDeque<Instant>,
}

impl Process for RootSupervisor {
    type Msg = StartClass;
    type State = State;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<StartClass>,
        (): (),
    ) -> Result<State, ActorProcessingErr> {
        let mut state = State::default();
        for class in self.classes.keys() {
            self.start_class(&myself, class, &mut state).await?;
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<StartClass>,
        StartClass(class): StartClass,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        self.start_class(&myself, &class, state).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<StartClass>,
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
        let Some(class) = state.children.remove(&child.get_id()) else { return Ok(()) };
        let runtime = &self.classes[&class];
        if runtime.residents.is_stopping() {
            return Ok(());
        }
        runtime.metrics.process_exits.with_label_values(&["class-supervisor", "failed"]).inc();
        runtime.residents.end_class(&class);
        let now = Instant::now();
        state.restarts.push_back(now);
        state.restarts.retain(|at| now.duration_since(*at) < RESTART_WINDOW);
        match decide(Child::Permanent, Exit::Abnormal, state.restarts.len(), 0) {
            Decision::Restart(after) => {
                tracing::error!(%class, %cause, ?after, "class supervisor ended, restarting it");
                myself.send_after(after, move || StartClass(class));
            }
            _ => {
                tracing::error!(%class, %cause, "class supervisor keeps ending, the node stops");
                self.given_up.send_replace(true);
            }
        }
        Ok(())
    }
}

impl RootSupervisor {
    /// Waits until the supervisor has started: one that ended before that would go unnoticed.
    async fn start_class(
        &self,
        myself: &ActorRef<StartClass>,
        class: &Class,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let (supervisor, _joined): (ActorRef<StartActor>, _) = ClassSupervisor::spawn_linked(
            None,
            ClassSupervisor(Arc::clone(&self.classes[class])),
            (),
            myself.get_cell(),
        )
        .await?;
        state.children.insert(supervisor.get_id(), class.clone());
        self.directory.set(class, supervisor);
        Ok(())
    }
}
