//! Events of actors that other nodes have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::{Instant, sleep};

use super::dispatcher::{Delivered, Dispatcher};
use crate::address::{Address, NodeId};
use crate::event::{
    Body, Caller, Event, OpenRequest, Reason, Refusal, Reply, ReplyTo, Request, SocketEvent,
    SocketTask, Task,
};
use crate::limits::{LEARNED_OWNERS_MAX, OWNER_LEARNED, TAKEOVER_LOOK_AGAIN, TAKEOVER_WAIT};
use crate::node::Peers;
use crate::ports::{Databases, Hops, PeerAt, PeerLink, SocketAsked};
use crate::relay::{Relay, Unrelayed};
use crate::socket::Opened;

/// The way to the other nodes.
pub struct Elsewhere {
    link: Arc<dyn PeerLink>,
    peers: Arc<Peers>,
    databases: Arc<dyn Databases>,
    learned: Mutex<HashMap<Address, (NodeId, Instant)>>,
}

impl Elsewhere {
    pub fn new(link: Arc<dyn PeerLink>, peers: Arc<Peers>, databases: Arc<dyn Databases>) -> Self {
        Self { link, peers, databases, learned: Mutex::default() }
    }

    /// Who was found to have an actor a moment ago: that needs no look at its record.
    pub fn learned(&self, address: &Address) -> Option<NodeId> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let (owner, at) = learned.get(address)?;
        if at.elapsed() < OWNER_LEARNED {
            return Some(owner.clone());
        }
        learned.remove(address);
        None
    }

    pub fn learn(&self, address: &Address, owner: &NodeId) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.len() >= LEARNED_OWNERS_MAX {
            learned.retain(|_, (_, at)| at.elapsed() < OWNER_LEARNED);
        }
        if learned.len() < LEARNED_OWNERS_MAX {
            learned.insert(address.clone(), (owner.clone(), Instant::now()));
        }
    }

    pub fn forget(&self, address: &Address) {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).remove(address);
    }

    /// Hands an event over to the node that has its actor. One that nobody can be reached for comes
    /// back, and is brought to the actor here once more: its node may be found dead by then. What can
    /// be asked twice is held until a dead node's actors have moved.
    pub async fn relay(
        &self,
        here: &Dispatcher,
        mut owner: NodeId,
        mut event: Box<Event>,
    ) -> Result<Reply, Refusal> {
        match &event.task {
            Task::Request(_) | Task::Alarm => {}
            // Whoever opens it looks who has the actor.
            Task::Socket(SocketTask { event: SocketEvent::Open(_), .. }) => {
                return Err(Refusal::not_run(Reason::OwnerUnreachable));
            }
            // Its actor has gone, and the sockets here end.
            Task::Socket(_) => return Ok(Reply::done()),
        }
        let until = Instant::now() + TAKEOVER_WAIT;
        let is_held = may_be_held(&event.task);
        for look in 0.. {
            let find = |node: &NodeId| self.find(node);
            let relay = Relay { link: &*self.link, find: &find };
            let left = matches!(event.task, Task::Alarm).then(|| event.address.clone());
            let refused = match relay.event(owner, Hops::NONE, *event).await {
                Ok(reply) => {
                    return match left {
                        Some(address) => self.leave_alarm(&address),
                        None => Ok(reply),
                    };
                }
                Err(Unrelayed::Refused(refusal)) => return Err(refusal),
                Err(Unrelayed::Returned { returned, cause }) => {
                    event = returned;
                    self.forget(&event.address);
                    tracing::debug!(?cause, "owner not reached");
                    Refusal::not_run(Reason::OwnerUnreachable)
                }
            };
            if look > 0 && (!is_held || Instant::now() >= until) {
                return Err(refused);
            }
            if look > 0 {
                sleep(TAKEOVER_LOOK_AGAIN).await;
            }
            let (reply, answer) = ReplyTo::channel();
            event.reply = reply;
            match here.deliver_here(event, answer).await? {
                Delivered::Here(reply) => return Ok(reply),
                Delivered::Elsewhere(named, returned) => (owner, event) = (named, returned),
            }
        }
        unreachable!("it looks until it returns");
    }

    /// Has a WebSocket opened by the node that has its actor.
    pub async fn open_socket(
        &self,
        owner: NodeId,
        address: &Address,
        (request, caller): (OpenRequest, Caller),
    ) -> Result<Opened, NotOpened> {
        let find = |node: &NodeId| self.find(node);
        let relay = Relay { link: &*self.link, find: &find };
        let asked = SocketAsked { address: address.clone(), request, caller };
        match relay.socket(owner, Hops::NONE, asked).await {
            Ok(opened) => Ok(opened),
            Err(Unrelayed::Refused(refusal)) => Err(NotOpened::Refused(refusal)),
            Err(Unrelayed::Returned { cause, .. }) => {
                self.forget(address);
                tracing::debug!(?cause, "owner not reached");
                Err(NotOpened::NotReached(Refusal::not_run(Reason::OwnerUnreachable)))
            }
        }
    }

    pub fn find(&self, node: &NodeId) -> Option<PeerAt> {
        let peer = self.peers.find(node)?;
        Some(PeerAt { node: peer.node, address: peer.address, key: peer.key })
    }

    /// Its own node has looked after it: this one's index is of a hold that is over.
    fn leave_alarm(&self, address: &Address) -> Result<Reply, Refusal> {
        match self.databases.index_alarm(address, None) {
            Ok(()) => Ok(Reply::done()),
            Err(fault) => {
                tracing::error!(actor = %address, error = %fault, "alarm of another node's actor not left");
                Err(Refusal::not_run(Reason::Unavailable))
            }
        }
    }
}

/// Why no WebSocket was opened on another node.
pub enum NotOpened {
    Refused(Refusal),
    /// Nobody was asked.
    NotReached(Refusal),
}

/// Whether an event may wait for another node to take its actor over: a request without a body that
/// changes nothing.
fn may_be_held(task: &Task) -> bool {
    let Task::Request(Request { head, body, .. }) = task else { return false };
    matches!(head.method.as_str(), "GET" | "HEAD") && matches!(body, Body::Empty)
}
