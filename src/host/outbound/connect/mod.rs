//! From a destination to a connection. A name is looked up once, every address is checked, and the
//! connection goes to a checked address: a name that means something else a moment later gains
//! nothing by it.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use wasmkeep_supervisors::limits::{OUTBOUND_ADDRESSES_TRIED_MAX, OUTBOUND_LOOKUPS_MAX};
use wasmtime_wasi_http::Error;

use super::failure::Failure;
use super::policy::{Destination, Host, Policy};

pub type Answering<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Gives the addresses a name has now.
pub trait Resolver: Send + Sync + 'static {
    fn addresses<'a>(&'a self, name: &'a str) -> Answering<'a, Vec<IpAddr>>;
}

pub trait Connector: Send + Sync + 'static {
    fn connect(&self, address: SocketAddr) -> Answering<'_, TcpStream>;
}

/// The system's resolver, hosts file and all.
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(OUTBOUND_LOOKUPS_MAX)) }
    }
}

impl Resolver for SystemResolver {
    fn addresses<'a>(&'a self, name: &'a str) -> Answering<'a, Vec<IpAddr>> {
        Box::pin(async move {
            let lookup = Arc::clone(&self.lookups).acquire_owned().await;
            let lookup = lookup.map_err(io::Error::other)?;
            let name = name.to_owned();
            let looked_up = spawn_blocking(move || {
                // Kept until the system answers, which it may do long after nobody waits: threads
                // that hang in lookups must not become ever more.
                let _lookup = lookup;
                let addresses = (name.as_str(), 0).to_socket_addrs()?;
                Ok(addresses.map(|address| address.ip()).collect())
            });
            looked_up.await.map_err(io::Error::other)?
        })
    }
}

pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect(&self, address: SocketAddr) -> Answering<'_, TcpStream> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }
}

/// How this node reaches others.
pub struct Network {
    pub resolver: Box<dyn Resolver>,
    pub connector: Box<dyn Connector>,
}

impl Network {
    pub fn of_the_system() -> Self {
        Self { resolver: Box::<SystemResolver>::default(), connector: Box::new(TcpConnector) }
    }

    /// Connects to the first address that is allowed and answers.
    pub async fn connect(
        &self,
        policy: &Policy,
        to: &Destination,
        deadline: Instant,
    ) -> Result<TcpStream, Failure> {
        let addresses = self.allowed(policy, to, deadline).await?;
        let mut last = Error::DestinationUnavailable;
        for (at, address) in addresses.iter().enumerate() {
            // One that does not answer must leave time for the others.
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            let share = left / u32::try_from(addresses.len() - at).unwrap_or(1);
            last = match timeout_at(now + share, self.connector.connect(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => connect_error(&error),
                Err(_) => Error::ConnectionTimeout,
            };
        }
        Err(Failure::failed(last))
    }

    async fn allowed(
        &self,
        policy: &Policy,
        to: &Destination,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, Failure> {
        let (addresses, refusal) = match &to.host {
            Host::Literal(address) => (vec![*address], Error::DestinationIpProhibited),
            Host::Name(name) => {
                let looked_up = timeout_at(deadline, self.resolver.addresses(name)).await;
                let found = looked_up.map_err(|_| Failure::failed(Error::DnsTimeout))?;
                (found.map_err(|_| Failure::failed(unknown_name()))?, unknown_name())
            }
        };
        if addresses.is_empty() {
            return Err(Failure::failed(unknown_name()));
        }
        let allowed: Vec<_> = addresses
            .into_iter()
            .filter(|address| policy.allows(*address))
            // A mapped address is the IPv4 address it was judged as.
            .map(|address| SocketAddr::new(address.to_canonical(), to.port))
            .take(OUTBOUND_ADDRESSES_TRIED_MAX)
            .collect();
        if allowed.is_empty() { Err(Failure::denied(refusal)) } else { Ok(allowed) }
    }
}

/// A name that leads nowhere a guest may go fails as one that does not exist, or guests could find
/// out which names the network inside has.
fn unknown_name() -> Error {
    Error::DnsError { rcode: Some("NXDOMAIN".into()), info_code: None }
}

fn connect_error(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
        io::ErrorKind::TimedOut => Error::ConnectionTimeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            Error::DestinationIpUnroutable
        }
        _ => Error::DestinationUnavailable,
    }
}

#[cfg(test)]
mod tests;
