//! One socket, as the host holds it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::rules::{self, Silence, Waiting};
use crate::address::Address;
use crate::event::{AttachmentError, Caller, CloseError, Closing, Message, SendError, SocketId};
use crate::limits::{ATTACHMENT_BYTES_MAX, SOCKET_CLOSE_WAIT};

/// Places of its queue that a socket keeps while nothing waits: room for an answer.
const KEPT_PLACES: usize = 4;

/// Who ended a socket, as metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ender {
    Client,
    Actor,
    Server,
    Lost,
}

impl Ender {
    pub const fn as_str(self) -> &'static str {
        match self {
            Ender::Client => "client",
            Ender::Actor => "actor",
            Ender::Server => "server",
            Ender::Lost => "lost",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The actor has not accepted it yet.
    Opening,
    Open,
    /// It was closed by one side; the other has yet to answer.
    Closing,
    /// Its connection is gone.
    Ended,
}

/// What its connection is to do next.
#[derive(Debug)]
pub enum Outgoing {
    Message(Message),
    Ping,
    /// The last that is sent.
    Close(Closing),
}

pub struct Socket {
    pub id: SocketId,
    pub address: Arc<Address>,
    pub caller: Caller,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    accepted: bool,
    queue: VecDeque<Message>,
    /// Of the queue, and of the messages being written.
    waiting: Waiting,
    /// Of the messages being written.
    writing: Waiting,
    /// From its client: they came together with the one that its actor handles or is to handle.
    received: VecDeque<Message>,
    /// Still to be sent, after the queue.
    close: Option<Closing>,
    ender: Option<Ender>,
    closing_since: Option<Instant>,
    heard: Instant,
    /// Its connection takes nothing in for now, so that silence means nothing.
    deaf: bool,
    pinged: Option<Instant>,
    ping: bool,
    cut: bool,
    attachment: Box<[u8]>,
    /// How it ended; its close event is still to come.
    ended: Option<Closing>,
    /// Its actor has been deleted with it: no close event.
    bereft: bool,
    connection: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.wake();
        }
    }

    fn wait(&mut self, context: &Context<'_>) {
        match &self.connection {
            Some(connection) if connection.will_wake(context.waker()) => {}
            _ => self.connection = Some(context.waker().clone()),
        }
    }

    fn close(&mut self, closing: Closing, ender: Ender) {
        self.stage = Stage::Closing;
        self.close = Some(closing);
        self.ender = Some(ender);
        self.closing_since = Some(Instant::now());
        self.wake();
    }

    /// The next message for its client, which counts as waiting until it is written.
    fn take_message(&mut self) -> Option<Message> {
        let message = self.queue.pop_front()?;
        if self.queue.is_empty() && self.queue.capacity() > KEPT_PLACES {
            // A burst leaves nothing behind that an idle socket would hold.
            self.queue = VecDeque::new();
        }
        self.writing.messages += 1;
        self.writing.bytes += message.len();
        Some(message)
    }

    fn may_talk(&self) -> bool {
        matches!(self.stage, Stage::Opening | Stage::Open)
    }
}

impl Socket {
    pub fn new(id: SocketId, address: Arc<Address>, caller: Caller) -> Arc<Self> {
        let state = State {
            stage: Stage::Opening,
            accepted: false,
            queue: VecDeque::new(),
            waiting: Waiting::default(),
            writing: Waiting::default(),
            received: VecDeque::new(),
            close: None,
            ender: None,
            closing_since: None,
            heard: Instant::now(),
            deaf: false,
            pinged: None,
            ping: false,
            cut: false,
            attachment: Box::default(),
            ended: None,
            bereft: false,
            connection: None,
        };
        Arc::new(Self { id, address, caller, state: Mutex::new(state) })
    }

    /// Accepted, and closed by nobody.
    pub fn is_open(&self) -> bool {
        self.lock().stage == Stage::Open
    }

    /// Whether what its client sent still reaches the actor. What came before its client's close, or
    /// before the client broke a rule, does; nothing does once the actor is done with it.
    pub fn is_heard(&self) -> bool {
        let state = self.lock();
        match state.stage {
            Stage::Open => true,
            Stage::Closing => state.ender != Some(Ender::Actor) && !state.bereft,
            Stage::Opening | Stage::Ended => false,
        }
    }

    /// The actor accepts it. False when its connection has gone meanwhile: then it has ended.
    pub fn accept(&self) -> bool {
        let mut state = self.lock();
        state.accepted = true;
        if state.stage == Stage::Opening {
            state.stage = Stage::Open;
        }
        state.stage != Stage::Ended
    }

    pub fn send(&self, message: Message) -> Result<(), SendError> {
        let mut state = self.lock();
        if !state.may_talk() {
            return Err(SendError::Closed);
        }
        rules::may_queue(state.waiting, message.len())?;
        state.waiting.messages += 1;
        state.waiting.bytes += message.len();
        state.queue.push_back(message);
        state.wake();
        Ok(())
    }

    /// The actor closes it.
    pub fn close_checked(&self, code: u16, reason: String) -> Result<(), CloseError> {
        let mut state = self.lock();
        if !state.may_talk() {
            return Err(CloseError::Closed);
        }
        rules::check_close(code, &reason)?;
        state.close(Closing { code, reason }, Ender::Actor);
        Ok(())
    }

    /// The host closes it, if nobody has.
    pub fn close(&self, closing: Closing) {
        let mut state = self.lock();
        if state.may_talk() {
            state.close(closing, Ender::Server);
        }
    }

    /// Its client closes it; `answer` is what it gets back, unless it is itself an answer.
    pub fn client_closes(&self, answer: Closing) {
        let mut state = self.lock();
        match state.stage {
            Stage::Opening | Stage::Open => {
                // It reads no more of what waits for it.
                state.queue = VecDeque::new();
                state.close(answer, Ender::Client);
            }
            Stage::Closing | Stage::Ended => {}
        }
    }

    /// Its actor has been deleted with it: nobody is left to be told of its end. False when it is
    /// not that actor's yet, but the next one's to accept.
    pub fn bereave(&self) -> bool {
        let mut state = self.lock();
        state.bereft = state.accepted;
        state.accepted
    }

    pub fn attachment(&self) -> Vec<u8> {
        self.lock().attachment.to_vec()
    }

    pub fn set_attachment(&self, bytes: Vec<u8>) -> Result<(), AttachmentError> {
        if bytes.len() > ATTACHMENT_BYTES_MAX {
            return Err(AttachmentError::TooLarge);
        }
        self.lock().attachment = bytes.into_boxed_slice();
        Ok(())
    }

    /// What the connection is to do next; it has done what it was given before.
    pub fn poll_outgoing(&self, context: &mut Context<'_>) -> Poll<Outgoing> {
        let mut state = self.lock();
        let written = std::mem::take(&mut state.writing);
        state.waiting.messages -= written.messages;
        state.waiting.bytes -= written.bytes;
        if std::mem::take(&mut state.ping) {
            return Poll::Ready(Outgoing::Ping);
        }
        if let Some(message) = state.take_message() {
            return Poll::Ready(Outgoing::Message(message));
        }
        if let Some(closing) = state.close.take() {
            return Poll::Ready(Outgoing::Close(closing));
        }
        state.wait(context);
        Poll::Pending
    }

    /// One more message to go out with what `poll_outgoing` gave last, if one of at most so many
    /// bytes is next.
    pub fn also_message(&self, bytes_max: usize) -> Option<Message> {
        let mut state = self.lock();
        if state.queue.front().is_none_or(|message| message.len() > bytes_max) {
            return None;
        }
        state.take_message()
    }

    /// Keeps messages of its client that came together with the one that is brought to its actor.
    pub fn receive(&self, messages: VecDeque<Message>) {
        self.lock().received = messages;
    }

    /// Puts one of them back: it was not handled.
    pub fn receive_again(&self, message: Message) {
        let mut state = self.lock();
        if state.stage != Stage::Ended {
            state.received.push_front(message);
        }
    }

    /// The next of them, and whether there are more. Whoever takes it sees to it that it is handled:
    /// the actor's process, or, once that has answered, the connection.
    pub fn next_received(&self) -> Option<(Message, bool)> {
        let mut state = self.lock();
        let message = state.received.pop_front()?;
        let followed = !state.received.is_empty();
        if !followed {
            state.received = VecDeque::new();
        }
        Some((message, followed))
    }

    /// Ready when the connection has to be dropped: its client is silent.
    pub fn poll_cut(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.cut {
            return Poll::Ready(());
        }
        state.wait(context);
        Poll::Pending
    }

    /// Bytes of its client have come.
    pub fn heard(&self) {
        let mut state = self.lock();
        state.heard = Instant::now();
        state.pinged = None;
    }

    /// Says whether its connection listens: one that waits for the actor does not.
    pub fn set_deaf(&self, deaf: bool) {
        let mut state = self.lock();
        state.deaf = deaf;
        state.heard = Instant::now();
        state.pinged = None;
    }

    /// Pings a silent client, and gives up one that does not answer, or does not close.
    pub fn look(&self, now: Instant) {
        let mut state = self.lock();
        let since = |then: Instant| now.saturating_duration_since(then);
        match state.stage {
            Stage::Open if !state.deaf => {
                match rules::silence(since(state.heard), state.pinged.map(since)) {
                    Silence::Fine => return,
                    Silence::Ping => {
                        state.pinged = Some(now);
                        state.ping = true;
                    }
                    Silence::Lost => state.cut = true,
                }
            }
            Stage::Closing
                if state.closing_since.is_some_and(|then| since(then) >= SOCKET_CLOSE_WAIT) =>
            {
                state.cut = true;
            }
            _ => return,
        }
        state.wake();
    }

    /// Its connection is gone. Returns who ended it when the actor has to be told.
    pub fn end(&self, closing: Closing) -> Ended {
        let mut state = self.lock();
        if state.stage == Stage::Ended {
            return Ended::Before;
        }
        state.stage = Stage::Ended;
        state.ended = Some(closing);
        state.queue = VecDeque::new();
        state.received = VecDeque::new();
        state.connection = None;
        match (state.accepted, state.bereft) {
            (false, _) => Ended::Unaccepted,
            (true, bereft) => Ended::Accepted { by: state.ender.unwrap_or(Ender::Lost), bereft },
        }
    }

    /// How it ended, once it has.
    pub fn ended(&self) -> Option<Closing> {
        self.lock().ended.clone()
    }

    pub fn is_bereft(&self) -> bool {
        self.lock().bereft
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No change of the state can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the end of a connection means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Before,
    /// The actor never had it.
    Unaccepted,
    Accepted {
        by: Ender,
        bereft: bool,
    },
}
