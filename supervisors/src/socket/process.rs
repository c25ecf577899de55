//! Looks after the sockets of the node: pings silent clients, gives up lost ones, and tells actors
//! of sockets that have ended.
//!
//! It remembers nothing that matters: sockets stand in `Sockets`, also those whose end is still to
//! be told, and a close event on its way is a task of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ractor::{Actor as Process, ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use super::held::Socket;
use super::registry::{Sockets, lock};
use super::rules;
use crate::event::{Event, ReplyTo, SocketEvent, SocketTask, Task, Ticket};

/// How often silent clients are looked for.
const LOOK: Duration = Duration::from_secs(1);

pub enum SocketsMessage {
    /// Sockets may have ended.
    Ended,
    /// Clients may be silent.
    Look,
}

/// What the process works with.
pub struct SocketsParts {
    pub sockets: Arc<Sockets>,
    /// Close events handed over at once.
    pub at_once: usize,
    pub handed: Arc<AtomicUsize>,
}

pub struct SocketsProcess(pub Arc<SocketsParts>);

impl Process for SocketsProcess {
    type Msg = SocketsMessage;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<SocketsMessage>,
        (): (),
    ) -> Result<(), ActorProcessingErr> {
        self.0.sockets.hang(myself.clone());
        myself.send_after(LOOK, || SocketsMessage::Look);
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<SocketsMessage>,
        message: SocketsMessage,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SocketsMessage::Ended => {
                self.0.sockets.answer();
                self.tell_ended();
            }
            SocketsMessage::Look => {
                self.0.sockets.look(Instant::now());
                myself.send_after(LOOK, || SocketsMessage::Look);
            }
        }
        Ok(())
    }
}

impl SocketsProcess {
    fn tell_ended(&self) {
        let sockets = &self.0.sockets;
        while self.0.handed.load(Ordering::SeqCst) < self.0.at_once {
            let Some((socket, times)) = lock(&sockets.ended).pop_front() else { return };
            // One behind a long event of its actor takes nothing that others could use.
            let counts = !sockets.deliver.is_busy(&socket.address);
            let handed = counts.then(|| Handed::new(&self.0));
            let sockets = Arc::clone(sockets);
            tokio::spawn(async move {
                tell(&sockets, socket, times).await;
                drop(handed);
            });
        }
    }
}

/// Tells an actor of a socket's end, now or later.
async fn tell(sockets: &Arc<Sockets>, socket: Arc<Socket>, times: u32) {
    let Some(closing) = socket.ended().filter(|_| !socket.is_bereft()) else {
        return sockets.forget(&socket);
    };
    let (reply, answer) = ReplyTo::channel();
    let task = SocketTask {
        socket: socket.id,
        caller: socket.caller.clone(),
        event: SocketEvent::Close(closing),
        followed: false,
    };
    let event = Event {
        address: (*socket.address).clone(),
        task: Task::Socket(task),
        reply,
        ticket: Ticket::default(),
    };
    match sockets.deliver.deliver(event, answer).await {
        Ok(_) => sockets.forget(&socket),
        Err(refusal) => match rules::close_retry(&refusal, times) {
            Some(wait) => sockets.tell_later(socket, times.saturating_add(1), wait),
            None => {
                tracing::warn!(actor = %socket.address, %refusal, "close event failed");
                sockets.forget(&socket);
            }
        },
    }
}

/// A close event that counts among those at once, until it is dropped.
struct Handed(Arc<SocketsParts>);

impl Handed {
    fn new(parts: &Arc<SocketsParts>) -> Self {
        parts.handed.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(parts))
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.0.handed.fetch_sub(1, Ordering::SeqCst);
        self.0.sockets.ring();
    }
}
