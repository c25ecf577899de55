//! A queue that is an actor: the class, in one line, and its client.
//!
//! ```no_run
//! // The class: a crate of its own. Every name of it is a queue.
//! wasmkeep_sdk::actor!(wasmkeep_sdk::queue::Queue);
//! ```
//!
//! ```no_run
//! # use wasmkeep_sdk::{Result, queue};
//! use std::time::Duration;
//!
//! # fn produce() -> Result<()> {
//! let mails = queue::Client::new("queue/mails");
//! mails.send("to ann")?;
//! mails.send_after("to bob, tomorrow", Duration::from_secs(24 * 3600))?;
//! # Ok(())
//! # }
//! # fn consume() -> Result<()> {
//! let mails = queue::Client::new("queue/mails");
//! for mail in mails.receive(10, Duration::from_secs(60))? {
//!     match deliver(&mail.body) {
//!         Ok(()) => mails.ack(&mail)?,
//!         Err(_) => mails.nack(&mail, Duration::from_secs(30))?,
//!     }
//! }
//! # Ok(())
//! # }
//! # fn deliver(_: &str) -> Result<()> { Ok(()) }
//! ```
//!
//! **Messages** are text of at most 64 KiB. [`send`](Client::send) returns once the message is
//! durable. It is then in the queue until it is acknowledged, or deleted when it is dead.
//!
//! **States.** *Delayed* until its delay has passed, *ready*, *leased* while a consumer has it, and
//! *dead* when its last lease ended without an acknowledgement. Times are milliseconds of the clock of
//! the queue's node. They are kept with the message: they pass while the server is down.
//!
//! **Order.** [`receive`](Client::receive) takes what became ready first; of those that became ready
//! in one millisecond, what was sent first. A message whose lease ended became ready then.
//!
//! **Leases.** Who receives a message has it for as long as it asked, 1 ms to 12 h, and nobody else
//! gets it meanwhile. [`ack`](Client::ack) ends it for good, [`nack`](Client::nack) gives it back,
//! [`extend`](Client::extend) lets the lease end so long from now. When the lease has ended, none of
//! them can be done any more ([`QueueError::LeaseEnded`]), whether somebody else has the message or
//! not. So a message is delivered **at least once**: what is done for it should bear being done
//! twice.
//!
//! **Dead.** Each time it is received is an attempt. The lease of the fifth is the last: when it
//! ends, or is given back, the message is dead. It is not received any more, and stays until it is
//! [requeued](Client::requeue), with five new attempts, or [deleted](Client::delete_dead). The
//! operator may say another number than five, 1 to 1,000, as `QUEUE_MAX_ATTEMPTS` in an `--env` file
//! of the class; it counts for what is received from then on.
//!
//! **Consumers ask.** The queue calls nobody. A consumer that is an actor asks in its
//! [`alarm`](crate::Actor::alarm), and sets it sooner while there is more.
//!
//! **Crashes.** A message that was sent survives them all. A loss of power may take the last
//! moments' leases and acknowledgements: such a message is delivered again. A queue is one actor: it
//! does one thing at a time and holds 1 GiB, then `send` fails with 507.
//!
//! The requests themselves are in `docs/kv-and-queue.md`.

mod server;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::server::Queue;
use crate::actors::{self, Call, Failure};
use crate::options::in_ms;

const DELAY: &str = "x-wasmkeep-queue-delay-ms";
const LEASE_ENDED: u16 = 409;
const NOT_DEAD: &str = "there is no dead message";

/// A client of one queue.
#[derive(Clone, Debug)]
pub struct Client {
    target: String,
}

/// A message, while its lease lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Its number in the queue, given in the order of sending.
    pub id: u64,
    /// What was sent.
    pub body: String,
    /// 1 when it is received for the first time.
    pub attempt: u32,
    /// When it was sent, in milliseconds since 1970-01-01T00:00Z.
    pub sent_ms: u64,
    /// Stands for this lease.
    pub receipt: String,
}

impl Received {
    /// The body, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> crate::Result<T> {
        Ok(serde_json::from_str(&self.body)?)
    }
}

/// A message whose last lease ended without an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    /// Its number in the queue.
    pub id: u64,
    /// What was sent.
    pub body: String,
    /// How often it was received.
    pub attempts: u32,
    /// When it was sent, in milliseconds since 1970-01-01T00:00Z.
    pub sent_ms: u64,
    /// When its last lease ended.
    pub dead_ms: u64,
}

/// How many messages are in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Can be received.
    pub ready: u64,
    /// Wait for their time.
    pub delayed: u64,
    /// Are with a consumer.
    pub leased: u64,
    /// Are not received any more.
    pub dead: u64,
}

/// Why a queue did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The message is not this consumer's any more: its lease has ended. Nothing changed.
    #[error("the lease of message {id} has ended")]
    LeaseEnded {
        /// The message.
        id: u64,
    },
    /// All else: a refusal of the host, no answer, a message too large (413), a full queue (507).
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<actors::CallError> for QueueError {
    fn from(error: actors::CallError) -> Self {
        QueueError::Failed(error.into())
    }
}

impl Client {
    /// A client of the queue `class/name`, the name as it is.
    pub fn new(target: impl Into<String>) -> Self {
        Client { target: target.into() }
    }

    /// Sends a message, and returns its number once it is durable. Without an answer, it may have
    /// been sent; sent again, it is then there twice.
    pub fn send(&self, body: impl Into<String>) -> Result<u64, QueueError> {
        sent(self.post("/messages").body(body.into()))
    }

    /// As [`send`](Client::send), of a message that can be received after a delay: at most 366
    /// days, rounded up to milliseconds.
    pub fn send_after(&self, body: impl Into<String>, delay: Duration) -> Result<u64, QueueError> {
        sent(self.post("/messages").body(body.into()).header(DELAY, in_ms(delay)))
    }

    /// As [`send`](Client::send), of a value written as JSON.
    pub fn send_json(&self, value: &(impl Serialize + ?Sized)) -> Result<u64, QueueError> {
        sent(self.post("/messages").json(value))
    }

    /// As [`send_after`](Client::send_after), of a value written as JSON.
    pub fn send_json_after(
        &self,
        value: &(impl Serialize + ?Sized),
        delay: Duration,
    ) -> Result<u64, QueueError> {
        sent(self.post("/messages").json(value).header(DELAY, in_ms(delay)))
    }

    /// Receives what is ready, at most `max` messages (1 to 10) with 256 KiB of text together, for so
    /// long: 1 ms to 12 h, rounded up to milliseconds. It does not wait: when none is ready, none is
    /// received.
    ///
    /// Without an answer, they may be leased; they come again when that lease has ended.
    pub fn receive(&self, max: u32, lease: Duration) -> Result<Vec<Received>, QueueError> {
        let path = format!("/receive?max={max}&lease-ms={}", in_ms(lease));
        Ok(read::<Messages<Received>>(self.post(path))?.messages)
    }

    /// Ends a message for good: what it asked for is done.
    pub fn ack(&self, message: &Received) -> Result<(), QueueError> {
        of_lease(message, self.post(action(message, "ack")))
    }

    /// Gives a message back, to be received again after a delay of at most 366 days; at once if it
    /// is zero. After the last attempt it is dead.
    pub fn nack(&self, message: &Received, delay: Duration) -> Result<(), QueueError> {
        of_lease(message, self.post(action(message, "nack")).header(DELAY, in_ms(delay)))
    }

    /// Lets the lease end so long from now, later or sooner than it would: 1 ms to 12 h.
    pub fn extend(&self, message: &Received, lease: Duration) -> Result<(), QueueError> {
        let path = format!("{}&lease-ms={}", action(message, "extend"), in_ms(lease));
        of_lease(message, self.post(path))
    }

    /// How many messages are in which state.
    pub fn counts(&self) -> Result<Counts, QueueError> {
        read(actors::call(&*self.target).get("/"))
    }

    /// Dead messages, in the order of their numbers, those with a number above `after`: at most 10,
    /// with 256 KiB of text together. None means that there are no more.
    pub fn dead(&self, after: u64) -> Result<Vec<Dead>, QueueError> {
        let call = actors::call(&*self.target).get(format!("/dead?after={after}"));
        Ok(read::<Messages<Dead>>(call)?.messages)
    }

    /// Makes a dead message ready, as if it had never been received. False when there is no dead
    /// one of this number.
    pub fn requeue(&self, id: u64) -> Result<bool, QueueError> {
        if_dead(self.post(format!("/dead/{id}/requeue")))
    }

    /// Deletes a dead message. False when there is no dead one of this number.
    pub fn delete_dead(&self, id: u64) -> Result<bool, QueueError> {
        if_dead(actors::call(&*self.target).delete(format!("/dead/{id}")))
    }

    fn post(&self, path: impl Into<String>) -> Call {
        actors::call(&*self.target).post(path)
    }
}

#[derive(Serialize, Deserialize)]
struct Sent {
    id: u64,
}

#[derive(Serialize, Deserialize)]
struct Messages<M> {
    messages: Vec<M>,
}

fn action(message: &Received, what: &str) -> String {
    format!("/messages/{}/{what}?receipt={}", message.id, message.receipt)
}

fn sent(call: Call) -> Result<u64, QueueError> {
    Ok(read::<Sent>(call)?.id)
}

fn read<T: DeserializeOwned>(call: Call) -> Result<T, QueueError> {
    let answer = call.send()?.done()?;
    let unreadable = |error: serde_json::Error| Failure::Unreadable(error.to_string());
    Ok(serde_json::from_slice(answer.bytes()).map_err(unreadable)?)
}

fn of_lease(message: &Received, call: Call) -> Result<(), QueueError> {
    match call.send()?.done() {
        Ok(_) => Ok(()),
        Err(Failure::Answered { status: LEASE_ENDED, .. }) => {
            Err(QueueError::LeaseEnded { id: message.id })
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Another actor's 404 is a failure: it is no queue.
fn if_dead(call: Call) -> Result<bool, QueueError> {
    match call.send()?.done() {
        Ok(_) => Ok(true),
        Err(Failure::Answered { status: 404, message }) if message.starts_with(NOT_DEAD) => {
            Ok(false)
        }
        Err(failure) => Err(failure.into()),
    }
}
