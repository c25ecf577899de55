//! `wasmkeep:actor/websockets`, and what its handlers are given.

use bytes::Bytes;
use wasmkeep_supervisors::event::{
    AttachmentError, CloseError, Message, OpenRequest, SendError, SocketId,
};
use wasmkeep_wit::actor::wasmkeep::actor::websockets as wit;

use super::state::HostState;

impl wit::Host for HostState {
    fn connections(&mut self) -> wasmtime::Result<Vec<wit::SocketId>> {
        Ok(self.actor().connections().into_iter().map(|socket| socket.0).collect())
    }

    fn send(
        &mut self,
        socket: wit::SocketId,
        message: wit::Message,
    ) -> wasmtime::Result<Result<(), wit::SendError>> {
        let message = match message {
            wit::Message::Text(text) => Message::Text(text.into()),
            wit::Message::Binary(bytes) => Message::Binary(Bytes::from(bytes)),
        };
        Ok(self.actor().send(SocketId(socket), message).map_err(|error| match error {
            SendError::Closed => wit::SendError::Closed,
            SendError::Backpressure => wit::SendError::Backpressure,
            SendError::TooLarge => wit::SendError::TooLarge,
        }))
    }

    fn close(
        &mut self,
        socket: wit::SocketId,
        code: u16,
        reason: String,
    ) -> wasmtime::Result<Result<(), wit::CloseError>> {
        let closed = self.actor().close_socket(SocketId(socket), code, reason);
        Ok(closed.map_err(|error| match error {
            CloseError::Closed => wit::CloseError::Closed,
            CloseError::InvalidCode => wit::CloseError::InvalidCode,
            CloseError::ReasonTooLong => wit::CloseError::ReasonTooLong,
        }))
    }

    fn attachment(&mut self, socket: wit::SocketId) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(self.actor().attachment(SocketId(socket)))
    }

    fn set_attachment(
        &mut self,
        socket: wit::SocketId,
        bytes: Vec<u8>,
    ) -> wasmtime::Result<Result<(), wit::AttachmentError>> {
        Ok(self.actor().set_attachment(SocketId(socket), bytes).map_err(|error| match error {
            AttachmentError::Closed => wit::AttachmentError::Closed,
            AttachmentError::TooLarge => wit::AttachmentError::TooLarge,
        }))
    }
}

pub fn request_in(request: OpenRequest) -> wit::OpenRequest {
    let header = |(name, value): (Bytes, Bytes)| {
        (String::from_utf8_lossy(&name).into_owned(), Vec::from(value))
    };
    wit::OpenRequest {
        path: request.path,
        headers: request.headers.into_iter().map(header).collect(),
    }
}

pub fn message_in(message: Message) -> wit::Message {
    match message {
        Message::Text(text) => wit::Message::Text(text.into_string()),
        Message::Binary(bytes) => wit::Message::Binary(Vec::from(bytes)),
    }
}
