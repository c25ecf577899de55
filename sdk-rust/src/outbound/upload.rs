use crate::bindings::wasi::http::types::{
    ErrorCode, FutureIncomingResponse, IncomingResponse, OutgoingBody,
};
use crate::bindings::wasi::io::poll::{Pollable, poll};
use crate::bindings::wasi::io::streams::OutputStream;

/// A body on its way out, sent as the server takes it.
#[derive(Debug)]
pub(crate) struct Upload {
    bytes: Vec<u8>,
    sent: usize,
    /// None once all is sent, or the server takes no more. The stream goes first: it is a child of
    /// the body.
    to: Option<(OutputStream, OutgoingBody)>,
}

impl Upload {
    pub(super) fn new(bytes: Vec<u8>, stream: OutputStream, body: OutgoingBody) -> Self {
        Upload { bytes, sent: 0, to: Some((stream, body)) }
    }

    /// Sends what there is room for; true once there is nothing left to do.
    pub(crate) fn go_on(&mut self) -> bool {
        while let Some((stream, _)) = &self.to {
            let rest = &self.bytes[self.sent..];
            if rest.is_empty() {
                self.finish();
                return true;
            }
            let taken = match stream.check_write() {
                Ok(0) => return false,
                Ok(room) => rest.len().min(usize::try_from(room).unwrap_or(usize::MAX)),
                Err(_) => 0,
            };
            if taken == 0 || stream.write(&rest[..taken]).is_err() {
                // The server has what it wants: its answer says the rest.
                self.to = None;
                return true;
            }
            self.sent += taken;
        }
        true
    }

    /// Ready when there is room again.
    pub(crate) fn subscribe(&self) -> Option<Pollable> {
        self.to.as_ref().map(|(stream, _)| stream.subscribe())
    }

    fn finish(&mut self) {
        if let Some((stream, body)) = self.to.take() {
            drop(stream);
            // Its length was declared as it is, so nothing can be wrong with it.
            let _ = OutgoingBody::finish(body, None);
        }
    }
}

/// A request that was sent and has no answer yet.
pub(super) struct Exchange {
    pub(super) upload: Option<Upload>,
    pub(super) answer: FutureIncomingResponse,
}

pub(super) type Outcome = (Result<IncomingResponse, ErrorCode>, Option<Upload>);

/// Sends what is left of each, and waits until all have an answer.
pub(super) fn finish_all(exchanges: Vec<Exchange>) -> Vec<Outcome> {
    let mut outcomes: Vec<Option<Outcome>> = exchanges.iter().map(|_| None).collect();
    let mut open: Vec<(usize, Exchange)> = exchanges.into_iter().enumerate().collect();
    while !open.is_empty() {
        let mut waits = Vec::new();
        for (_, exchange) in &mut open {
            if exchange.upload.as_mut().is_some_and(Upload::go_on) {
                exchange.upload = None;
            }
            waits.push(exchange.answer.subscribe());
            waits.extend(exchange.upload.as_ref().and_then(Upload::subscribe));
        }
        poll(&waits.iter().collect::<Vec<_>>());
        drop(waits);
        let mut still_open = Vec::new();
        for (at, exchange) in open {
            match exchange.answer.get() {
                None => still_open.push((at, exchange)),
                Some(answer) => {
                    let taken = |()| Err(ErrorCode::InternalError(None));
                    outcomes[at] = Some((answer.unwrap_or_else(taken), exchange.upload));
                }
            }
        }
        open = still_open;
    }
    outcomes.into_iter().flatten().collect()
}
