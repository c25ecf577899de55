//! Keeps the actor processes of one class: starts them on demand, forgets the finished, and
//! quarantines an address whose process keeps failing. It never awaits anything.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ractor::{
    Actor as Process, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::restart::{Child, Decision, Exit, decide};
use crate::actor::mailbox::Shared;
use crate::actor::process::{ActorProcess, Arguments, ClassRuntime};
use crate::actor::queue::{NotAdmitted, Permit};
use crate::actor::{Mailbox, Residence, Seat};
use crate::address::Address;
use crate::event::{Reason, Refusal};
use crate::limits::{FAILING_ADDRESSES_MAX, QUARANTINE_WINDOW};

/// The answer to `StartActor`.
pub enum Started {
    /// The actor is in memory, with a place in its queue for who asked. Until that is used or given
    /// back the actor is not idle: nobody evicts it before the event it was started for.
    Here(Mailbox, Permit),
    /// It is in memory, and its queue is full.
    QueueFull,
    /// Its last process is still leaving memory: wait until that is gone, and ask again.
    Leaving(Arc<Shared>, Seat),
}

/// Asks for the mailbox of an address, and for a process behind it if there is none.
pub struct StartActor {
    pub address: Address,
    /// How a place in its queue is taken, should it be in memory already.
    pub admit: fn(&Mailbox) -> Result<Permit, NotAdmitted>,
    pub seat: Seat,
    pub reply: oneshot::Sender<Result<Started, Refusal>>,
}

pub struct ClassSupervisor(pub Arc<ClassRuntime>);

#[derive(Default)]
pub struct State {
    children: HashMap<ActorId, Arc<Shared>>,
    failing: HashMap<Address, Failures>,
}

#[derive(Default)]
struct Failures {
    recent: VecDeque<Instant>,
    quarantines: u32,
    refused_until: Option<Instant>,
}

impl Process for ClassSupervisor {
    type Msg = StartActor;
    type State = State;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<StartActor>,
        (): (),
    ) -> Result<State, ActorProcessingErr> {
        Ok(State::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<StartActor>,
        start: StartActor,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        self.start(&myself, start, state);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<StartActor>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(child, _, None) => {
                self.ended(&child, Exit::Normal, state);
            }
            SupervisionEvent::ActorTerminated(child, _, Some(reason)) => {
                if self.0.residents.is_stopping() {
                    tracing::warn!(process = "actor", %reason, "process was cut off by the stop");
                } else {
                    tracing::error!(process = "actor", %reason, "process was ended");
                }
                self.ended(&child, Exit::Abnormal, state);
            }
            SupervisionEvent::ActorFailed(child, error) => {
                let address = state.children.get(&child.get_id()).map(|s| s.address.to_string());
                tracing::error!(actor = address, %error, "actor process failed");
                self.ended(&child, Exit::Abnormal, state);
            }
            _ => {}
        }
        Ok(())
    }
}

impl ClassSupervisor {
    fn start(&self, myself: &ActorRef<StartActor>, start: StartActor, state: &mut State) {
        let StartActor { address, admit, seat, reply } = start;
        if let Some(mailbox) = self.0.residents.find(&address) {
            let _ = reply.send(Ok(match admit(&mailbox) {
                Ok(place) => Started::Here(mailbox, place),
                Err(NotAdmitted::Full) => Started::QueueFull,
                Err(NotAdmitted::Closed) => Started::Leaving(mailbox.shared, seat),
            }));
            return;
        }
        if let Some(refusal) = state.failing.get(&address).and_then(Failures::refusal) {
            let _ = reply.send(Err(refusal));
            return;
        }
        let shared = Shared::new(address);
        let residence = Residence::new(Arc::clone(&shared), Arc::clone(&self.0.residents), seat);
        let spawned = ractor::ActorRuntime::spawn_linked_instant(
            None,
            ActorProcess(Arc::clone(&self.0)),
            Arguments { shared: Arc::clone(&shared), residence },
            myself.get_cell(),
        );
        let answer = match spawned {
            Ok((process, _joined)) => {
                state.children.insert(process.get_id(), Arc::clone(&shared));
                let mailbox = Mailbox { shared, process };
                let place = mailbox.admit();
                self.0.residents.insert(mailbox.clone());
                place
                    .map(|place| Started::Here(mailbox, place))
                    // It has ended already.
                    .map_err(|_| Refusal::not_run(Reason::Unavailable))
            }
            Err(error) => {
                tracing::error!(actor = %shared.address, %error, "actor process did not start");
                Err(Refusal::not_run(Reason::Unavailable))
            }
        };
        let _ = reply.send(answer);
    }

    /// A child ends. Its address is not free yet: it becomes so with the last of the process.
    fn ended(&self, child: &ActorCell, exit: Exit, state: &mut State) {
        let Some(shared) = state.children.remove(&child.get_id()) else { return };
        shared.gate.close();
        match exit {
            Exit::Normal => {
                state.failing.remove(&shared.address);
            }
            Exit::Abnormal => {
                self.0.metrics.process_exits.with_label_values(&["actor", "failed"]).inc();
                if let Some(until) = state.note_failure(&shared.address) {
                    self.0.residents.set_quarantined(&shared.address, until);
                }
            }
        }
    }
}

impl State {
    /// Counts a failure; the end of the quarantine, if it leads to one.
    fn note_failure(&mut self, address: &Address) -> Option<Instant> {
        let now = Instant::now();
        if self.failing.len() >= FAILING_ADDRESSES_MAX && !self.failing.contains_key(address) {
            self.failing.retain(|_, failures| failures.matter(now));
        }
        let failures = self.failing.entry(address.clone()).or_default();
        failures.recent.push_back(now);
        failures.recent.retain(|at| now.duration_since(*at) < QUARANTINE_WINDOW);
        let recent = failures.recent.len();
        if let Decision::Quarantine(time) =
            decide(Child::Temporary, Exit::Abnormal, recent, failures.quarantines)
        {
            tracing::error!(actor = %address, ?time, "actor keeps failing and is quarantined");
            failures.quarantines += 1;
            failures.refused_until = Some(now + time);
            return failures.refused_until;
        }
        None
    }
}

impl Failures {
    fn refusal(&self) -> Option<Refusal> {
        self.refused_until
            .is_some_and(|until| Instant::now() < until)
            .then(|| Refusal::not_run(Reason::Quarantined))
    }

    fn matter(&self, now: Instant) -> bool {
        let recent = self.recent.back().is_some_and(|at| now - *at < QUARANTINE_WINDOW);
        recent || self.refused_until.is_some_and(|until| now < until)
    }
}
