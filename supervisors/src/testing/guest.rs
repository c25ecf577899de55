//! A guest without code: the request's path is its script.
//!
//! Steps are separated by `;`, as in `/exec a;wait;trap`:
//!
//! | step | what the guest does |
//! | --- | --- |
//! | `exec S`, `durable S`, `query` | the storage call; its result is the next answer |
//! | `delete`, `delete-durable` | deletes its actor |
//! | `set MS`, `get`, `clear`, `attempt` | the alarm calls |
//! | `call C/N /SCRIPT` | calls another actor; steps of the called script are separated by `,` |
//! | `env NAME` | reads a value |
//! | `wait` | waits until the test calls `release` |
//! | `answer` | answers with 200 and the last result, and goes on |
//! | `read` | reads the whole body of its request; that is the result |
//! | `echo` | answers with the body of its request, as it comes |
//! | `silent` | ends without an answer |
//! | `refuse`, `trap`, `spend` | fails, for each kind of `GuestFault` |
//! | `panic` | panics, as a fault of the host would |
//!
//! Events of sockets have scripts too: an open its path, a message its text. There `send TEXT` sends
//! to all, `keep TEXT` sets the attachment, `close REASON` closes with 4000.
//!
//! A script that has not answered by its end answers then.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::event::{
    Body, Caller, Event, Message, Reply, ReplyFrom, ReplyTo, Request, RequestHead, SocketEvent,
    SocketId, Task, Ticket,
};
use crate::ports::{
    CallRequest, EventScope, Guest, GuestCall, GuestFault, GuestFuture, Instance, RowSet, SqlError,
    SqlValue,
};
use crate::time::Timestamp;

/// A handler that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub address: Address,
    /// The script; `init` for `on-init`.
    pub script: String,
    /// Which instance it ran in, counted from 1.
    pub instance: u64,
}

#[derive(Default)]
struct Record {
    started: Vec<Started>,
    running: HashMap<Address, usize>,
    overlaps: usize,
    init_script: String,
    alarm_script: String,
}

struct Stage {
    component: String,
    record: Mutex<Record>,
    released: Semaphore,
    waiting: AtomicUsize,
    instances: AtomicU64,
    alive: AtomicUsize,
    inits_to_fail: AtomicUsize,
    instantiations_to_fail: AtomicUsize,
    worn_after_each: AtomicUsize,
}

/// Clones are the same component.
#[derive(Clone)]
pub struct ScriptedGuest(Arc<Stage>);

impl ScriptedGuest {
    pub fn new(component: &str) -> Self {
        Self(Arc::new(Stage {
            component: component.to_owned(),
            record: Mutex::default(),
            released: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            instances: AtomicU64::new(0),
            alive: AtomicUsize::new(0),
            inits_to_fail: AtomicUsize::new(0),
            instantiations_to_fail: AtomicUsize::new(0),
            worn_after_each: AtomicUsize::new(0),
        }))
    }

    /// Lets one `wait`, now or later, go on.
    pub fn release(&self, waits: usize) {
        self.0.released.add_permits(waits);
    }

    /// Handlers that are in a `wait` now.
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::SeqCst)
    }

    /// What `on-init` does from now on.
    pub fn set_init(&self, script: &str) {
        self.0.lock().init_script = script.to_owned();
    }

    /// What `on-alarm` does from now on.
    pub fn set_alarm(&self, script: &str) {
        self.0.lock().alarm_script = script.to_owned();
    }

    pub fn fail_inits(&self, times: usize) {
        self.0.inits_to_fail.store(times, Ordering::SeqCst);
    }

    pub fn fail_instantiations(&self, times: usize) {
        self.0.instantiations_to_fail.store(times, Ordering::SeqCst);
    }

    /// The next `times` times an instance is asked, it is worn.
    pub fn wear(&self, times: usize) {
        self.0.worn_after_each.store(times, Ordering::SeqCst);
    }

    /// Instances in memory now.
    pub fn alive(&self) -> usize {
        self.0.alive.load(Ordering::SeqCst)
    }

    /// Every handler started so far, in order.
    pub fn started(&self) -> Vec<Started> {
        self.0.lock().started.clone()
    }

    /// The scripts started at `address` so far, `on-init` among them.
    pub fn scripts(&self, address: &Address) -> Vec<String> {
        let started = self.started().into_iter();
        started.filter(|s| s.address == *address).map(|s| s.script).collect()
    }

    /// Fails if two handlers of one actor ever ran at once.
    pub fn assert_one_at_a_time(&self) {
        assert_eq!(self.0.lock().overlaps, 0, "two handlers of one actor ran at once");
    }
}

impl Stage {
    fn script_of(&self, alarm: bool) -> String {
        let record = self.lock();
        if alarm { &record.alarm_script } else { &record.init_script }.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_one(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Guest for ScriptedGuest {
    fn component(&self) -> &str {
        &self.0.component
    }

    fn instantiate(&self, scope: Arc<dyn EventScope>) -> GuestFuture<'_, Box<dyn Instance>> {
        Box::pin(async move {
            if take_one(&self.0.instantiations_to_fail) {
                return Err(GuestFault::NotInstantiated("told to fail".into()));
            }
            let number = self.0.instances.fetch_add(1, Ordering::SeqCst) + 1;
            self.0.alive.fetch_add(1, Ordering::SeqCst);
            let stage = Arc::clone(&self.0);
            Ok(Box::new(ScriptedInstance { stage, scope, number }) as Box<dyn Instance>)
        })
    }
}

struct ScriptedInstance {
    stage: Arc<Stage>,
    scope: Arc<dyn EventScope>,
    number: u64,
}

impl Drop for ScriptedInstance {
    fn drop(&mut self) {
        self.stage.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Instance for ScriptedInstance {
    fn run<'a>(&'a mut self, call: GuestCall<'a>, deadline: Instant) -> GuestFuture<'a, ()> {
        Box::pin(async move {
            let (script, mut body, reply) = match call {
                GuestCall::Init => ("init".to_owned(), Body::Empty, None),
                GuestCall::Alarm => ("alarm".to_owned(), Body::Empty, None),
                GuestCall::Socket { socket, event } => {
                    return self.socket(socket, event, deadline).await;
                }
                GuestCall::Request { request, reply } => {
                    (request.head.path.replace('+', " "), request.body, Some(reply))
                }
            };
            let _running = Running::start(&self.stage, self.scope.address(), &script, self.number);
            let mut result = String::new();
            let Some(reply) = reply else {
                let is_alarm = script == "alarm";
                let own = self.stage.script_of(is_alarm);
                for step in own.split(';') {
                    self.step(step, deadline, &mut result).await?;
                }
                if is_alarm {
                    return Ok(());
                }
                return match take_one(&self.stage.inits_to_fail) {
                    true => Err(GuestFault::Refused("told to fail".into())),
                    false => Ok(()),
                };
            };
            for step in script.trim_start_matches('/').split(';') {
                match step {
                    "answer" => {
                        reply.send(Ok(answer(&result)));
                    }
                    "read" => result = read(std::mem::replace(&mut body, Body::Empty)).await,
                    "echo" => {
                        let body = std::mem::replace(&mut body, Body::Empty);
                        reply.send(Ok(Reply { status: 200, headers: Vec::new(), body }));
                    }
                    "silent" => return Err(GuestFault::NoResponse),
                    _ => self.step(step, deadline, &mut result).await?,
                }
            }
            if !reply.is_answered() {
                reply.send(Ok(answer(&result)));
            }
            Ok(())
        })
    }

    fn is_worn(&mut self) -> bool {
        take_one(&self.stage.worn_after_each)
    }
}

impl ScriptedInstance {
    /// The script of an open is its path, that of a message its text; a close runs none.
    async fn socket(
        &self,
        socket: SocketId,
        event: SocketEvent,
        deadline: Instant,
    ) -> Result<(), GuestFault> {
        let (name, script) = match event {
            SocketEvent::Open(request) => ("open", request.path.replace('+', " ")),
            SocketEvent::Message(message) => {
                ("message", String::from_utf8_lossy(message.bytes()).into_owned())
            }
            SocketEvent::Close(closing) => {
                let kept = self.scope.attachment(socket).unwrap_or_default();
                let kept = String::from_utf8_lossy(&kept).into_owned();
                ("close", format!("{} {} {kept}", closing.code, closing.reason))
            }
        };
        let told = format!("{name} {script}");
        let _running = Running::start(&self.stage, self.scope.address(), &told, self.number);
        let mut result = String::new();
        if name == "close" {
            return Ok(());
        }
        for step in script.trim_start_matches('/').split(';') {
            let (word, text) = step.split_once(' ').unwrap_or((step, ""));
            match word {
                "send" => {
                    // Handed over anew each time, as a component does.
                    for socket in self.scope.connections() {
                        let _ = self.scope.send(socket, Message::Text(text.to_owned().into()));
                    }
                }
                "keep" => {
                    let _ = self.scope.set_attachment(socket, text.into());
                }
                "close" => {
                    let _ = self.scope.close_socket(socket, 4000, text.into());
                }
                _ => self.step(step, deadline, &mut result).await?,
            }
        }
        Ok(())
    }

    async fn call(&self, text: &str) -> String {
        let (target, path) = text.split_once(' ').unwrap_or((text, "/"));
        let request = CallRequest {
            method: "GET".into(),
            // One token: a path has no spaces.
            path: path.replace(',', ";").replace(' ', "+"),
            headers: Vec::new(),
            body: Bytes::new(),
        };
        match self.scope.call(target, request).await {
            Ok(response) => {
                format!("{} {}", response.status, String::from_utf8_lossy(&response.body))
            }
            Err(error) => error.to_string(),
        }
    }

    async fn step(
        &self,
        step: &str,
        deadline: Instant,
        result: &mut String,
    ) -> Result<(), GuestFault> {
        let (word, text) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "exec" => *result = changed(self.scope.exec(text, Vec::new())),
            "durable" => *result = changed(self.scope.exec_durable(text, Vec::new()).await),
            "query" => *result = rows(self.scope.query(text, Vec::new())),
            "delete" => self.scope.delete_self(),
            "delete-durable" => {
                *result = match self.scope.delete_self_durable().await {
                    Ok(()) => "deleted".into(),
                    Err(error) => error.to_string(),
                }
            }
            "set" => {
                let at = Timestamp(text.parse().expect("a time in ms"));
                *result = done(self.scope.set_alarm(at));
            }
            "clear" => *result = done(self.scope.clear_alarm()),
            "get" => {
                *result = match self.scope.get_alarm() {
                    Ok(at) => at.map_or("none".into(), |at| at.0.to_string()),
                    Err(error) => error.to_string(),
                }
            }
            "attempt" => *result = self.scope.alarm_attempt().to_string(),
            "env" => *result = self.scope.env(text).unwrap_or_else(|| "none".into()),
            "call" => *result = self.call(text).await,
            "wait" => {
                let _waiting = Waiting::new(&self.stage.waiting);
                match timeout_at(deadline, self.stage.released.acquire()).await {
                    Ok(permit) => permit.expect("never closed").forget(),
                    Err(_) => return Err(GuestFault::WallExceeded),
                }
            }
            "refuse" => return Err(GuestFault::Refused("as asked".into())),
            "trap" => return Err(GuestFault::Trapped("as asked".into())),
            "spend" => return Err(GuestFault::CpuExceeded),
            "panic" => panic!("as asked"),
            // Anything else only names the event.
            _ => {}
        }
        Ok(())
    }
}

/// A request's body, or why it broke off.
async fn read(body: Body) -> String {
    let mut pieces = match body {
        Body::Empty => return String::new(),
        Body::Whole(bytes) => return String::from_utf8_lossy(&bytes).into_owned(),
        Body::Stream(pieces) => pieces,
    };
    let mut text = String::new();
    while let Some(piece) = poll_fn(|context| pieces.as_mut().poll_next(context)).await {
        match piece {
            Ok(piece) => text += &String::from_utf8_lossy(&piece),
            Err(error) => return error.to_string(),
        }
    }
    text
}

fn done(result: Result<(), SqlError>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "done".to_owned())
}

fn changed(result: Result<u64, SqlError>) -> String {
    result.map_or_else(|error| error.to_string(), |rows| rows.to_string())
}

fn rows(result: Result<RowSet, SqlError>) -> String {
    let set = match result {
        Ok(set) => set,
        Err(error) => return error.to_string(),
    };
    let texts = set.rows.into_iter().flatten().map(|value| match value {
        SqlValue::Text(text) => text,
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

fn answer(result: &str) -> Reply {
    Reply {
        status: 200,
        headers: Vec::new(),
        body: Body::Whole(Bytes::copy_from_slice(result.as_bytes())),
    }
}

/// A handler from its start to its end, however it ends.
struct Running<'a> {
    stage: &'a Stage,
    address: Address,
}

impl<'a> Running<'a> {
    fn start(stage: &'a Stage, address: &Address, script: &str, instance: u64) -> Self {
        let mut record = stage.lock();
        record.started.push(Started {
            address: address.clone(),
            script: script.to_owned(),
            instance,
        });
        let running = record.running.entry(address.clone()).or_default();
        *running += 1;
        if *running > 1 {
            record.overlaps += 1;
        }
        Self { stage, address: address.clone() }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(running) = self.stage.lock().running.get_mut(&self.address) {
            *running -= 1;
        }
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An event that makes a `ScriptedGuest` run `script`, and where its answer comes.
pub fn scripted_event(address: Address, script: &str) -> (Event, ReplyFrom) {
    let (reply, from) = ReplyTo::channel();
    let head = RequestHead {
        method: "GET".into(),
        path: script.into(),
        authority: "localhost".into(),
        headers: Vec::new(),
    };
    let request = Request { head, body: Body::Empty, caller: Caller::Outside };
    (Event { address, task: Task::Request(request), reply, ticket: Ticket::default() }, from)
}
