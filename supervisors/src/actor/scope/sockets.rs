//! What a guest's calls about its WebSockets mean.

use std::sync::Arc;

use super::{ActorScope, State};
use crate::event::{Message, SendError, SocketId};
use crate::socket::Socket;

impl ActorScope {
    /// One of this actor's own sockets; no other can be named.
    pub(super) fn socket(&self, id: SocketId) -> Option<Arc<Socket>> {
        self.sockets.find(&self.address, id)
    }

    /// An event of this socket begins.
    pub fn know(&self, socket: Arc<Socket>) {
        self.lock().known.push(socket);
    }

    pub(super) fn know_connections(&self) -> Vec<SocketId> {
        let open = self.sockets.open_of(&self.address);
        let ids = open.iter().map(|socket| socket.id).collect();
        self.lock().known = open;
        ids
    }

    pub(super) fn send_to(&self, id: SocketId, message: Message) -> Result<(), SendError> {
        let (known, message) = {
            let mut state = self.lock();
            (state.known(id), state.shared(message))
        };
        let Some(socket) = known.or_else(|| self.socket(id)) else { return Err(SendError::Closed) };
        let sent = socket.send(message);
        match sent {
            Ok(()) => self.metrics.socket_messages_sent.inc(),
            Err(SendError::Backpressure) => self.metrics.socket_backpressure.inc(),
            Err(_) => {}
        }
        sent
    }

    /// The actor has been deleted.
    pub(super) fn end_sockets(&self) {
        if self.sockets_end_with_actor {
            self.sockets.end_with_actor(&self.address);
        }
    }
}

impl State {
    /// The event has ended.
    pub(super) fn forget_sockets(&mut self) {
        match self.known.len() {
            // The room for one is used again with the next message.
            0 | 1 => self.known.clear(),
            _ => self.known = Vec::new(),
        }
    }

    fn known(&self, id: SocketId) -> Option<Arc<Socket>> {
        let place = self.known.binary_search_by_key(&id, |socket| socket.id).ok()?;
        Some(Arc::clone(&self.known[place]))
    }

    /// A guest that sends one message to many hands it over again for each. It is kept once.
    fn shared(&mut self, message: Message) -> Message {
        match &self.sent {
            Some(sent) if *sent == message => sent.clone(),
            _ => self.sent.insert(message).clone(),
        }
    }
}
