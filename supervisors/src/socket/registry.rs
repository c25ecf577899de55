//! Every socket of the node, by its actor's address.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::ActorRef;
use tokio::time::{Instant, sleep};

use super::held::{Ended, Socket};
use super::process::SocketsMessage;
use super::rules;
use crate::address::Address;
use crate::event::{Caller, Closing, Reason, Refusal, SocketId};
use crate::metrics::Metrics;
use crate::ports::{Clock, Deliver};

const SHARDS: usize = 64;
/// How often a stop looks whether the last socket has closed.
const STOP_POLL: Duration = Duration::from_millis(5);

type Shard = HashMap<Arc<Address>, Vec<Arc<Socket>>>;

pub struct Sockets {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    /// All of the node: opening, open, closing, and those whose close event is still to come.
    held: AtomicUsize,
    /// Those with a connection.
    connected: AtomicUsize,
    last_id: AtomicU64,
    stopping: AtomicBool,
    /// Ended: their actors are still to be told, which was tried so often before.
    pub(super) ended: Mutex<VecDeque<(Arc<Socket>, u32)>>,
    process: Mutex<Option<ActorRef<SocketsMessage>>>,
    /// A message to the process is on its way.
    rung: AtomicBool,
    pub(super) deliver: Arc<dyn Deliver>,
    clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    /// For how long a message may wait for its actor.
    pub(super) patience: Duration,
}

impl Sockets {
    pub fn new(
        deliver: Arc<dyn Deliver>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        patience: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            held: AtomicUsize::new(0),
            connected: AtomicUsize::new(0),
            last_id: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            ended: Mutex::default(),
            process: Mutex::default(),
            rung: AtomicBool::new(false),
            deliver,
            clock,
            metrics,
            patience,
        })
    }

    /// Takes in one more socket, which its actor has yet to accept.
    pub(super) fn admit(&self, address: &Address, caller: &Caller) -> Result<Arc<Socket>, Refusal> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(Refusal::not_run(Reason::Stopping));
        }
        let mut shard = self.shard(address);
        let of_actor = shard.get(address).map_or(0, Vec::len);
        let of_node = self.held.fetch_add(1, Ordering::SeqCst);
        if let Err(refusal) = rules::admit(of_actor, of_node) {
            self.held.fetch_sub(1, Ordering::SeqCst);
            return Err(refusal);
        }
        self.connected.fetch_add(1, Ordering::SeqCst);
        self.metrics.sockets.inc();
        let shared = match shard.get_key_value(address) {
            Some((address, _)) => Arc::clone(address),
            None => Arc::new(address.clone()),
        };
        // Under the lock of the shard: an actor's sockets stand in the order of their ids.
        let socket = Socket::new(self.next_id(), Arc::clone(&shared), caller.clone());
        let sockets = shard.entry(shared).or_insert_with(|| Vec::with_capacity(1));
        sockets.push(Arc::clone(&socket));
        Ok(socket)
    }

    fn next_id(&self) -> SocketId {
        let now = self.clock.now();
        let next = |last| Some(rules::next_id(SocketId(last), now).0);
        let last = self.last_id.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        rules::next_id(SocketId(last.unwrap_or_else(|last| last)), now)
    }

    pub fn find(&self, address: &Address, id: SocketId) -> Option<Arc<Socket>> {
        let shard = self.shard(address);
        let sockets = shard.get(address)?;
        let place = sockets.binary_search_by_key(&id, |socket| socket.id).ok()?;
        Some(Arc::clone(&sockets[place]))
    }

    /// An actor's accepted, open sockets, the oldest first.
    pub fn open_of(&self, address: &Address) -> Vec<Arc<Socket>> {
        let shard = self.shard(address);
        let sockets = shard.get(address).map(Vec::as_slice).unwrap_or_default();
        sockets.iter().filter(|socket| socket.is_open()).cloned().collect()
    }

    /// How many sockets an actor has, those counted whose close event is still to come.
    pub fn count_of(&self, address: &Address) -> usize {
        self.shard(address).get(address).map_or(0, Vec::len)
    }

    /// The actor accepts a socket: from now on its events see it.
    pub fn accept(&self, socket: &Arc<Socket>) {
        if !socket.accept() {
            // Its client left while the actor decided, and must be told of the end of what it took.
            self.held.fetch_add(1, Ordering::SeqCst);
            self.metrics.sockets.inc();
            let mut shard = self.shard(&socket.address);
            let sockets = shard.entry(Arc::clone(&socket.address)).or_default();
            let place = sockets.partition_point(|other| other.id < socket.id);
            sockets.insert(place, Arc::clone(socket));
            drop(shard);
            self.metrics.socket_closes.with_label_values(&["lost"]).inc();
            self.tell(Arc::clone(socket), 0);
        }
    }

    /// The connection of a socket is gone.
    pub(super) fn end(&self, socket: &Arc<Socket>, closing: Closing) {
        let ended = socket.end(closing);
        if ended != Ended::Before {
            self.connected.fetch_sub(1, Ordering::SeqCst);
        }
        match ended {
            Ended::Before => {}
            Ended::Unaccepted => self.forget(socket),
            Ended::Accepted { by, bereft } => {
                self.metrics.socket_closes.with_label_values(&[by.as_str()]).inc();
                if bereft || self.stopping.load(Ordering::SeqCst) {
                    self.forget(socket);
                } else {
                    self.tell(Arc::clone(socket), 0);
                }
            }
        }
    }

    /// Has the actor told of a socket's end.
    fn tell(&self, socket: Arc<Socket>, times: u32) {
        lock(&self.ended).push_back((socket, times));
        self.ring();
    }

    /// Has the actor told after a while.
    pub(super) fn tell_later(self: &Arc<Self>, socket: Arc<Socket>, times: u32, wait: Duration) {
        let sockets = Arc::clone(self);
        tokio::spawn(async move {
            sleep(wait).await;
            sockets.tell(socket, times);
        });
    }

    /// Nothing more is to come of a socket.
    pub fn forget(&self, socket: &Socket) {
        let mut shard = self.shard(&socket.address);
        let Some(sockets) = shard.get_mut(&*socket.address) else { return };
        let Ok(place) = sockets.binary_search_by_key(&socket.id, |socket| socket.id) else {
            return;
        };
        sockets.remove(place);
        if sockets.is_empty() {
            shard.remove(&*socket.address);
        }
        self.held.fetch_sub(1, Ordering::SeqCst);
        self.metrics.sockets.dec();
    }

    /// The actor has been deleted, and its sockets go with it: nobody is left to hear of their end.
    pub fn end_with_actor(&self, address: &Address) {
        let sockets = self.shard(address).get(address).cloned().unwrap_or_default();
        for socket in sockets {
            if !socket.bereave() {
                continue;
            }
            socket.close(Closing::new(rules::NORMAL, "actor deleted"));
            if socket.ended().is_some() {
                self.forget(&socket);
            }
        }
    }

    /// Looks after every socket: pings, and gives up those that are lost.
    pub(super) fn look(&self, now: Instant) {
        for shard in &self.shards {
            for socket in lock(shard).values().flatten() {
                socket.look(now);
            }
        }
    }

    /// The node stops: closes every socket, and waits for that a while.
    pub async fn stop(&self, wait: Duration) {
        self.stopping.store(true, Ordering::SeqCst);
        self.close_all("this node is stopping");
        let closed = tokio::time::timeout(wait, async {
            while self.connected.load(Ordering::SeqCst) > 0 {
                sleep(STOP_POLL).await;
            }
        });
        if closed.await.is_err() {
            let left = self.connected.load(Ordering::SeqCst);
            tracing::warn!(sockets = left, "cut off by the stop");
        }
    }

    /// Sends every client away, to connect anew: this node may not serve the actors any more.
    pub fn close_all(&self, why: &str) {
        for shard in &self.shards {
            for socket in lock(shard).values().flatten() {
                socket.close(Closing::new(rules::RESTART, why));
            }
        }
    }

    /// The same with the clients of one actor, which another node has.
    pub fn close_of(&self, address: &Address, why: &str) {
        for socket in self.shard(address).get(address).into_iter().flatten() {
            socket.close(Closing::new(rules::RESTART, why));
        }
    }

    /// The process that looks after the sockets has started.
    pub(super) fn hang(&self, process: ActorRef<SocketsMessage>) {
        *lock(&self.process) = Some(process);
        // What was rung for before it started, or while the last one had failed, is still there.
        self.rung.store(false, Ordering::SeqCst);
        self.ring();
    }

    #[cfg(test)]
    pub(crate) fn process(&self) -> ActorRef<SocketsMessage> {
        lock(&self.process).clone().expect("it has started")
    }

    /// Has the process look at the sockets that have ended. Many rings are one message.
    pub(super) fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst)
            && let Some(process) = &*lock(&self.process)
        {
            let _ = process.send_message(SocketsMessage::Ended);
        }
    }

    pub(super) fn answer(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }

    fn shard(&self, address: &Address) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.hasher.hash_one(address) as usize % SHARDS])
    }
}

/// A panic while a lock is held leaves these whole: every change is one insertion or removal.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
