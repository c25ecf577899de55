//! An event taken apart for its way to a peer, and put together again when it did not get there.

use bytes::Bytes;
use wasmkeep_supervisors::event::{Body, Caller, Event, ReplyTo, Request, Task, Ticket};
use wasmkeep_supervisors::ports::Hops;
use wasmkeep_supervisors::relay::{Carried, Hop};

use super::body::{Gate, Outgoing};

/// An event without its body, which is given back with it if it can be.
pub struct Taken {
    pub hop: Hop,
    pub body: TakenBody,
    reply: ReplyTo,
    ticket: Ticket,
}

pub enum TakenBody {
    Empty,
    Whole(Bytes),
    Gated(Gate),
}

impl Taken {
    pub fn apart(hops: Hops, event: Event) -> Result<Self, Box<Event>> {
        let Event { address, task, reply, ticket } = event;
        let (carried, caller, body) = match task {
            Task::Request(request) => {
                let body = match request.body {
                    Body::Empty => TakenBody::Empty,
                    Body::Whole(bytes) => TakenBody::Whole(bytes),
                    Body::Stream(pieces) => TakenBody::Gated(Gate::before(pieces)),
                };
                (Carried::Request(request.head), request.caller, body)
            }
            Task::Alarm => (Carried::Alarm, Caller::Outside, TakenBody::Empty),
            task @ Task::Socket(_) => return Err(Box::new(Event { address, task, reply, ticket })),
        };
        Ok(Self { hop: Hop { hops, address, caller, carried }, body, reply, ticket })
    }

    /// The event as it was; none when its body may have been read.
    pub fn together(self) -> Option<Box<Event>> {
        let Self { hop, body, reply, ticket } = self;
        let task = match hop.carried {
            Carried::Request(head) => {
                let body = match body {
                    TakenBody::Empty => Body::Empty,
                    TakenBody::Whole(bytes) => Body::Whole(bytes),
                    TakenBody::Gated(gate) => Body::Stream(gate.take_back()?),
                };
                let caller = hop.caller;
                Task::Request(Request { head, body, caller })
            }
            Carried::Alarm | Carried::Socket(_) => Task::Alarm,
        };
        Some(Box::new(Event { address: hop.address, task, reply, ticket }))
    }
}

impl TakenBody {
    pub fn outgoing(&self) -> Outgoing {
        match self {
            TakenBody::Empty => Outgoing::Whole(Bytes::new()),
            TakenBody::Whole(bytes) => Outgoing::Whole(bytes.clone()),
            TakenBody::Gated(gate) => Outgoing::Gated(gate.clone()),
        }
    }

    pub fn gate(&self) -> Option<Gate> {
        match self {
            TakenBody::Gated(gate) => Some(gate.clone()),
            TakenBody::Empty | TakenBody::Whole(_) => None,
        }
    }
}
