//! `wasmkeep:actor/websockets`: this build accepts no upgrade, so an actor has no sockets.

use wasmkeep_wit::actor::wasmkeep::actor::websockets as wit;

use super::state::HostState;

impl wit::Host for HostState {
    fn connections(&mut self) -> wasmtime::Result<Vec<wit::SocketId>> {
        Ok(Vec::new())
    }

    fn send(
        &mut self,
        _socket: wit::SocketId,
        _message: wit::Message,
    ) -> wasmtime::Result<Result<(), wit::SendError>> {
        Ok(Err(wit::SendError::Closed))
    }

    fn close(
        &mut self,
        _socket: wit::SocketId,
        _code: u16,
        _reason: String,
    ) -> wasmtime::Result<Result<(), wit::CloseError>> {
        Ok(Err(wit::CloseError::Closed))
    }

    fn attachment(&mut self, _socket: wit::SocketId) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn set_attachment(
        &mut self,
        _socket: wit::SocketId,
        _bytes: Vec<u8>,
    ) -> wasmtime::Result<Result<(), wit::AttachmentError>> {
        Ok(Err(wit::AttachmentError::Closed))
    }
}
