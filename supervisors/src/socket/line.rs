//! What the connection of a socket holds: its end of the line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, sleep};

use super::held::{Outgoing, Socket};
use super::registry::Sockets;
use super::rules::{self, AfterMessage};
use crate::address::Address;
use crate::event::{
    Caller, Closing, Event, Message, OpenRequest, Reason, Refusal, ReplyTo, SocketEvent, SocketId,
    SocketTask, Task, Ticket,
};
use crate::ports::PeerSocket;

/// The connection's end of an admitted socket. Dropped, the connection is lost.
pub struct Line {
    socket: Arc<Socket>,
    sockets: Arc<Sockets>,
}

/// How an actor took a socket.
pub enum Opened {
    Accepted(Line),
    /// The actor is on another node and has accepted it: its frames come and go there.
    Relayed(PeerSocket),
    /// The actor said no, and this is what it said.
    Refused(Refusal),
}

impl Line {
    /// Asks the actor whether it takes a socket. An error when it was not asked, or failed.
    pub async fn open(
        sockets: &Arc<Sockets>,
        address: &Address,
        request: OpenRequest,
        caller: Caller,
    ) -> Result<Opened, Refusal> {
        let socket = sockets.admit(address, &caller)?;
        let line = Line { socket, sockets: Arc::clone(sockets) };
        match line.offer(SocketEvent::Open(request), false).await {
            Ok(()) => Ok(Opened::Accepted(line)),
            Err(refusal) if refusal.reason == Reason::SocketRefused => Ok(Opened::Refused(refusal)),
            Err(refusal) => Err(refusal),
        }
    }

    pub fn id(&self) -> SocketId {
        self.socket.id
    }

    /// What the connection is to do next; it has done what it was given before.
    pub fn poll_outgoing(&self, context: &mut Context<'_>) -> Poll<Outgoing> {
        self.socket.poll_outgoing(context)
    }

    /// One more message to go out with what was given last, if a small one waits.
    pub fn also_message(&self, bytes_max: usize) -> Option<Message> {
        self.socket.also_message(bytes_max)
    }

    /// Ready when the connection has to be dropped: its client is silent.
    pub fn poll_cut(&self, context: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_cut(context)
    }

    /// Bytes of the client have come.
    pub fn heard(&self) {
        self.socket.heard();
    }

    /// Says whether the connection listens: one that waits for the actor does not.
    pub fn set_deaf(&self, deaf: bool) {
        self.socket.set_deaf(deaf);
    }

    /// Whether messages of the client still reach the actor.
    pub fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Brings a message to the actor, and those that came together with it, and waits for the end of
    /// their events. While the actor cannot be reached a message waits as long as an event may take;
    /// then the socket is closed.
    pub async fn bring(&self, first: Message, others: VecDeque<Message>) {
        let mut next = Some((first, !others.is_empty()));
        // Most come alone, and need no lock for that.
        if !others.is_empty() {
            self.socket.receive(others);
        }
        while let Some((message, followed)) = next {
            if !self.bring_one(message, followed).await {
                // Nothing is handled behind one that was not.
                self.socket.receive(VecDeque::new());
                return;
            }
            // What its turn had no time for.
            next = if followed { self.socket.next_received() } else { None };
        }
    }

    /// False when the actor is not to hear what follows.
    async fn bring_one(&self, message: Message, followed: bool) -> bool {
        let until = Instant::now() + self.sockets.patience;
        let mut times = 0;
        loop {
            let event = SocketEvent::Message(message.clone());
            let Err(refusal) = self.offer(event, followed).await else {
                return true;
            };
            match rules::after_message(&refusal, Instant::now() < until, times) {
                AfterMessage::Next => return true,
                AfterMessage::Again(wait) => sleep(wait).await,
                AfterMessage::Close(closing) => {
                    self.socket.close(closing);
                    return false;
                }
            }
            if !self.socket.is_heard() {
                return false;
            }
            times += 1;
        }
    }

    /// The host closes the socket.
    pub fn close(&self, closing: Closing) {
        self.socket.close(closing);
    }

    /// The client closes the socket, or answers a close; `answer` is what it gets back.
    pub fn client_closes(&self, answer: Closing) {
        self.socket.client_closes(answer);
    }

    /// The connection is gone.
    pub fn end(self, closing: Closing) {
        self.sockets.end(&self.socket, closing);
    }

    async fn offer(&self, event: SocketEvent, followed: bool) -> Result<(), Refusal> {
        let (reply, answer) = ReplyTo::channel();
        let Socket { id: socket, caller, .. } = &*self.socket;
        let task = SocketTask { socket: *socket, caller: caller.clone(), event, followed };
        let event = Event {
            address: (*self.socket.address).clone(),
            task: Task::Socket(task),
            reply,
            ticket: Ticket::default(),
        };
        self.sockets.deliver.deliver(event, answer).await.map(|_| ())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.sockets.end(&self.socket, Closing::new(rules::LOST, ""));
    }
}
