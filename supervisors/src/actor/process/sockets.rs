//! The events of an actor's WebSockets.

use std::sync::Arc;

use ractor::ActorRef;
use tokio::time::Instant;

use super::{ActorProcess, State, failed, refusal};
use crate::actor::mailbox::ActorMessage;
use crate::event::{Answer, Ran, Reason, Refusal, Reply, ReplyTo, SocketEvent, SocketTask, Task};
use crate::limits::SOCKET_TURN_TIME;
use crate::ports::{GuestCall, GuestFault};
use crate::tap::Outcome;

impl ActorProcess {
    /// Runs what was taken off the queue: an event, and after a message of a socket those that came
    /// together with it, each an event like any other. What is left of them when the turn is over
    /// stays with the socket, whose connection brings it anew.
    pub(super) async fn run_turn(
        &self,
        myself: &ActorRef<ActorMessage>,
        task: Task,
        reply: &mut ReplyTo,
        state: &mut State,
    ) {
        let found = match &task {
            Task::Socket(task) if task.followed => {
                self.0.scope.sockets.find(&state.shared.address, task.socket)
            }
            _ => None,
        };
        let Some(socket) = found else {
            self.run(task, reply, state).await;
            return;
        };
        let until = Instant::now() + SOCKET_TURN_TIME;
        // The sender waits for the end of the last, unless already the first was not run.
        let (mut first, mut ended) = ReplyTo::channel();
        self.run(task, &mut first, state).await;
        if let Ok(Answer::Ended(Err(refusal))) = ended.try_recv()
            && refusal.ran == Ran::NotRun
        {
            reply.send(Err(refusal));
            return;
        }
        while Instant::now() < until
            && !self.0.residents.grace_is_over()
            && state.scope.is_held()
            && self.ensure_owner(myself, state).await.is_ok()
            && let Some((message, _)) = socket.next_received()
        {
            self.follow(state);
            let task = SocketTask {
                socket: socket.id,
                caller: socket.caller.clone(),
                event: SocketEvent::Message(message.clone()),
                followed: false,
            };
            let outcome = self.run(Task::Socket(task), &mut ReplyTo::nobody(), state).await;
            if matches!(outcome, Outcome::Refused(_)) {
                // Its connection brings it anew, and learns what speaks against it.
                socket.receive_again(message);
                break;
            }
        }
        reply.send(Ok(Reply::done()));
    }

    pub(super) async fn run_socket(
        &self,
        task: SocketTask,
        reply: &mut ReplyTo,
        state: &mut State,
        deadline: Instant,
    ) -> Outcome {
        let (id, opens) = (task.socket, matches!(task.event, SocketEvent::Open(_)));
        let sockets = &self.0.scope.sockets;
        let found = sockets.find(&state.shared.address, id).filter(|socket| match task.event {
            SocketEvent::Open(_) => true,
            // Of a socket that it closed meanwhile the actor hears its end, and nothing more.
            SocketEvent::Message(_) => socket.is_heard(),
            SocketEvent::Close(_) => !socket.is_bereft(),
        });
        let Some(socket) = found else {
            reply.send(Ok(Reply::done()));
            return Outcome::Skipped;
        };
        state.scope.begin_event(&task.caller, deadline);
        state.scope.know(Arc::clone(&socket));
        let served = self.serve_socket(task, state, deadline).await;
        if opens && served.is_ok() {
            // Before the event ends: a delete that it asked for takes this socket along.
            sockets.accept(&socket);
        }
        self.end_event(state, None).await;
        match served {
            Ok(()) => {
                reply.send(Ok(Reply::done()));
                Outcome::Answered
            }
            Err(refusal) if refusal.reason == Reason::SocketRefused => {
                reply.send(Err(refusal));
                Outcome::Answered
            }
            Err(refusal) => {
                let outcome = failed(state, &refusal);
                reply.send(Err(refusal));
                outcome
            }
        }
    }

    /// Makes the actor ready and runs the handler.
    async fn serve_socket(
        &self,
        task: SocketTask,
        state: &mut State,
        deadline: Instant,
    ) -> Result<(), Refusal> {
        self.ready(&task.caller, state, deadline).await?;
        let SocketTask { socket, event, .. } = task;
        let opens = matches!(event, SocketEvent::Open(_));
        let ended = self.call(state, GuestCall::Socket { socket, event }, deadline).await;
        ended.map_err(|fault| match fault {
            GuestFault::Refused(text) if opens => {
                Refusal::ran(Reason::SocketRefused).with_detail(text)
            }
            fault => refusal(&fault),
        })
    }
}
