//! Bare servers: what this machine does with the work's outer form alone, and nothing behind it.

use std::net::SocketAddr;

use anyhow::Result;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

/// Messages that a slow socket may be behind.
const BEHIND_MAX: usize = 4096;

#[derive(Args)]
pub struct Arguments {
    kind: Kind,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// hyper, which answers `hello` to everything
    Http,
    /// Bytes to and fro after an upgrade: an echo, or to everybody
    Sockets,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        println!("listening on http://{}", listener.local_addr()?);
        let (everybody, _) = broadcast::channel(BEHIND_MAX);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            match arguments.kind {
                Kind::Http => tokio::spawn(http(stream)),
                Kind::Sockets => tokio::spawn(sockets(stream, everybody.clone())),
            };
        }
    })
}

async fn http(stream: TcpStream) {
    let hello = |_: Request<Incoming>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    };
    let connection = hyper::server::conn::http1::Builder::new();
    // A client that leaves is no news.
    let _ = connection.serve_connection(TokioIo::new(stream), service_fn(hello)).await;
}

/// No frame is looked at but for its length and first byte: this is a limit, not a server.
async fn sockets(mut stream: TcpStream, everybody: broadcast::Sender<Bytes>) {
    let _ = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                return std::io::Result::Ok(());
            }
        }
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await?;
        let (mut read, mut write) = stream.into_split();
        let mut news = everybody.subscribe();
        let (echo, mut echoes) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
        tokio::spawn(async move {
            loop {
                let first = tokio::select! {
                    message = news.recv() => message.ok(),
                    message = echoes.recv() => message,
                };
                let Some(first) = first else { return };
                // What waits goes in one write.
                let mut bytes = first.to_vec();
                while let Ok(more) = news.try_recv() {
                    bytes.extend_from_slice(&more);
                }
                if write.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        });
        let mut frame = [0; 22];
        while read.read_exact(&mut frame).await.is_ok() {
            let mut message = vec![0x81, 16];
            message.extend_from_slice(&frame[6..]);
            let message = Bytes::from(message);
            match frame[6] {
                b'e' => drop(echo.send(message)),
                _ => drop(everybody.send(message)),
            }
        }
        Ok(())
    }
    .await;
}
