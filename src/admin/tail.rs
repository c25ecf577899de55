//! What happens on a running node, line by line, for one who follows it.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWrite;
use tokio::time::timeout;
use wasmkeep_supervisors::address::{ActorName, Class};
use wasmkeep_supervisors::event::Kind;
use wasmkeep_supervisors::tap::{Happening, Heard, Listener, Record};

use super::lines::write_line;
use super::operator::RunningNode;
use super::protocol::{Failure, Line, Which};

/// Why one who follows hears no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    ClientLeft,
    NodeStops,
}

/// Comes when it is over.
pub type UntilOver<'a> = Pin<&'a mut (dyn Future<Output = Over> + Send)>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TailRequest {
    #[serde(flatten)]
    pub which: Which,
    pub class: Option<String>,
    pub name: Option<String>,
    /// Empty: all of them.
    pub kinds: Vec<RecordKind>,
    /// With what stands behind the `?` of a path.
    pub query: bool,
}

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RecordKind {
    /// A client's request
    Request,
    /// A call of another actor
    Call,
    /// An attempt of on-alarm
    Alarm,
    /// A WebSocket that a client asked for
    SocketOpen,
    /// A message of a WebSocket's client
    SocketMessage,
    /// The end of a WebSocket
    SocketClose,
    /// A call the actor made
    CallOut,
    /// A line the actor wrote to its output
    Log,
    /// The actor came into memory
    Wake,
    /// It left memory
    Hibernate,
}

impl RecordKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            RecordKind::Request => "request",
            RecordKind::Call => "call",
            RecordKind::Alarm => "alarm",
            RecordKind::SocketOpen => "socket-open",
            RecordKind::SocketMessage => "socket-message",
            RecordKind::SocketClose => "socket-close",
            RecordKind::CallOut => "call-out",
            RecordKind::Log => "log",
            RecordKind::Wake => "wake",
            RecordKind::Hibernate => "hibernate",
        }
    }
}

/// One record, with the fields that its kind has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TailRecord {
    pub at_ms: u64,
    pub kind: RecordKind,
    pub class: String,
    pub name: String,
    #[serde(flatten)]
    pub fields: Fields,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fields {
    /// `tenant/class/name` of the actor that called, its name percent-encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `class/name` of the actor that was called, as the caller wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// From start to end, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Lines that were dropped, of a log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u32>,
    /// Why the actor left memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Which records are wanted.
struct Filter {
    class: Option<Class>,
    name: Option<ActorName>,
    kinds: HashSet<RecordKind>,
    query: bool,
}

impl Filter {
    fn parse(request: TailRequest) -> Result<Self, Failure> {
        let class = request.class.map(|class| Class::parse(&class)).transpose();
        let name = request.name.map(|name| ActorName::parse(&name)).transpose();
        Ok(Self {
            class: class.map_err(Failure::bad_request)?,
            name: name.map_err(Failure::bad_request)?,
            kinds: request.kinds.into_iter().collect(),
            query: request.query,
        })
    }

    fn take(&self, record: &Record) -> Option<TailRecord> {
        let address = &record.address;
        let kind = kind(&record.what);
        let is_wanted = self.class.as_ref().is_none_or(|class| *class == address.class)
            && self.name.as_ref().is_none_or(|name| *name == address.name)
            && (self.kinds.is_empty() || self.kinds.contains(&kind));
        is_wanted.then(|| TailRecord {
            at_ms: record.at.0,
            kind,
            class: address.class.to_string(),
            name: address.name.to_string(),
            fields: self.fields(&record.what),
        })
    }

    fn fields(&self, what: &Happening) -> Fields {
        match what {
            Happening::Event(event) => Fields {
                caller: event.head.caller.as_ref().map(ToString::to_string),
                method: event.head.method.clone(),
                path: event.head.path.as_deref().map(|path| self.path(path)),
                attempt: event.attempt,
                outcome: Some(event.outcome.as_str().to_owned()),
                reason: event.outcome.reason().map(|reason| reason.as_str().to_owned()),
                status: event.status,
                took_ms: Some(event.took.as_secs_f64() * 1000.0),
                ..Fields::default()
            },
            Happening::CallOut(call) => Fields {
                target: Some(call.target.clone()),
                outcome: Some(call.outcome.to_owned()),
                status: call.status,
                took_ms: Some(call.took.as_secs_f64() * 1000.0),
                ..Fields::default()
            },
            Happening::Log { is_error, line } => Fields {
                stream: Some(if *is_error { "stderr" } else { "stdout" }.to_owned()),
                text: Some(line.clone()),
                ..Fields::default()
            },
            Happening::LogDropped { lines } => {
                Fields { dropped: Some(*lines), ..Fields::default() }
            }
            Happening::Woke => Fields::default(),
            Happening::Hibernated { cause } => {
                Fields { cause: Some((*cause).to_owned()), ..Fields::default() }
            }
        }
    }

    /// Queries hold what people typed, and tokens: they are shown only to who asks for them.
    fn path(&self, path: &str) -> String {
        match path.split_once('?') {
            Some((before, _)) if !self.query => before.to_owned(),
            _ => path.to_owned(),
        }
    }
}

fn kind(what: &Happening) -> RecordKind {
    match what {
        Happening::Event(event) => match event.head.kind {
            Kind::Request => RecordKind::Request,
            Kind::Call => RecordKind::Call,
            Kind::Alarm => RecordKind::Alarm,
            Kind::SocketOpen => RecordKind::SocketOpen,
            Kind::SocketMessage => RecordKind::SocketMessage,
            Kind::SocketClose => RecordKind::SocketClose,
        },
        Happening::CallOut(_) => RecordKind::CallOut,
        Happening::Log { .. } | Happening::LogDropped { .. } => RecordKind::Log,
        Happening::Woke => RecordKind::Wake,
        Happening::Hibernated { .. } => RecordKind::Hibernate,
    }
}

/// Writes what happens until the client leaves or the node stops. What a slow client misses it is
/// told where it is missing.
pub async fn follow(
    node: &RunningNode,
    request: TailRequest,
    to: &mut (impl AsyncWrite + Unpin),
    mut until: UntilOver<'_>,
) -> Result<io::Result<()>, Failure> {
    let (tenant, app) = request.which.parse()?;
    if !node.has(&tenant, &app) {
        return Err(Failure::failed(format!("this node does not serve {tenant}/{app}")));
    }
    let filter = Filter::parse(request)?;
    let mut listener = node.tree.listen();
    Ok(async {
        write_line(to, &Line::Listening).await?;
        loop {
            let heard = tokio::select! {
                biased;
                over = &mut until => return end(over, &mut listener, &filter, to).await,
                heard = listener.next() => heard,
            };
            tell(heard, &filter, to).await?;
        }
    }
    .await)
}

/// Tells what was heard before the end, and that it is one.
async fn end(
    over: Over,
    listener: &mut Listener,
    filter: &Filter,
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    if over == Over::ClientLeft {
        return Ok(());
    }
    while let Some(heard) = listener.try_next() {
        tell(heard, filter, to).await?;
    }
    write_line(to, &Line::Stopped).await
}

/// One who reads nothing for so long has left: the place is another's.
const READ_WAIT: Duration = Duration::from_secs(60);

async fn tell(heard: Heard, filter: &Filter, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let line = match heard {
        Heard::Gap(lost) => Line::Gap { lost },
        Heard::Record(record) => match filter.take(&record) {
            Some(record) => Line::Record(Box::new(record)),
            None => return Ok(()),
        },
    };
    let written = timeout(READ_WAIT, write_line(to, &line)).await;
    written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
