//! Which actors are in memory, how many may be, and who makes room.
//!
//! A seat is held from before an actor's process starts until its database is closed and its
//! instance dropped, so no more than `--max-instances` ever hold resources; and so is the entry
//! here, so no address ever has two databases open, however a process ends. Idle actors are
//! evicted by the second-chance rule: an event costs one relaxed store, not a list operation. Who
//! evicts an actor inherits its seat, so that one eviction is always enough for one waiter.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until};

use super::mailbox::{ActorMessage, Mailbox, Shared};
use crate::address::{Address, Class};
use crate::event::{Reason, Refusal};
use crate::metrics::Metrics;

const SHARDS: usize = 64;

/// The right to hold one actor's resources.
pub struct Seat {
    _permit: OwnedSemaphorePermit,
    metrics: Arc<Metrics>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.metrics.residents.dec();
    }
}

/// One actor's seat and its entry in `Residents`. Its process holds it, and gives it up last, when
/// nothing else of the actor is left: a supervisor hears of a process that failed before that.
pub struct Residence {
    shared: Arc<Shared>,
    residents: Arc<Residents>,
    seat: Option<Seat>,
    heir: Option<oneshot::Sender<Seat>>,
}

impl Residence {
    pub fn new(shared: Arc<Shared>, residents: Arc<Residents>, seat: Seat) -> Self {
        Self { shared, residents, seat: Some(seat), heir: None }
    }

    /// Whom the seat goes to, instead of to the next in line.
    pub fn bequeath(&mut self, heir: oneshot::Sender<Seat>) {
        self.heir = Some(heir);
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        self.shared.gate.close();
        // Said before the entry goes: `insert` may only come now.
        self.shared.ended.store(true, Ordering::SeqCst);
        self.residents.remove(&self.shared);
        // An heir that has left meanwhile gives the seat back, to the next in line.
        if let (Some(seat), Some(heir)) = (self.seat.take(), self.heir.take()) {
            let _ = heir.send(seat);
        }
        self.shared.set_gone();
    }
}

pub struct Residents {
    shards: Vec<Mutex<HashMap<Address, Mailbox>>>,
    hasher: RandomState,
    seats: Arc<Semaphore>,
    ring: Mutex<Ring>,
    /// How many wait for a seat.
    waiters: AtomicUsize,
    someone_is_idle: Notify,
    stopping: AtomicBool,
    /// Addresses whose events are refused for now, and until when.
    quarantined: Mutex<HashMap<Address, Instant>>,
    /// Events still queued are refused instead of run.
    grace_over: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Residents {
    pub fn new(instances_max: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            seats: Arc::new(Semaphore::new(instances_max)),
            ring: Mutex::default(),
            waiters: AtomicUsize::new(0),
            someone_is_idle: Notify::new(),
            stopping: AtomicBool::new(false),
            quarantined: Mutex::default(),
            grace_over: AtomicBool::new(false),
            metrics,
        })
    }

    pub fn find(&self, address: &Address) -> Option<Mailbox> {
        self.shard(address).get(address).cloned()
    }

    pub fn insert(&self, mailbox: Mailbox) {
        lock(&self.ring).add(Arc::clone(&mailbox.shared), mailbox.clone());
        self.shard(&mailbox.shared.address).insert(mailbox.shared.address.clone(), mailbox.clone());
        // A stop that counted the residents before this insertion would miss it.
        if self.stopping.load(Ordering::SeqCst) {
            let _ = mailbox.process.send_message(ActorMessage::Close);
        }
        // A process that has ended already gave up an entry that was not there yet.
        if mailbox.shared.ended.load(Ordering::SeqCst) {
            self.remove(&mailbox.shared);
        }
    }

    /// Forgets a process, if its address has not been given to another one since.
    fn remove(&self, shared: &Arc<Shared>) {
        lock(&self.ring).remove(shared);
        let mut shard = self.shard(&shared.address);
        if shard.get(&shared.address).is_some_and(|m| Arc::ptr_eq(&m.shared, shared)) {
            shard.remove(&shared.address);
        }
    }

    /// Ends the processes of a class whose supervisor ended. Each keeps its address until it has
    /// let go of the actor.
    pub fn end_class(&self, class: &Class) {
        for mailbox in self.all() {
            if mailbox.shared.address.class == *class {
                mailbox.shared.gate.close();
                mailbox.process.kill();
            }
        }
    }

    /// Takes a seat, waiting up to `patience` for an idle actor to give up its own. Evicts at most
    /// one actor, however often it is woken.
    pub async fn reserve(self: &Arc<Self>, patience: Duration) -> Result<Seat, Refusal> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(Refusal::not_run(Reason::Stopping));
        }
        if let Ok(permit) = Arc::clone(&self.seats).try_acquire_owned() {
            return Ok(self.seat(permit));
        }
        let since = Instant::now();
        let waited = self.wait_for_seat(since + patience).await;
        self.metrics.admission_wait_seconds.observe(since.elapsed().as_secs_f64());
        waited
    }

    async fn wait_for_seat(self: &Arc<Self>, deadline: Instant) -> Result<Seat, Refusal> {
        let _waiting = Waiting::new(&self.waiters);
        let acquire = Arc::clone(&self.seats).acquire_owned();
        tokio::pin!(acquire);
        loop {
            let idle = self.someone_is_idle.notified();
            let victim = lock(&self.ring).take_idle();
            let evicted = victim.is_some();
            let (heir, inherited) = oneshot::channel();
            let _kept = match victim {
                // A process that has failed drops the heir with its port: its seat goes to the
                // next in line, and this waiter goes on waiting.
                Some(victim) => {
                    let _ = victim.process.send_message(ActorMessage::Evict(heir));
                    None
                }
                None => Some(heir),
            };
            tokio::select! {
                // A seat that comes in the last moment is still taken.
                biased;
                Ok(seat) = inherited => return Ok(seat),
                permit = &mut acquire => {
                    return match permit {
                        Ok(permit) => Ok(self.seat(permit)),
                        Err(_) => Err(Refusal::not_run(Reason::Stopping)),
                    };
                }
                () = idle, if !evicted => {}
                () = sleep_until(deadline) => return Err(Refusal::not_run(Reason::NoCapacity)),
            }
        }
    }

    /// An actor's process has nothing to do: a waiter may want its seat.
    pub fn is_idle(&self) {
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.someone_is_idle.notify_one();
        }
    }

    /// From now on no event is admitted; returns the mailboxes of those in memory.
    pub fn stop(&self) -> Vec<Mailbox> {
        self.stopping.store(true, Ordering::SeqCst);
        self.all()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// From now on queued events are refused, so that stopping ends with the events now running.
    pub fn end_grace(&self) {
        self.grace_over.store(true, Ordering::SeqCst);
    }

    pub fn grace_is_over(&self) -> bool {
        self.grace_over.load(Ordering::Relaxed)
    }

    /// Says that the events of an address are refused for a while.
    pub fn set_quarantined(&self, address: &Address, until: Instant) {
        let now = Instant::now();
        let mut quarantined = lock(&self.quarantined);
        quarantined.retain(|_, until| now < *until);
        quarantined.insert(address.clone(), until);
    }

    /// For how long events of the address are still refused.
    pub fn quarantined_for(&self, address: &Address) -> Option<Duration> {
        let until = *lock(&self.quarantined).get(address)?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    pub fn all(&self) -> Vec<Mailbox> {
        self.shards.iter().flat_map(|s| lock(s).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Actors that may become resident without another's leaving.
    pub fn free_seats(&self) -> usize {
        self.seats.available_permits()
    }

    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| lock(shard).is_empty())
    }

    fn seat(&self, permit: OwnedSemaphorePermit) -> Seat {
        self.metrics.residents.inc();
        Seat { _permit: permit, metrics: Arc::clone(&self.metrics) }
    }

    fn shard(&self, address: &Address) -> MutexGuard<'_, HashMap<Address, Mailbox>> {
        lock(&self.shards[self.hasher.hash_one(address) as usize % SHARDS])
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Ordering::SeqCst);
        Self(waiters)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Resident actors in a circle, with a hand that passes over the recently used once.
#[derive(Default)]
struct Ring {
    places: Vec<Mailbox>,
    hand: usize,
}

impl Ring {
    fn add(&mut self, shared: Arc<Shared>, mailbox: Mailbox) {
        shared.ring_place.store(self.places.len(), Ordering::Relaxed);
        self.places.push(mailbox);
    }

    fn remove(&mut self, shared: &Arc<Shared>) {
        let place = shared.ring_place.load(Ordering::Relaxed);
        if self.places.get(place).is_some_and(|m| Arc::ptr_eq(&m.shared, shared)) {
            self.places.swap_remove(place);
            if let Some(moved) = self.places.get(place) {
                moved.shared.ring_place.store(place, Ordering::Relaxed);
            }
        }
    }

    /// Closes the gate of an idle actor, preferring those not used lately, and returns it: it has
    /// left the circle of those who may be chosen.
    fn take_idle(&mut self) -> Option<Mailbox> {
        // Two rounds: the first may only clear marks.
        for _ in 0..self.places.len() * 2 {
            self.hand = (self.hand + 1) % self.places.len();
            let mailbox = &self.places[self.hand];
            if !mailbox.shared.used.swap(false, Ordering::Relaxed)
                && mailbox.shared.gate.close_if_idle()
            {
                return Some(mailbox.clone());
            }
        }
        None
    }
}

/// A panic while a lock is held leaves these maps whole: every change is one insertion or removal.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
