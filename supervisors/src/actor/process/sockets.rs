//! The events of an actor's WebSockets.

use tokio::time::Instant;

use super::{ActorProcess, State, failed, refusal};
use crate::event::{Reason, Refusal, Reply, ReplyTo, SocketEvent, SocketTask};
use crate::ports::{GuestCall, GuestFault};
use crate::tap::Outcome;

impl ActorProcess {
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
