//! WebSockets with short messages: what goes to and fro is a few bytes whose form is known.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::Seen;
use super::closed::connect;
use super::exchange::Answer;

/// Messages of a fan-out that are under way at once.
const WINDOW: u64 = 4;
/// Of one message, in bytes. A short frame has a head of two more, and from a client a mask of four.
const MESSAGE: usize = 16;
const RECEIVED: usize = 2 + MESSAGE;

/// An open socket.
pub async fn open(address: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut stream = connect(address).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    Answer::default().receive(&mut stream).await?;
    Ok(stream)
}

/// A client's frame. Its mask is zero, which changes nothing of what the server has to do.
pub fn frame(first: u8) -> [u8; 6 + MESSAGE] {
    let mut frame = [0; 6 + MESSAGE];
    frame[..2].copy_from_slice(&[0x81, 0x80 | MESSAGE as u8]);
    frame[6..].fill(first);
    frame
}

/// Every socket sends a message when the last has come back.
pub fn echo(address: SocketAddr, path: &str, sockets: usize, time: Duration) -> Result<Seen> {
    local(async {
        let mut streams = Vec::new();
        for _ in 0..sockets {
            streams.push(open(address, path).await?);
        }
        let began = Instant::now();
        let clients = streams.into_iter().map(|mut stream| {
            tokio::task::spawn_local(async move {
                let (mut seen, mut received) = (Seen::nothing(), [0; RECEIVED]);
                while began.elapsed() < time {
                    let sent = Instant::now();
                    stream.write_all(&frame(b'e')).await?;
                    stream.read_exact(&mut received).await?;
                    seen.note(sent.elapsed());
                }
                anyhow::Ok(seen)
            })
        });
        let mut all = Seen::nothing();
        for client in clients.collect::<Vec<_>>() {
            all.latencies.add(&client.await??.latencies)?;
        }
        all.took = began.elapsed();
        Ok(all)
    })
}

/// One socket sends, and all get it. Counts the messages received; a latency is a message's until
/// the last socket has it.
pub fn fan_out(address: SocketAddr, path: &str, sockets: usize, time: Duration) -> Result<Seen> {
    local(async {
        let mut streams = Vec::new();
        for _ in 0..sockets {
            streams.push(open(address, path).await?);
        }
        let (received, news) = (Rc::new(Cell::new(0)), Rc::new(Notify::new()));
        let mut writers = Vec::new();
        for stream in streams {
            let (mut read, write) = stream.into_split();
            writers.push(write);
            let (received, news) = (Rc::clone(&received), Rc::clone(&news));
            tokio::task::spawn_local(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = read.read(&mut buffer).await {
                    received.set(received.get() + length as u64);
                    news.notify_one();
                }
            });
        }
        let Some(sender) = writers.first_mut() else { bail!("a fan-out needs a socket") };
        let each = (sockets * RECEIVED) as u64;
        let (mut seen, began) = (Seen::nothing(), Instant::now());
        let mut sent = std::collections::VecDeque::new();
        let mut whole = 0;
        loop {
            let goes_on = began.elapsed() < time;
            while goes_on && (sent.len() as u64) < WINDOW {
                sent.push_back(Instant::now());
                sender.write_all(&frame(b'f')).await?;
            }
            if sent.is_empty() {
                break;
            }
            let wait = tokio::time::timeout(Duration::from_secs(20), news.notified());
            if wait.await.is_err() {
                bail!("a message did not reach every socket within 20 s");
            }
            while whole < received.get() / each {
                whole += 1;
                if let Some(at) = sent.pop_front() {
                    seen.note(at.elapsed());
                }
            }
        }
        seen.took = began.elapsed();
        seen.of_each = sockets as u64;
        Ok(seen)
    })
}

fn local<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, work)
}
