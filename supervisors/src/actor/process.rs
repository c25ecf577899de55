//! The supervised process of one resident actor: takes events off its queue, one at a time, and
//! sees each to its end.
//!
//! A guest's fault is a value here: the instance goes, the process stays. A panic ends the
//! process; its supervisor then frees the address, and queued events learn it by their dropped
//! reply.

mod alarm;
mod idle;
mod owner;
mod ready;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor as Process, ActorProcessingErr, ActorRef};
use tokio::sync::watch;
use tokio::time::Instant;

use self::owner::NotHere;
use super::inspection::QueuedInspection;
use super::mailbox::{ActorMessage, QueuedEvent, Shared};
use super::queue::{Permit, Running};
use super::residents::{Residence, Residents};
use super::scope::{ActorScope, Attempt, EndOfEvent, ScopePorts};
use crate::access::Access;
use crate::event::{Caller, Event, Kind, Ran, Reason, Refusal, ReplyTo, Request, Task};
use crate::metrics::{ClassMetrics, KindMetrics, Metrics};
use crate::ports::{Guest, GuestCall, GuestFault, Instance};
use crate::tap::{EventEnded, EventHead, Happening, Outcome};

/// What every actor process of a class shares.
pub struct ClassRuntime {
    /// The present version. An actor goes over to another one with its next event.
    pub guest: watch::Sender<Arc<dyn Guest>>,
    pub access: Access,
    pub scope: Arc<ScopePorts>,
    pub residents: Arc<Residents>,
    pub metrics: Arc<Metrics>,
    pub counters: ClassMetrics,
    pub idle_timeout: Duration,
}

pub struct ActorProcess(pub Arc<ClassRuntime>);

pub struct Arguments {
    pub shared: Arc<Shared>,
    pub residence: Residence,
}

pub struct State {
    shared: Arc<Shared>,
    scope: Arc<ActorScope>,
    /// The version that the instance is of.
    guest: watch::Receiver<Arc<dyn Guest>>,
    instance: Option<Box<dyn Instance>>,
    /// `on-init` of the present component has succeeded.
    initialised: bool,
    last_event: Instant,
    checks: idle::Armed,
    /// Says when an upload of this hold has ended.
    follows: Option<owner::AbortOnDrop>,
    /// Given up last, so it stands last: only once nothing of the actor is held any more.
    residence: Option<Residence>,
}

impl Drop for State {
    fn drop(&mut self) {
        // The task that flushes may look in at any time: it must find nothing, once the address is free.
        self.instance = None;
        self.scope.abandon();
    }
}

impl Process for ActorProcess {
    type Msg = ActorMessage;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<ActorMessage>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let Arguments { shared, residence } = arguments;
        self.0.metrics.wakes.inc();
        self.0.scope.tap.tell(&shared.address, || Happening::Woke);
        let (ports, queue) = (Arc::clone(&self.0.scope), Arc::clone(&shared.gate));
        let scope = ActorScope::new(shared.address.clone(), ports, queue);
        let mut state = State {
            shared,
            scope,
            guest: self.0.guest.subscribe(),
            instance: None,
            initialised: false,
            last_event: Instant::now(),
            checks: idle::Armed::default(),
            follows: None,
            residence: Some(residence),
        };
        // The event it was started for may never come.
        self.arm_checks(&myself, &mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<ActorMessage>,
        message: ActorMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ActorMessage::Event(event) => {
                // What an event needs while it runs is not kept between events.
                Box::pin(self.take(&myself, event, state)).await;
                self.arm_checks(&myself, state);
            }
            ActorMessage::Inspect(inspection) => {
                Box::pin(self.inspect(&myself, *inspection, state)).await;
                self.arm_checks(&myself, state);
            }
            ActorMessage::RestCheck => self.check_rest(&myself, state),
            ActorMessage::Shipped => self.ship_more(&myself, state),
            ActorMessage::Lapsed => {
                if !state.scope.may_run() {
                    self.lose_hold(state);
                }
            }
            ActorMessage::IdleCheck => Box::pin(self.check_idle(&myself, state)).await,
            ActorMessage::Evict(heir) => {
                if let Some(residence) = &mut state.residence {
                    residence.bequeath(heir);
                }
                Box::pin(self.leave_memory(&myself, state, "evicted")).await;
            }
            ActorMessage::Hibernate => Box::pin(self.leave_memory(&myself, state, "asked")).await,
            ActorMessage::Close => {
                state.shared.gate.close();
                Box::pin(self.leave_memory(&myself, state, "stopping")).await;
            }
        }
        Ok(())
    }
}

impl ActorProcess {
    /// Takes one event off the queue and runs it, unless nobody waits for it any more.
    async fn take(&self, myself: &ActorRef<ActorMessage>, event: QueuedEvent, state: &mut State) {
        let QueuedEvent { permit, event } = event;
        let Event { task, mut reply, ticket, .. } = *event;
        // Dropped before the reply: whoever learns of a panic finds the gate closed.
        let turn = Turn::begin(permit, state);
        if self.0.residents.grace_is_over() {
            self.refuse(&task, Refusal::not_run(Reason::Stopping), &mut reply, state);
            return self.end_turn(turn, state);
        }
        // What is held back is an answer, and so many; other events are told nothing of before it is
        // durable.
        let can_be_held = matches!(task, Task::Request(_)) && !state.scope.are_outputs_full();
        match can_be_held {
            true => self.recover(state),
            false => self.settle(state).await,
        }
        let admitted = match state.scope.is_held() {
            true => Ok(()),
            false => {
                let caller = task.caller().cloned();
                Box::pin(self.admit_unheld(caller, state.shared.address.clone())).await
            }
        };
        let owned = match admitted {
            Ok(()) => self.ensure_owner(myself, state).await,
            refused => refused,
        };
        match owned {
            Err(NotHere::Refused(refusal)) => self.refuse(&task, refusal, &mut reply, state),
            Err(NotHere::Elsewhere(node)) => {
                let sockets = &self.0.scope.sockets;
                sockets.close_of(&state.shared.address, "another node has this actor");
                reply.hand_back(node, task);
                self.end_turn(turn, state);
                return self.leave_if_idle(myself, state).await;
            }
            // Last: until here the sender may leave.
            Ok(()) if !ticket.start() => {
                self.0.counters.of(task.kind()).skipped.inc();
                self.did_not_run(&task, Outcome::Skipped, state);
            }
            Ok(()) => {
                if let Some(may_answer) = state.scope.may_answer() {
                    reply.only_while(may_answer);
                }
                reply.through(state.scope.outputs());
                self.follow(state);
                self.run_turn(myself, task, &mut reply, state).await;
            }
        }
        self.end_turn(turn, state);
    }

    fn refuse(&self, task: &Task, refusal: Refusal, reply: &mut ReplyTo, state: &State) {
        self.did_not_run(task, Outcome::Refused(refusal.reason), state);
        reply.send(Err(refusal));
    }

    /// Lets an operator read the database, for at most an event's wall.
    async fn inspect(
        &self,
        myself: &ActorRef<ActorMessage>,
        queued: QueuedInspection,
        state: &mut State,
    ) {
        let turn = Turn::begin(queued.permit, state);
        self.settle(state).await;
        // Dropped unread, its sender learns that the actor cannot be read here now.
        if !self.0.residents.grace_is_over() && self.ensure_owner(myself, state).await.is_ok() {
            let deadline = Instant::now() + self.0.scope.wall_budget;
            state.scope.begin_event(&Caller::Outside, deadline);
            state.scope.inspect(queued.inspection);
            self.end_event(state, None).await;
        }
        self.end_turn(turn, state);
    }

    /// Returns once what the events before wrote is durable, or the actor starts anew without it.
    async fn settle(&self, state: &mut State) {
        if !state.scope.are_outputs_open() {
            Box::pin(state.scope.settle_outputs()).await;
        }
        self.recover(state);
    }

    /// A write of an event that has ended was lost: nothing that rests on it is of use.
    fn recover(&self, state: &mut State) {
        if state.scope.is_given_up() {
            self.lose_hold(state);
        }
    }

    fn end_turn(&self, turn: Turn, state: &mut State) {
        state.last_event = Instant::now();
        turn.end();
        if state.shared.gate.waiting() == 0 {
            self.0.residents.is_idle();
        }
    }

    async fn run(&self, task: Task, reply: &mut ReplyTo, state: &mut State) -> Outcome {
        let started = Instant::now();
        let deadline = started + self.0.scope.wall_budget;
        let kind = task.kind();
        let noted = self.0.scope.tap.is_open().then(|| EventHead::of(&task));
        let (outcome, attempt) = match task {
            Task::Request(request) => {
                (self.run_request(request, reply, state, deadline).await, None)
            }
            Task::Alarm => self.run_alarm(reply, state, deadline).await,
            Task::Socket(task) => (self.run_socket(task, reply, state, deadline).await, None),
        };
        count(self.0.counters.of(kind), outcome);
        self.0.scope.tap.tell(&state.shared.address, || {
            let head = noted.unwrap_or(EventHead::unnoted(kind));
            let status = reply.status().filter(|_| matches!(kind, Kind::Request | Kind::Call));
            let took = started.elapsed();
            Happening::Event(EventEnded { head, outcome, status, took, attempt })
        });
        if state.instance.as_mut().is_some_and(|instance| instance.is_worn()) {
            state.instance = None;
        }
        self.0.counters.of(kind).seconds.observe(started.elapsed().as_secs_f64());
        outcome
    }

    fn did_not_run(&self, task: &Task, outcome: Outcome, state: &State) {
        self.0
            .scope
            .tap
            .tell(&state.shared.address, || Happening::did_not_run(EventHead::of(task), outcome));
    }

    async fn run_request(
        &self,
        request: Request,
        reply: &mut ReplyTo,
        state: &mut State,
        deadline: Instant,
    ) -> Outcome {
        state.scope.begin_request(&request.caller, deadline);
        let served = self.serve(request, reply, state, deadline).await;
        self.end_event(state, None).await;
        match served {
            Ok(()) => Outcome::Answered,
            Err(refusal) => {
                let outcome = failed(state, &refusal);
                // Refused when the head has gone out already: then the body's end tells the
                // client.
                reply.send(Err(refusal));
                outcome
            }
        }
    }

    /// Goes over to the present version of the class. Between two events: what runs, runs to its
    /// end in the version it began in.
    fn follow(&self, state: &mut State) {
        if state.guest.has_changed().unwrap_or(false) {
            state.guest.mark_unchanged();
            state.instance = None;
            state.initialised = false;
        }
    }

    async fn end_event(&self, state: &mut State, attempt: Option<Attempt>) -> EndOfEvent {
        // Answers that tell of what is deleted leave before it is.
        if state.scope.is_deleting() {
            state.scope.settle_outputs().await;
        }
        let mut end = state.scope.end_event(attempt);
        let is_lost = match end {
            EndOfEvent::Deleted => !state.scope.ship_delete().await,
            EndOfEvent::Kept => !state.scope.settle_index().await,
            EndOfEvent::GivenUp => false,
        };
        if is_lost {
            end = EndOfEvent::GivenUp;
        }
        if end != EndOfEvent::Kept {
            state.instance = None;
            state.initialised = false;
        }
        end
    }

    /// Makes the actor ready and runs its handler.
    async fn serve(
        &self,
        request: Request,
        reply: &mut ReplyTo,
        state: &mut State,
        deadline: Instant,
    ) -> Result<(), Refusal> {
        self.ready(&request.caller, state, deadline).await?;
        let call = GuestCall::Request { request, reply };
        self.call(state, call, deadline).await.map_err(|fault| refusal(&fault))
    }
}

/// What was taken off the queue, while it runs. Left in the middle, because the process panicked or
/// was killed, it closes the gate.
struct Turn {
    shared: Arc<Shared>,
    /// Gone once the turn has ended as it should.
    running: Option<Running>,
}

impl Turn {
    fn begin(permit: Permit, state: &State) -> Self {
        Self { shared: Arc::clone(&state.shared), running: Some(permit.start()) }
    }

    fn end(mut self) {
        self.running = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.shared.gate.close();
        }
    }
}

fn failed(state: &State, refusal: &Refusal) -> Outcome {
    tracing::warn!(actor = %state.shared.address, %refusal, "event failed");
    match refusal.ran {
        Ran::NotRun => Outcome::Refused(refusal.reason),
        Ran::Ran | Ran::Unknown => Outcome::Failed(refusal.reason),
    }
}

fn count(counters: &KindMetrics, outcome: Outcome) {
    match outcome {
        Outcome::Answered => counters.answered.inc(),
        Outcome::Failed(_) | Outcome::Refused(_) => counters.failed.inc(),
        Outcome::Skipped => counters.skipped.inc(),
    }
}

fn refusal(fault: &GuestFault) -> Refusal {
    match fault {
        GuestFault::Unfit(why) => Refusal::not_run(Reason::BadRequest).with_detail(why.clone()),
        GuestFault::Refused(text) => Refusal::ran(Reason::HandlerFailed).with_detail(text.clone()),
        GuestFault::NoResponse => Refusal::ran(Reason::NoResponse),
        GuestFault::Trapped(cause) => {
            Refusal::ran(Reason::Trapped).with_detail(format!("the actor's code trapped: {cause}"))
        }
        GuestFault::CpuExceeded => Refusal::ran(Reason::CpuExceeded),
        GuestFault::WallExceeded => Refusal::ran(Reason::WallExceeded),
        GuestFault::NotInstantiated(_) => Refusal::not_run(Reason::NotInstantiated),
    }
}
