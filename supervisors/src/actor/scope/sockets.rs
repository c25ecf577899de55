//! What a guest's calls about its WebSockets mean.

use std::sync::Arc;

use super::ActorScope;
use crate::event::{Message, SendError, SocketId};
use crate::socket::Socket;

impl ActorScope {
    /// One of this actor's own sockets; no other can be named.
    pub(super) fn socket(&self, id: SocketId) -> Option<Arc<Socket>> {
        self.sockets.find(&self.address, id)
    }

    pub(super) fn send_to(&self, id: SocketId, message: Message) -> Result<(), SendError> {
        let Some(socket) = self.socket(id) else { return Err(SendError::Closed) };
        let sent = socket.send(self.shared(message));
        match sent {
            Ok(()) => self.metrics.socket_messages_sent.inc(),
            Err(SendError::Backpressure) => self.metrics.socket_backpressure.inc(),
            Err(_) => {}
        }
        sent
    }

    /// A guest that sends one message to many hands it over again for each. It is kept once.
    fn shared(&self, message: Message) -> Message {
        let mut state = self.lock();
        match &state.sent {
            Some(sent) if *sent == message => sent.clone(),
            _ => state.sent.insert(message).clone(),
        }
    }

    /// The actor has been deleted.
    pub(super) fn end_sockets(&self) {
        if self.sockets_end_with_actor {
            self.sockets.end_with_actor(&self.address);
        }
    }
}
