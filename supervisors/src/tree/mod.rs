//! The supervision tree and its one door: `Tree::start`, `deliver`, `stop`.
//!
//! Promises: a failure of one actor reaches nobody else; an event that `deliver` refuses with
//! `not-run` has not run; out of restarts, `given_up` says so and the node stops. The drawing of
//! the tree, and what each exit means, is in `supervisors/README.md`.

mod class_supervisor;
mod directory;
mod restart;
mod root_supervisor;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor as _, ActorRef};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::actor::mailbox::ActorMessage;
use crate::actor::process::ClassRuntime;
use crate::actor::queue::{NotAdmitted, Permit};
use crate::actor::{Mailbox, Residents};
use crate::address::{Address, Class};
use crate::event::{Body, Event, Reason, Refusal, Reply, ReplyFrom, Ticket};
use crate::metrics::Metrics;
use crate::ports::{Databases, Guest};
use class_supervisor::{StartActor, Started};
use directory::Directory;
use root_supervisor::{RootSupervisor, StartClass};

/// How often an event may meet an actor that has just left memory before it is refused.
const ATTEMPTS: usize = 8;
/// How often a stop looks whether the last actor has left memory.
const STOP_POLL: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeConfig {
    pub instances_max: usize,
    pub idle_timeout: Duration,
    pub wall_budget: Duration,
}

/// A running supervision tree.
pub struct Tree {
    root: ActorRef<StartClass>,
    directory: Arc<Directory>,
    residents: Arc<Residents>,
    metrics: Arc<Metrics>,
    given_up: watch::Receiver<bool>,
}

impl Tree {
    /// Starts the processes of `classes` on the current runtime.
    pub async fn start(
        classes: HashMap<Class, Arc<dyn Guest>>,
        databases: Arc<dyn Databases>,
        metrics: Arc<Metrics>,
        config: TreeConfig,
    ) -> Result<Self, ractor::SpawnErr> {
        let residents = Residents::new(config.instances_max, Arc::clone(&metrics));
        let directory = Arc::new(Directory::default());
        let classes = classes
            .into_iter()
            .map(|(class, guest)| {
                let runtime = ClassRuntime {
                    guest,
                    databases: Arc::clone(&databases),
                    residents: Arc::clone(&residents),
                    metrics: Arc::clone(&metrics),
                    counters: metrics.class(&class),
                    idle_timeout: config.idle_timeout,
                    wall_budget: config.wall_budget,
                };
                (class, Arc::new(runtime))
            })
            .collect();
        let (given_up_sender, given_up) = watch::channel(false);
        let supervisor = RootSupervisor {
            directory: Arc::clone(&directory),
            classes,
            given_up: given_up_sender,
        };
        let (root, _joined) = RootSupervisor::spawn(None, supervisor, ()).await?;
        Ok(Self { root, directory, residents, metrics, given_up })
    }

    /// Delivers an event and returns the head of its answer. A caller that stops polling leaves:
    /// the event is then not run, unless it has started or its body is still arriving.
    pub async fn deliver(&self, event: Event, reply: ReplyFrom) -> Result<Reply, Refusal> {
        let answer = self.deliver_once(event, reply).await;
        if let Err(refusal) = &answer {
            self.metrics.refused(refusal.reason);
        }
        answer
    }

    async fn deliver_once(&self, event: Event, reply: ReplyFrom) -> Result<Reply, Refusal> {
        let ticket = event.ticket.clone();
        let _leaves = (!matches!(event.request.body, Body::Stream(_))).then(|| Leaves(&ticket));
        self.enqueue(event).await?;
        match reply.await {
            Ok(answer) => answer,
            Err(_) if ticket.has_started() => Err(Refusal::ran(Reason::HostFault)),
            Err(_) => Err(Refusal::not_run(Reason::Unavailable)),
        }
    }

    async fn enqueue(&self, event: Event) -> Result<(), Refusal> {
        let Event { address, mut request, mut reply, mut ticket } = event;
        for _ in 0..ATTEMPTS {
            let (mailbox, place) = match self.residents.find(&address) {
                Some(mailbox) => match mailbox.admit() {
                    Ok(place) => (mailbox, place),
                    Err(NotAdmitted::Full) => return Err(Refusal::not_run(Reason::QueueFull)),
                    Err(NotAdmitted::Closed) => {
                        mailbox.shared.gone().await;
                        continue;
                    }
                },
                None => self.wake(&address).await?,
            };
            if self.residents.is_stopping() {
                return Err(Refusal::not_run(Reason::Stopping));
            }
            match mailbox.send(place, request, reply, ticket) {
                Ok(()) => return Ok(()),
                Err(returned) => (request, reply, ticket) = *returned,
            }
        }
        Err(Refusal::not_run(Reason::Unavailable))
    }

    /// Makes an actor resident, with a place in its queue.
    async fn wake(&self, address: &Address) -> Result<(Mailbox, Permit), Refusal> {
        let supervisor = self.directory.get(&address.class).ok_or_else(|| {
            Refusal::not_run(Reason::NotFound)
                .with_detail(format!("this node serves no class {:?}", address.class.as_str()))
        })?;
        let unavailable = || Refusal::not_run(Reason::Unavailable);
        let mut seat = self.residents.reserve().await?;
        for _ in 0..ATTEMPTS {
            let (reply, answer) = oneshot::channel();
            let start = StartActor { address: address.clone(), seat, reply };
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

    /// True once the tree has given up restarting: the node must stop.
    pub fn given_up(&self) -> watch::Receiver<bool> {
        self.given_up.clone()
    }

    /// Stops admitting events, lets queued ones run for `grace`, refuses the rest, and closes
    /// every database. Events still running at the end of a second grace are cut off.
    pub async fn stop(&self, grace: Duration) {
        for mailbox in self.residents.stop() {
            let _ = mailbox.process.send_message(ActorMessage::Close);
        }
        if !self.empty_within(grace).await {
            self.residents.end_grace();
            if !self.empty_within(grace).await {
                for mailbox in self.residents.all() {
                    tracing::warn!(actor = %mailbox.shared.address, "cut off by the stop");
                    mailbox.process.kill();
                }
            }
        }
        let _ = self.root.stop_and_wait(None, Some(grace)).await;
    }

    async fn empty_within(&self, grace: Duration) -> bool {
        let emptied = timeout(grace, async {
            while !self.residents.is_empty() {
                sleep(STOP_POLL).await;
            }
        });
        emptied.await.is_ok()
    }
}

/// Takes the event off the queue when its sender stops waiting.
struct Leaves<'a>(&'a Ticket);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
