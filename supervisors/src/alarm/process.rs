//! The node's timer: hands due alarms to their actors, a bounded number at once.
//!
//! It reads the index and remembers nothing that matters: started again after a panic, it finds in
//! the index what is due.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::{Actor as Process, ActorProcessingErr, ActorRef};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::rules::{doubled, retry_wait, spread};
use crate::address::{Address, Class, Tenant};
use crate::event::{Event, Reason, Refusal, Reply, ReplyTo, Task, Ticket};
use crate::limits::{ALARM_PAUSE_FIRST, ALARM_PAUSE_LONGEST, ALARM_SLOW, CLOCK_LOOK};
use crate::metrics::Metrics;
use crate::ports::{Clock, Databases, Deliver, StorageFault};
use crate::time::Timestamp;

/// Alarms read from the index at a time.
const READ_AHEAD: usize = 256;

/// Tells the timer of alarms that are entered into the index. Many rings are one message.
pub struct Bell {
    /// The earliest moment rung for since the timer last looked.
    earliest: AtomicU64,
    /// A message is on its way.
    rung: AtomicBool,
    /// Due alarms may run: the node takes traffic.
    open: AtomicBool,
    timer: Mutex<Option<ActorRef<TimerMessage>>>,
}

impl Default for Bell {
    fn default() -> Self {
        Self {
            earliest: AtomicU64::new(u64::MAX),
            rung: AtomicBool::new(false),
            open: AtomicBool::new(false),
            timer: Mutex::default(),
        }
    }
}

impl Bell {
    /// An alarm has been entered for that moment.
    pub fn ring(&self, due: Timestamp) {
        self.earliest.fetch_min(due.0, Ordering::SeqCst);
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.send(TimerMessage::Look);
        }
    }

    /// From now on due alarms run.
    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
        self.look();
    }

    /// Has the timer look at the clock and at what is due.
    pub fn look(&self) {
        self.ring(Timestamp(0));
    }

    fn hang(&self, timer: ActorRef<TimerMessage>) {
        *self.lock() = Some(timer);
    }

    fn answer(&self) -> Timestamp {
        self.rung.store(false, Ordering::SeqCst);
        Timestamp(self.earliest.swap(u64::MAX, Ordering::SeqCst))
    }

    fn send(&self, message: TimerMessage) {
        if let Some(timer) = &*self.lock() {
            let _ = timer.send_message(message);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ActorRef<TimerMessage>>> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub enum TimerMessage {
    /// Something may be due.
    Look,
    /// An alarm has been handed over, and this came of it.
    Fired(Address, Result<Reply, Refusal>),
}

/// What the timer works with.
pub struct TimerParts {
    pub databases: Arc<dyn Databases>,
    pub deliver: Arc<dyn Deliver>,
    pub clock: Arc<dyn Clock>,
    pub bell: Arc<Bell>,
    pub classes: Vec<(Tenant, Class)>,
    /// Alarms handed over at once, those not counted that are slow.
    pub at_once: usize,
    /// And with the slow ones.
    pub most: usize,
    pub metrics: Arc<Metrics>,
}

pub struct TimerProcess(pub Arc<TimerParts>);

impl Deref for TimerProcess {
    type Target = TimerParts;

    fn deref(&self) -> &TimerParts {
        &self.0
    }
}

#[derive(Default)]
pub struct State {
    /// Due, and read from the index.
    ready: VecDeque<Address>,
    /// Handed over, without an outcome yet.
    running: HashMap<Address, Handed>,
    /// How many of them count among those at once.
    counted: usize,
    /// Could not be run, and are left alone until then.
    put_off: HashMap<Address, PutOff>,
    /// When the index has to be read again; none while nothing in it is to come.
    next_due: Option<Timestamp>,
    /// There was no capacity: no alarm is tried until then.
    paused_until: Option<Instant>,
    pauses: u32,
    wake: Option<JoinHandle<Result<(), ractor::MessagingErr<TimerMessage>>>>,
}

impl State {
    /// When the first of those that were put off may be tried again.
    fn first_put_off(&self) -> Option<Instant> {
        let waiting =
            self.put_off.iter().filter(|(address, _)| !self.running.contains_key(*address));
        waiting.map(|(_, put_off)| put_off.until).min()
    }

    /// Forgets those that were put off until now and have no due alarm any more: it was cleared or
    /// set for later. They would be looked for without end.
    fn forget_settled(&mut self, due: &[(Timestamp, Address)], now: Instant) {
        if self.put_off.is_empty() {
            return;
        }
        let due: HashSet<&Address> = due.iter().map(|(_, address)| address).collect();
        let running = &self.running;
        self.put_off.retain(|address, put_off| {
            put_off.until > now || running.contains_key(address) || due.contains(address)
        });
    }
}

struct Handed {
    since: Instant,
    /// Its actor was busy with another event, behind which it waits.
    waits_behind: bool,
    /// The index had it as due meanwhile. That may be the alarm that runs, or the next one already.
    due_again: bool,
    /// It counts among those at once. One that waits behind another event takes nothing that others
    /// could use, and one that is slow mostly waits: neither may hold up the others.
    counts: bool,
}

/// Says what came of an alarm, also when a fault of ours ended what waited for it.
struct TellsTheTimer {
    timer: ActorRef<TimerMessage>,
    fired: Option<Address>,
}

impl TellsTheTimer {
    fn tell(&mut self, outcome: Result<Reply, Refusal>) {
        if let Some(address) = self.fired.take() {
            let _ = self.timer.send_message(TimerMessage::Fired(address, outcome));
        }
    }
}

impl Drop for TellsTheTimer {
    fn drop(&mut self) {
        self.tell(Err(Refusal::ran(Reason::HostFault)));
    }
}

impl State {
    /// No longer counts those that are slow.
    fn discount_slow(&mut self, now: Instant) {
        for handed in self.running.values_mut() {
            if handed.counts && now.duration_since(handed.since) >= ALARM_SLOW {
                handed.counts = false;
                self.counted -= 1;
            }
        }
    }

    /// How many run, or wait for a place in memory.
    fn under_way(&self) -> usize {
        self.running.values().filter(|handed| !handed.waits_behind).count()
    }

    /// When the next of those that count will be slow.
    fn first_slow(&self) -> Option<Instant> {
        let counted = self.running.values().filter(|handed| handed.counts);
        counted.map(|handed| handed.since + ALARM_SLOW).min()
    }
}

struct PutOff {
    until: Instant,
    times: u32,
}

impl Process for TimerProcess {
    type Msg = TimerMessage;
    type State = State;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<TimerMessage>,
        (): (),
    ) -> Result<State, ActorProcessingErr> {
        self.bell.hang(myself.clone());
        // Rung before there was a timer, or while the last one had failed.
        let _ = myself.send_message(TimerMessage::Look);
        Ok(State { next_due: Some(Timestamp(0)), ..State::default() })
    }

    async fn handle(
        &self,
        myself: ActorRef<TimerMessage>,
        message: TimerMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            TimerMessage::Look => {}
            TimerMessage::Fired(address, outcome) => self.fired(address, &outcome, state),
        }
        let rung = self.bell.answer();
        state.next_due = Some(state.next_due.map_or(rung, |next| next.min(rung)))
            .filter(|next| *next < Timestamp(u64::MAX));
        if !self.bell.open.load(Ordering::SeqCst) {
            return Ok(());
        }
        if let Err(fault) = self.look(&myself, state) {
            tracing::error!(error = %fault, "index of alarms not read");
            state.next_due = Some(self.clock.now().plus(CLOCK_LOOK));
        }
        self.sleep(&myself, state);
        Ok(())
    }
}

impl TimerProcess {
    /// Hands over what is due and has room.
    fn look(&self, myself: &ActorRef<TimerMessage>, state: &mut State) -> Result<(), StorageFault> {
        let now = Instant::now();
        if state.paused_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        state.paused_until = None;
        state.discount_slow(now);
        loop {
            while self.has_room(state) {
                let Some(address) = state.ready.pop_front() else { break };
                self.fire(myself, address, state);
            }
            if !self.has_room(state) || !self.read_ahead(now, state)? {
                return Ok(());
            }
        }
    }

    fn has_room(&self, state: &State) -> bool {
        state.counted < self.at_once && state.under_way() < self.most
    }

    /// Reads what is due from the index; false when there is nothing more.
    fn read_ahead(&self, now: Instant, state: &mut State) -> Result<bool, StorageFault> {
        let clock = self.clock.now();
        let put_off_ended = state.first_put_off().is_some_and(|until| until <= now);
        if !put_off_ended && state.next_due.is_none_or(|next| next > clock) {
            return Ok(false);
        }
        let most = READ_AHEAD + state.running.len() + state.put_off.len();
        let mut due = Vec::new();
        let mut next = None;
        for (tenant, class) in &self.classes {
            let read = self.databases.alarms_due(tenant, class, clock, most)?;
            let more = if read.len() == most {
                Some(clock)
            } else {
                self.databases.next_alarm(tenant, class, clock)?
            };
            next = [next, more].into_iter().flatten().min();
            due.extend(read);
        }
        due.sort();
        state.forget_settled(&due, now);
        for (_, address) in due {
            if let Some(handed) = state.running.get_mut(&address) {
                handed.due_again = true;
            } else if state.put_off.get(&address).is_none_or(|put_off| put_off.until <= now) {
                state.ready.push_back(address);
            }
        }
        state.next_due = next;
        Ok(!state.ready.is_empty())
    }

    fn fire(&self, myself: &ActorRef<TimerMessage>, address: Address, state: &mut State) {
        let waits_behind = self.deliver.is_busy(&address);
        state.counted += usize::from(!waits_behind);
        let handed =
            Handed { since: Instant::now(), due_again: false, waits_behind, counts: !waits_behind };
        state.running.insert(address.clone(), handed);
        let (reply, answer) = ReplyTo::channel();
        let event =
            Event { address: address.clone(), task: Task::Alarm, reply, ticket: Ticket::default() };
        let deliver = Arc::clone(&self.deliver);
        let mut tells = TellsTheTimer { timer: myself.clone(), fired: Some(address) };
        tokio::spawn(async move {
            let outcome = deliver.deliver(event, answer).await;
            tells.tell(outcome);
        });
    }

    fn fired(&self, address: Address, outcome: &Result<Reply, Refusal>, state: &mut State) {
        if let Some(handed) = state.running.remove(&address) {
            state.counted -= usize::from(handed.counts);
            if handed.due_again {
                state.next_due = Some(Timestamp(0));
            }
        }
        let Err(refusal) = outcome else {
            // What is pending now, if anything, stands in the index.
            state.put_off.remove(&address);
            state.pauses = 0;
            return;
        };
        let now = Instant::now();
        self.metrics.alarms_put_off.inc();
        if matches!(refusal.reason, Reason::NoCapacity | Reason::Stopping) {
            // The next one would fare no better. Those handed over together are one try.
            if state.paused_until.is_none_or(|until| until <= now) {
                let pause = doubled(ALARM_PAUSE_FIRST, state.pauses).min(ALARM_PAUSE_LONGEST);
                state.paused_until = Some(now + spread(pause, &address));
                state.pauses = state.pauses.saturating_add(1);
            }
            state.ready.push_front(address);
            return;
        }
        let times = state.put_off.get(&address).map_or(1, |put_off| put_off.times + 1);
        let wait = spread(retry_wait(times), &address);
        tracing::warn!(actor = %address, %refusal, ?wait, "alarm could not run");
        state.put_off.insert(address, PutOff { until: now + wait, times });
    }

    /// Arranges the next look.
    fn sleep(&self, myself: &ActorRef<TimerMessage>, state: &mut State) {
        if let Some(wake) = state.wake.take() {
            wake.abort();
        }
        let now = Instant::now();
        let until = |moment: Instant| moment.saturating_duration_since(now);
        let wait = if let Some(until_then) = state.paused_until.map(until) {
            Some(until_then)
        } else if !self.has_room(state) {
            // The next outcome brings the next look, or the next that turns out to be slow.
            state.first_slow().filter(|_| state.under_way() < self.most).map(until)
        } else {
            let put_off = state.first_put_off().map(until);
            let due = state.next_due.map(|next| next.since(self.clock.now()).min(CLOCK_LOOK));
            [put_off, due].into_iter().flatten().min()
        };
        // Never twice in the same millisecond: what is due then waits for something else.
        let wait = wait.map(|wait| wait.max(Duration::from_millis(1)));
        state.wake = wait.map(|wait| myself.send_after(wait, || TimerMessage::Look));
    }
}
