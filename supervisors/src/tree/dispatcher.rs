//! Brings an event to its actor: refused by its class's access rule, put into the queue of a
//! resident actor, or of one that is made resident for it. What another node has goes there.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::class_supervisor::{StartActor, Started};
use super::directory::Directory;
use super::elsewhere::Elsewhere;
use crate::access::Access;
use crate::actor::inspection::Inspection;
use crate::actor::queue::{NotAdmitted, Permit};
use crate::actor::{Mailbox, Residents};
use crate::address::{Address, Class, NodeId};
use crate::event::{
    Answer, Caller, Event, Kind, Reason, Refusal, Reply, ReplyFrom, ReplyTo, SocketEvent,
    SocketTask, Task, Ticket,
};
use crate::limits::ADMISSION_WAIT;
use crate::metrics::Metrics;
use crate::ports::{Databases, Deliver};
use crate::tap::{EventHead, Happening, Outcome, Tap};

/// How often an event may meet an actor that has just left memory before it is refused.
const ATTEMPTS: usize = 8;

/// What became of an event.
pub(super) enum Delivered {
    Here(Reply),
    /// It has not run: that node has the actor.
    Elsewhere(NodeId, Box<Event>),
}

/// Takes a place in an actor's queue.
type Admit = fn(&Mailbox) -> Result<Permit, NotAdmitted>;

pub struct Dispatcher {
    pub access: HashMap<Class, Access>,
    pub directory: Arc<Directory>,
    pub residents: Arc<Residents>,
    pub databases: Arc<dyn Databases>,
    pub metrics: Arc<Metrics>,
    pub tap: Arc<Tap>,
    /// How long a socket's message waits for room.
    pub wall_budget: Duration,
    /// Of a node in a cluster.
    pub elsewhere: Option<Elsewhere>,
}

impl Deliver for Dispatcher {
    fn deliver(
        &self,
        event: Event,
        answer: ReplyFrom,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, Refusal>> + Send + '_>> {
        Box::pin(Dispatcher::deliver(self, Box::new(event), answer))
    }

    fn is_busy(&self, address: &Address) -> bool {
        self.residents.find(address).is_some_and(|mailbox| mailbox.shared.gate.is_busy())
    }
}

impl Dispatcher {
    /// As `Tree::deliver`. Futures here are kept small, and what is rare in them is in boxes of its
    /// own: each event pays for making one.
    pub async fn deliver(&self, event: Box<Event>, reply: ReplyFrom) -> Result<Reply, Refusal> {
        let answer = self.deliver_once(event, reply).await;
        if let Err(refusal) = &answer {
            self.metrics.refused(refusal.reason);
        }
        answer
    }

    async fn deliver_once(&self, event: Box<Event>, reply: ReplyFrom) -> Result<Reply, Refusal> {
        match self.deliver_here(event, reply).await? {
            Delivered::Here(reply) => Ok(reply),
            Delivered::Elsewhere(owner, event) => match &self.elsewhere {
                Some(elsewhere) => Box::pin(elsewhere.relay(self, owner, event)).await,
                None => Err(Refusal::not_run(Reason::Unavailable)),
            },
        }
    }

    /// As `deliver`, for what another node sent: what is not here is handed back.
    pub(super) async fn deliver_counted(
        &self,
        event: Box<Event>,
        reply: ReplyFrom,
    ) -> Result<Delivered, Refusal> {
        let delivered = self.deliver_here(event, reply).await;
        if let Err(refusal) = &delivered {
            self.metrics.refused(refusal.reason);
        }
        delivered
    }

    /// As `deliver`, but hands back what another node has.
    pub(super) async fn deliver_here(
        &self,
        event: Box<Event>,
        reply: ReplyFrom,
    ) -> Result<Delivered, Refusal> {
        let ticket = event.ticket.clone();
        // An alarm is of this node's own index: the record has to say that it is elsewhere.
        let may_know = !matches!(event.task, Task::Alarm);
        let learned =
            self.elsewhere.as_ref().filter(|_| may_know).and_then(|to| to.learned(&event.address));
        if let Some(owner) = learned {
            return Ok(Delivered::Elsewhere(owner, event));
        }
        let address = self.elsewhere.is_some().then(|| event.address.clone());
        let _leaves = event.task.is_whole().then(|| Leaves(&ticket));
        // Copied only for who listens: the event itself is gone when it is refused.
        let noted = self.tap.is_open().then(|| (event.address.clone(), EventHead::of(&event.task)));
        let enqueued = self.enqueue(event).await;
        if let (Err(refusal), Some((address, head))) = (&enqueued, noted) {
            let outcome = Outcome::Refused(refusal.reason);
            self.tap.tell(&address, || Happening::did_not_run(head, outcome));
        }
        enqueued?;
        match reply.await {
            Ok(Answer::Ended(answer)) => answer.map(Delivered::Here),
            Ok(Answer::Elsewhere(owner, task)) => {
                let Some(address) = address else {
                    return Err(Refusal::not_run(Reason::Unavailable));
                };
                if let Some(elsewhere) = &self.elsewhere {
                    elsewhere.learn(&address, &owner);
                }
                // Nobody waits at the other end: the answer comes from the other node. And the ticket
                // is left when this returns.
                let (reply, _) = ReplyTo::channel();
                let event = Event { address, task, reply, ticket: Ticket::default() };
                Ok(Delivered::Elsewhere(owner, Box::new(event)))
            }
            Err(_) if ticket.has_started() => Err(Refusal::ran(Reason::HostFault)),
            Err(_) => Err(Refusal::not_run(Reason::Unavailable)),
        }
    }

    async fn enqueue(&self, mut event: Box<Event>) -> Result<(), Refusal> {
        let place_of: Admit = match &event.task {
            Task::Request(_) => Mailbox::admit,
            Task::Alarm => Mailbox::admit_job,
            // Sockets are counted, so their ends are; nothing could tell their actor later.
            Task::Socket(SocketTask { event: SocketEvent::Close(_), .. }) => Mailbox::admit_job,
            Task::Socket(_) => Mailbox::admit,
        };
        let patience = match event.task.kind() {
            Kind::SocketMessage => self.wall_budget,
            _ => ADMISSION_WAIT,
        };
        self.check_access(&event.task, &event.address)?;
        for _ in 0..ATTEMPTS {
            let (mailbox, place) = match self.residents.find(&event.address) {
                Some(mailbox) => match place_of(&mailbox) {
                    Ok(place) => (mailbox, place),
                    Err(NotAdmitted::Full) => return Err(Refusal::not_run(Reason::QueueFull)),
                    Err(NotAdmitted::Closed) => {
                        Box::pin(mailbox.shared.gone()).await;
                        continue;
                    }
                },
                None => Box::pin(self.wake(&event.address, place_of, patience)).await?,
            };
            if self.residents.is_stopping() {
                return Err(Refusal::not_run(Reason::Stopping));
            }
            match mailbox.send(place, event) {
                Ok(()) => return Ok(()),
                Err(returned) => event = returned,
            }
        }
        Err(Refusal::not_run(Reason::Unavailable))
    }

    /// Puts an inspection into the queue of its actor, which is made resident for it.
    pub async fn inspect(
        &self,
        address: &Address,
        mut inspection: Inspection,
    ) -> Result<(), Refusal> {
        for _ in 0..ATTEMPTS {
            let (mailbox, place) = match self.residents.find(address) {
                Some(mailbox) => match mailbox.admit_job() {
                    Ok(place) => (mailbox, place),
                    Err(_) => {
                        mailbox.shared.gone().await;
                        continue;
                    }
                },
                None => self.wake(address, Mailbox::admit_job, ADMISSION_WAIT).await?,
            };
            if self.residents.is_stopping() {
                return Err(Refusal::not_run(Reason::Stopping));
            }
            match mailbox.inspect(place, inspection) {
                Ok(()) => return Ok(()),
                Err(returned) => inspection = returned,
            }
        }
        Err(Refusal::not_run(Reason::Unavailable))
    }

    /// Refuses what may not reach or create its actor, before a process is started for it. The
    /// actor's own process asks once more.
    fn check_access(&self, task: &Task, address: &Address) -> Result<(), Refusal> {
        let Some(caller @ Caller::Outside) = task.caller() else { return Ok(()) };
        let Some(access) = self.access.get(&address.class) else { return Err(no_class(address)) };
        access.admit(caller, &address.name, || {
            self.residents.find(address).is_some()
                // In a cluster the bucket knows; the actor's process asks there.
                || self.elsewhere.is_some()
                || self.databases.has_file(address)
                // What cannot be looked up now is looked up by the actor's process, which says why.
                || self.databases.fileless_init(address).map_or(true, |known| known.is_some())
        })
    }

    /// Makes an actor resident, with a place in its queue; waits so long for room.
    pub(super) async fn wake(
        &self,
        address: &Address,
        admit: Admit,
        patience: Duration,
    ) -> Result<(Mailbox, Permit), Refusal> {
        let supervisor = self.directory.get(&address.class).ok_or_else(|| no_class(address))?;
        let unavailable = || Refusal::not_run(Reason::Unavailable);
        let mut seat = self.residents.reserve(patience).await?;
        for _ in 0..ATTEMPTS {
            let (reply, answer) = oneshot::channel();
            let start = StartActor { address: address.clone(), admit, seat, reply };
            supervisor.send_message(start).map_err(|_| unavailable())?;
            match answer.await.map_err(|_| unavailable())?? {
                Started::Here(mailbox, place) => return Ok((mailbox, place)),
                Started::QueueFull => return Err(Refusal::not_run(Reason::QueueFull)),
                Started::Leaving(last, kept) => {
                    last.gone().await;
                    seat = kept;
                }
            }
        }
        Err(unavailable())
    }
}

fn no_class(address: &Address) -> Refusal {
    Refusal::not_run(Reason::NotFound)
        .with_detail(format!("this node serves no class {:?}", address.class.as_str()))
}

/// Takes the event off the queue when its sender stops waiting.
struct Leaves<'a>(&'a Ticket);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
