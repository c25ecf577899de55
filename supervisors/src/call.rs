//! Calls of an actor or of the front to actors: what is refused before anything runs, how long a
//! call may wait, and how much may come back.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::address::{ActorName, Address, Class};
use crate::event::{
    Body, BodyStream, Caller, Event, Header, Reason, Reply, ReplyTo, Request, RequestHead, Task,
    Ticket,
};
use crate::headers;
use crate::limits::{
    CALL_BODY_BYTES_MAX, CALL_HEAD_BYTES_MAX, CALL_RESERVE, CALL_RESERVE_WALL, CALLS_AT_ONCE,
};
use crate::metrics::Metrics;
use crate::ports::{CallError, CallRequest, CallResponse, Deliver};
use crate::tap::{CallEnded, Happening, Tap};

/// How long before its caller's wall a call gives up, so that the caller can still answer.
pub fn reserve(wall: Duration) -> Duration {
    if wall < CALL_RESERVE_WALL { wall / 5 } else { CALL_RESERVE }
}

/// What every call uses of the node.
pub struct CallPorts {
    pub deliver: Arc<dyn Deliver>,
    pub metrics: Arc<Metrics>,
    pub tap: Arc<Tap>,
}

/// Bounds how many calls may wait at once, beyond what a callee's queue bounds.
pub trait WaitingCalls: Send + Sync {
    /// Counts a call to `callee` that is about to wait, until what it returns is dropped; refuses
    /// one too many.
    fn begin(&self, callee: &Address) -> Result<WaitingCall, CallError>;
}

/// A call that is counted as waiting, for as long as this is kept.
pub type WaitingCall = Box<dyn Send>;

/// What the calls of one event share.
#[derive(Clone)]
pub struct Outgoing {
    pub ports: Arc<CallPorts>,
    /// Who calls: the last actor of its chain, or the front.
    pub caller: Caller,
    pub from: Address,
    pub deadline: Instant,
    pub waiting: Option<Arc<dyn WaitingCalls>>,
}

impl Outgoing {
    pub async fn call(
        self,
        target: String,
        request: CallRequest,
    ) -> Result<CallResponse, CallError> {
        let room = Room::new("the response is");
        self.call_within(&target, request, &room).await
    }

    /// Starts all calls together; one result each, in their order.
    pub async fn call_many(
        self,
        calls: Vec<(String, CallRequest)>,
    ) -> Vec<Result<CallResponse, CallError>> {
        let count = calls.len();
        let requests: usize = calls.iter().map(|(_, request)| request.body.len()).sum();
        if count > CALLS_AT_ONCE {
            let why = format!("{count} calls at once; {CALLS_AT_ONCE} is the most; nothing ran");
            return vec![Err(CallError::Failed(why)); count];
        }
        if requests > CALL_BODY_BYTES_MAX {
            let why = "the requests together are larger than 16 MiB; nothing ran";
            return vec![Err(CallError::Failed(why.into())); count];
        }
        let room = Room::new("the responses together are");
        let mut running = JoinSet::new();
        for (at, (target, request)) in calls.into_iter().enumerate() {
            let (outgoing, room) = (self.clone(), room.clone());
            running.spawn(async move { (at, outgoing.call_within(&target, request, &room).await) });
        }
        let lost = || Err(CallError::Failed("the call was lost; whether it ran is unknown".into()));
        let mut results: Vec<_> = (0..count).map(|_| lost()).collect();
        while let Some(ended) = running.join_next().await {
            if let Ok((at, result)) = ended {
                results[at] = result;
            }
        }
        results
    }

    async fn call_within(
        &self,
        target: &str,
        request: CallRequest,
        room: &Room,
    ) -> Result<CallResponse, CallError> {
        let started = Instant::now();
        let answer = self.answer(target, request, room).await;
        let (outcome, took) = (outcome(&answer), started.elapsed());
        self.ports.metrics.called(outcome, took);
        self.ports.tap.tell(&self.from, || {
            let status = answer.as_ref().ok().map(|response| response.status);
            Happening::CallOut(CallEnded::new(target, outcome, status, took))
        });
        answer
    }

    async fn answer(
        &self,
        target: &str,
        request: CallRequest,
        room: &Room,
    ) -> Result<CallResponse, CallError> {
        let address = self.address(target)?;
        if self.caller.waits_for(&address) {
            return Err(CallError::Reentrant);
        }
        let request = checked(request, self.caller.clone())?;
        if Instant::now() >= self.deadline {
            return Err(CallError::Timeout);
        }
        let _waits = self.waiting.as_ref().map(|waiting| waiting.begin(&address)).transpose()?;
        let (reply, from) = ReplyTo::channel();
        let task = Task::Request(request);
        let event = Event { address, task, reply, ticket: Ticket::default() };
        let reply = timeout_at(self.deadline, self.ports.deliver.deliver(event, from)).await;
        let reply = match reply.map_err(|_| CallError::Timeout)? {
            Ok(reply) => reply,
            Err(refusal) if refusal.reason == Reason::NotFound => {
                return Err(CallError::InvalidAddress);
            }
            // As a client would get it: what the host says about an event is the same for all.
            Err(refusal) => return self.received(refusal.to_reply(), room, true).await,
        };
        self.received(reply, room, false).await
    }

    fn address(&self, target: &str) -> Result<Address, CallError> {
        let parsed = target.split_once('/').and_then(|(class, name)| {
            Some(Address {
                tenant: self.from.tenant.clone(),
                class: Class::parse(class).ok()?,
                name: ActorName::parse(name).ok()?,
            })
        });
        parsed.ok_or(CallError::InvalidAddress)
    }

    async fn received(
        &self,
        reply: Reply,
        room: &Room,
        is_hosts: bool,
    ) -> Result<CallResponse, CallError> {
        let Reply { status, mut headers, body } = reply;
        if !is_hosts {
            headers.retain(|(name, _)| !headers::is_hosts(name));
        }
        let body = match body {
            Body::Empty => Bytes::new(),
            Body::Whole(bytes) => {
                room.take(bytes.len())?;
                bytes
            }
            Body::Stream(pieces) => timeout_at(self.deadline, collect(pieces, room))
                .await
                .map_err(|_| CallError::Timeout)??,
        };
        Ok(CallResponse { status, headers, body })
    }
}

/// What the bodies of responses may still hold.
#[derive(Clone)]
struct Room {
    left: Arc<AtomicUsize>,
    what: &'static str,
}

impl Room {
    fn new(what: &'static str) -> Self {
        Self { left: Arc::new(AtomicUsize::new(CALL_BODY_BYTES_MAX)), what }
    }

    fn take(&self, bytes: usize) -> Result<(), CallError> {
        let less = |left: usize| left.checked_sub(bytes);
        match self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
            Ok(_) => Ok(()),
            Err(_) => {
                let why = format!("{} larger than 16 MiB; the callee ran", self.what);
                Err(CallError::Failed(why))
            }
        }
    }
}

async fn collect(mut pieces: BodyStream, room: &Room) -> Result<Bytes, CallError> {
    let mut body = BytesMut::new();
    while let Some(piece) = poll_fn(|context| pieces.as_mut().poll_next(context)).await {
        let piece = piece.map_err(|error| {
            CallError::Failed(format!("the response broke off: {error}; the callee ran"))
        })?;
        room.take(piece.len())?;
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// Framing is the host's: a guest's word about it would contradict the body it gave.
const FRAMING: [&[u8]; 6] =
    [b"connection", b"content-length", b"host", b"te", b"transfer-encoding", b"upgrade"];

fn checked(request: CallRequest, caller: Caller) -> Result<Request, CallError> {
    let CallRequest { method, path, headers, body } = request;
    let refuse = |why: &str| CallError::Failed(format!("{why}; nothing ran"));
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(refuse("the method is no HTTP method"));
    }
    if !path.starts_with('/') || path.bytes().any(must_be_encoded) {
        return Err(refuse(
            "the path must start with \"/\", and spaces, control characters and any of # < > ` in \
             it be percent-encoded",
        ));
    }
    // As HTTP/1.1 writes them: what counts nothing for each would bound no number of them.
    let head: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if method.len() + path.len() + head > CALL_HEAD_BYTES_MAX {
        return Err(refuse("method, path and headers together are larger than 32 KiB"));
    }
    if body.len() > CALL_BODY_BYTES_MAX {
        return Err(refuse("the request's body is larger than 16 MiB"));
    }
    let mut kept: Vec<Header> = Vec::with_capacity(headers.len() + 1);
    for (name, value) in headers {
        if name.is_empty() || !name.iter().copied().all(is_token) {
            return Err(refuse("a header's name is none"));
        }
        if value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
            return Err(refuse("a header's value holds control characters"));
        }
        let name = name.to_ascii_lowercase();
        if !headers::is_dropped_on_calls(&name) && !FRAMING.contains(&name.as_slice()) {
            kept.push((name.into(), value));
        }
    }
    let body = match body.len() {
        0 => Body::Empty,
        length => {
            kept.push((Bytes::from_static(b"content-length"), length.to_string().into()));
            Body::Whole(body)
        }
    };
    let head = RequestHead { method, path, authority: String::new(), headers: kept };
    Ok(Request { head, body, caller })
}

/// What no request target holds as it is; a path would end at a `#`.
fn must_be_encoded(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f || b"#<>`".contains(&byte)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn outcome(answer: &Result<CallResponse, CallError>) -> &'static str {
    match answer {
        Ok(_) => "answered",
        Err(CallError::Timeout) => "timeout",
        Err(CallError::Reentrant) => "reentrant",
        Err(CallError::InvalidAddress) => "invalid-address",
        Err(CallError::Failed(_)) => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_wall_reserves_a_fifth_of_itself() {
        let seconds = Duration::from_secs;
        assert_eq!(reserve(seconds(30)), seconds(5));
        assert_eq!(reserve(seconds(25)), seconds(5));
        assert_eq!(reserve(seconds(20)), seconds(4));
        assert_eq!(reserve(seconds(1)), Duration::from_millis(200));
    }

    fn request(method: &str, path: &str, headers: &[(&'static str, &'static str)]) -> CallRequest {
        let headers = headers.iter().map(|(n, v)| (Bytes::from(*n), Bytes::from(*v)));
        CallRequest {
            method: method.into(),
            path: path.into(),
            headers: headers.collect(),
            body: Bytes::from_static(b"four"),
        }
    }

    #[test]
    fn what_is_no_request_is_refused_before_anything_runs() {
        let wrong = [
            request("", "/", &[]),
            request("GET /", "/", &[]),
            request("GET", "", &[]),
            request("GET", "no-slash", &[]),
            request("GET", "/a b", &[]),
            request("GET", "/a\r\nx: y", &[]),
            request("GET", "/a#b", &[]),
            request("GET", "/a?b=<c>", &[]),
            request("GET", &format!("/{}", "a".repeat(CALL_HEAD_BYTES_MAX)), &[]),
            request("GET", "/", &[("a", ""); CALL_HEAD_BYTES_MAX / 5]),
            request("GET", "/", &[("", "x")]),
            request("GET", "/", &[("a b", "x")]),
            request("GET", "/", &[("a", "x\r\ny: z")]),
        ];
        for wrong in wrong {
            let shown = format!("{wrong:?}");
            let error = checked(wrong, Caller::Outside).expect_err(&shown);
            assert!(error.to_string().ends_with("nothing ran"), "{error}");
        }
    }

    #[test]
    fn headers_of_the_host_and_of_the_framing_are_the_hosts() {
        let given = [
            ("X-WasmKeep-Caller", "default/a/b"),
            ("Content-Length", "9999"),
            ("Transfer-Encoding", "chunked"),
            ("Host", "elsewhere"),
            ("X-Wasmkeep-KV-Durable", "1"),
            ("Accept", "text/plain"),
        ];
        let Request { head, .. } =
            checked(request("PUT", "/", &given), Caller::Outside).expect("a request");
        let kept: Vec<_> =
            head.headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(
            kept,
            [
                (&b"x-wasmkeep-kv-durable"[..], &b"1"[..]),
                (b"accept", b"text/plain"),
                (b"content-length", b"4"),
            ]
        );
    }
}
