//! A closed loop: so many connections, each with one request under way, as fast as answers come.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::Seen;
use super::exchange::Answer;

/// When a loop is over: after a time, or so many requests, whichever comes first.
#[derive(Clone, Copy)]
pub struct Until {
    pub time: Duration,
    pub requests: u64,
}

impl Until {
    pub fn after(time: Duration) -> Self {
        Self { time, requests: u64::MAX }
    }

    pub fn requests(requests: u64) -> Self {
        Self { time: Duration::MAX, requests }
    }
}

/// The requests of a load: the n-th, from 0, as bytes.
pub type Requests = Rc<dyn Fn(u64) -> Vec<u8>>;

struct Shared {
    requests: Requests,
    next: Cell<u64>,
    until: Until,
    began: Instant,
    seen: RefCell<Seen>,
}

impl Shared {
    fn take(&self) -> Option<u64> {
        let number = self.next.get();
        let goes_on = number < self.until.requests && self.began.elapsed() < self.until.time;
        self.next.set(number + 1);
        goes_on.then_some(number)
    }
}

/// Runs it on the calling thread alone.
pub fn run(
    address: SocketAddr,
    connections: usize,
    until: Until,
    requests: Requests,
) -> Result<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let mut streams = Vec::new();
        for _ in 0..connections {
            streams.push(connect(address).await?);
        }
        let began = Instant::now();
        let seen = RefCell::new(Seen::nothing());
        let shared = Rc::new(Shared { requests, next: Cell::new(0), until, began, seen });
        let clients = streams.into_iter().map(|stream| {
            let shared = Rc::clone(&shared);
            tokio::task::spawn_local(client(stream, shared))
        });
        for client in clients.collect::<Vec<_>>() {
            client.await??;
        }
        let mut seen = shared.seen.replace(Seen::nothing());
        seen.took = began.elapsed();
        Ok(seen)
    })
}

pub async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await.context("connect to the server")?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn client(mut stream: TcpStream, shared: Rc<Shared>) -> Result<()> {
    let mut answer = Answer::default();
    while let Some(number) = shared.take() {
        let request = (shared.requests)(number);
        let began = Instant::now();
        stream.write_all(&request).await?;
        answer.receive(&mut stream).await?;
        shared.seen.borrow_mut().note(began.elapsed());
    }
    Ok(())
}
