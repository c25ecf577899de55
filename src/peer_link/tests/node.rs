//! The owner of the actors, its cluster port, and a wire to it that can be cut.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus::Encoder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use wasmkeep_supervisors::address::{ActorName, Address, Class, NodeId, Tenant};
use wasmkeep_supervisors::event::{Body, BodyError, BodyStream, Caller, Event, Reply, Task};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::ports::{Hops, PeerAt, PeerLink, RelayError};
use wasmkeep_supervisors::testing::{ScriptedGuest, TreeOfPeers, TreeSetup, scripted_event};

use crate::edge::{ClusterPort, ClusterSpec};
use crate::identity::Identity;
use crate::peer_link::PeerLinks;

const PATIENCE: Duration = Duration::from_secs(60);

/// The node that has the actors.
pub struct Owner {
    pub guest: ScriptedGuest,
    pub node: Arc<TreeOfPeers>,
    pub identity: Identity,
    pub metrics: Arc<Metrics>,
    pub port: ClusterPort,
}

impl Owner {
    pub async fn start() -> Self {
        let guest = ScriptedGuest::new("room");
        let setup = TreeSetup::new().class("room", &guest);
        let node = TreeOfPeers::new(Arc::new(setup.start().await));
        let identity = Identity::draw().expect("a key");
        let metrics = Arc::clone(&setup.metrics);
        let spec = ClusterSpec {
            tls: identity.of_peers().expect("TLS"),
            node: Arc::clone(&node) as _,
            metrics: Arc::clone(&metrics),
        };
        let any = "127.0.0.1:0".parse().expect("an address");
        let port = ClusterPort::start(any, 1, spec).expect("a free port");
        Self { guest, node, identity, metrics, port }
    }

    pub fn at(&self) -> PeerAt {
        self.behind(self.port.address())
    }

    /// As a peer that is reached over a wire.
    pub fn behind(&self, address: SocketAddr) -> PeerAt {
        PeerAt { node: node_id("owner"), address: address.to_string(), key: self.identity.key() }
    }

    pub fn refused(&self, why: &str) -> u64 {
        counted(&self.metrics, "wasmkeep_peer_connections_refused_total", "why", why)
    }
}

/// The node that has the clients.
pub struct Sender {
    pub identity: Arc<Identity>,
    pub links: Arc<PeerLinks>,
    metrics: Arc<Metrics>,
}

impl Sender {
    /// One that the owner does not know.
    pub fn unknown() -> Self {
        let identity = Arc::new(Identity::draw().expect("a key"));
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let links = PeerLinks::new(Arc::clone(&identity), Arc::clone(&metrics));
        Self { identity, links, metrics }
    }

    pub fn known_to(owner: &Owner) -> Self {
        let sender = Self::unknown();
        owner.node.knows(sender.identity.key(), node_id("sender"));
        sender
    }

    pub async fn relay(&self, to: PeerAt, event: Event) -> Result<Reply, RelayError<Box<Event>>> {
        self.links.relay(to, one_hop(), event).await
    }

    /// What the actor answers to a request without a body.
    pub async fn answer(&self, to: PeerAt, actor: &str, script: &str) -> String {
        let reply = self.relay(to, event(actor, script, Body::Empty)).await.expect("an answer");
        text_of(reply.body).await
    }

    pub fn relayed(&self, outcome: &str) -> u64 {
        counted(&self.metrics, "wasmkeep_relays_total", "outcome", outcome)
    }
}

fn counted(metrics: &Metrics, name: &str, label: &str, value: &str) -> u64 {
    let mut text = Vec::new();
    let families = metrics.registry.gather();
    prometheus::TextEncoder::new().encode(&families, &mut text).expect("text");
    let text = String::from_utf8(text).expect("text");
    let start = format!("{name}{{{label}=\"{value}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.map_or(0, |count| count.parse().expect("a count"))
}

pub fn one_hop() -> Hops {
    Hops::NONE.one_more().expect("the first")
}

pub fn node_id(name: &str) -> NodeId {
    NodeId::parse(name).expect("a node")
}

pub fn address(name: &str) -> Address {
    Address {
        tenant: Tenant::default_tenant(),
        class: Class::parse("room").expect("a class"),
        name: ActorName::parse(name).expect("a name"),
    }
}

/// A request of a client; spaces of the script are `+` in a path.
pub fn event(actor: &str, script: &str, body: Body) -> Event {
    let (mut event, _) = scripted_event(address(actor), script);
    let Task::Request(request) = &mut event.task else { panic!("a request") };
    request.body = body;
    event
}

/// As if its client waited to be told to send the body.
pub fn expecting(mut event: Event) -> Event {
    let Task::Request(request) = &mut event.task else { panic!("a request") };
    let header = (Bytes::from_static(b"expect"), Bytes::from_static(b"100-continue"));
    request.head.headers.push(header);
    event
}

pub fn called_by(mut event: Event, caller: Caller) -> Event {
    let Task::Request(request) = &mut event.task else { panic!("a request") };
    request.caller = caller;
    event
}

pub async fn text_of(body: Body) -> String {
    let mut pieces = match body {
        Body::Empty => return String::new(),
        Body::Whole(bytes) => return String::from_utf8_lossy(&bytes).into_owned(),
        Body::Stream(pieces) => pieces,
    };
    let mut text = String::new();
    while let Some(piece) = next(&mut pieces).await {
        text += &String::from_utf8_lossy(&piece.expect("a piece"));
    }
    text
}

pub async fn next(pieces: &mut BodyStream) -> Option<Result<Bytes, BodyError>> {
    let piece = poll_fn(|context| pieces.as_mut().poll_next(context));
    tokio::time::timeout(PATIENCE, piece).await.expect("a piece in time")
}

pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what} has not come about");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A client's body, which knows whether anybody has asked for it.
pub struct Upload {
    pieces: mpsc::UnboundedReceiver<Result<Bytes, BodyError>>,
    asked: Arc<AtomicBool>,
}

pub struct Uploading {
    pieces: Option<mpsc::UnboundedSender<Result<Bytes, BodyError>>>,
    asked: Arc<AtomicBool>,
}

pub fn upload() -> (Uploading, Body) {
    let (sender, pieces) = mpsc::unbounded_channel();
    let asked = Arc::new(AtomicBool::new(false));
    let upload = Upload { pieces, asked: Arc::clone(&asked) };
    (Uploading { pieces: Some(sender), asked }, Body::Stream(Box::pin(upload)))
}

impl Uploading {
    pub fn send(&self, piece: &'static str) {
        self.give(Ok(Bytes::from_static(piece.as_bytes())));
    }

    pub fn give(&self, piece: Result<Bytes, BodyError>) {
        // Nobody may be left who reads it.
        let _ = self.pieces.as_ref().expect("it has not ended").send(piece);
    }

    pub fn ends(&mut self) {
        self.pieces = None;
    }

    pub fn was_asked_for(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}

impl futures_core::Stream for Upload {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.asked.store(true, Ordering::SeqCst);
        self.pieces.poll_recv(context)
    }
}

/// A wire to a port that can be cut, as by the death of the machine behind it.
pub struct Wire {
    pub address: SocketAddr,
    cut: Arc<Notify>,
    made: Arc<AtomicUsize>,
}

impl Wire {
    pub async fn to(port: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (cut, made) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let wire = Self { address, cut: Arc::clone(&cut), made: Arc::clone(&made) };
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                made.fetch_add(1, Ordering::SeqCst);
                let cut = Arc::clone(&cut);
                tokio::spawn(async move {
                    let cut = cut.notified();
                    let mut far = TcpStream::connect(port).await.expect("the port");
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = cut => {}
                    }
                });
            }
        });
        wire
    }

    /// Ends every connection there is.
    pub fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// Connections that were made over it.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
}
