//! The store: `objects` is the map, `s3` says what operations mean in a dialect, `http` stands before
//! them and fails.

mod faults;
mod http;
mod objects;
mod s3;

use std::sync::Arc;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::auth::{S3Auth, SecretKey};
use s3s::service::S3ServiceBuilder;
use s3s::{S3Result, s3_error};
use tokio::net::TcpListener;

use self::faults::Faults;
use self::http::Front;
use self::objects::Objects;
use self::s3::Store;
use crate::Dialect;

pub struct Settings {
    pub dialect: Dialect,
    pub bucket: String,
    pub access_key: String,
    pub secret_key: String,
}

/// Serves until the listener fails.
pub async fn serve(listener: TcpListener, settings: Settings) -> Result<()> {
    let objects = Arc::new(Objects::default());
    let store = Store::new(settings.dialect, settings.bucket, Arc::clone(&objects));
    let mut service = S3ServiceBuilder::new(store);
    let secret_key = SecretKey::from(settings.secret_key);
    service.set_auth(OneUser { access_key: settings.access_key, secret_key });
    let front = Front::new(service.build(), objects, Faults::default());
    loop {
        let (stream, _) = listener.accept().await.context("accept a connection")?;
        // Small answers, each its own packet: waiting for more would cost 40 ms.
        stream.set_nodelay(true).context("set a socket's options")?;
        let front = front.clone();
        tokio::spawn(async move {
            // A client that leaves, or a fault that ends the connection: neither is news.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), front).await;
        });
    }
}

struct OneUser {
    access_key: String,
    secret_key: SecretKey,
}

#[async_trait::async_trait]
impl S3Auth for OneUser {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.access_key {
            return Ok(self.secret_key.clone());
        }
        Err(s3_error!(InvalidAccessKeyId, "The access key does not exist in our records."))
    }
}
