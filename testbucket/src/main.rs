//! `wasmkeep-testbucket`: the store, until its standard input ends.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Parser;
use tokio::net::TcpListener;
use wasmkeep_testbucket::store::{Settings, serve};
use wasmkeep_testbucket::{ACCESS_KEY, BUCKET, Dialect, SECRET_KEY};

/// A bucket in memory that speaks S3, for tests and development. Nothing in it is kept.
#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[arg(long, default_value = "aws")]
    dialect: Dialect,
    /// The bucket's name
    #[arg(long, default_value = BUCKET)]
    bucket: String,
    #[arg(long, default_value = ACCESS_KEY)]
    access_key: String,
    #[arg(long, default_value = SECRET_KEY)]
    secret_key: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Args { listen, dialect, bucket, access_key, secret_key } = Args::parse();
    let listener = TcpListener::bind(listen).await.with_context(|| format!("bind {listen}"))?;
    println!("listening on http://{}", listener.local_addr().context("read the port")?);
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        // Whoever started it has gone.
        std::process::exit(0);
    });
    serve(listener, Settings { dialect, bucket, access_key, secret_key }).await
}
