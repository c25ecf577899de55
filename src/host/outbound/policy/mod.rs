//! Where guests may send requests: what a URL's authority means, which ports and addresses are
//! refused, and what the operator opened.
//!
//! An address is judged, never a name: a name is judged by the addresses it has when it is used.

mod host;
mod ports;
mod range;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use self::host::Host;
pub use self::range::{AddressRange, RangeError};

/// What an operator opened beyond public addresses and ordinary ports.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    ranges: Vec<AddressRange>,
    ports: Vec<u16>,
}

/// Where a request is to go, before any address was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub host: Host,
    pub port: u16,
    pub tls: bool,
}

/// Why a request goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Not a URL that a request can be sent to: another scheme, user information, a host that is
    /// neither a name nor an address.
    Url,
    /// A port of another protocol.
    Port,
    /// An address that guests may not reach.
    Address,
}

impl Policy {
    pub fn new(ranges: Vec<AddressRange>, ports: Vec<u16>) -> Self {
        Self { ranges, ports }
    }

    /// Reads where a URL points, and refuses what can be refused before a name is looked up. The
    /// port comes first: it is refused whatever the address.
    pub fn destination(&self, scheme: &str, authority: &str) -> Result<Destination, Denied> {
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(Denied::Url),
        };
        let (host, port) = host::split(authority).ok_or(Denied::Url)?;
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        let host = Host::parse(host).ok_or(Denied::Url)?;
        if ports::BAD.binary_search(&port).is_ok() && !self.ports.contains(&port) {
            return Err(Denied::Port);
        }
        match host {
            Host::Literal(address) if !self.allows(address) => Err(Denied::Address),
            host => Ok(Destination { host, port, tls }),
        }
    }

    /// Whether guests may reach an address: a public one, or one the operator opened.
    ///
    /// IPv6 has forms that carry an IPv4 address, and none of them reaches what that address alone
    /// would not:
    /// - a mapped one (`::ffff:0:0/96`) is the IPv4 address, since the system connects to that.
    ///   Ranges given as IPv4 open it, and no other do;
    /// - a NAT64 one (`64:ff9b::/96`) is judged as the IPv4 address too;
    /// - the others (6to4, Teredo, local NAT64, IPv4-compatible, translated) are refused, unless an
    ///   IPv6 range opens them and the IPv4 address they carry is allowed as well.
    pub fn allows(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.allows_v4(address),
            IpAddr::V6(address) => {
                if let Some(address) = address.to_ipv4_mapped().or_else(|| nat64(address)) {
                    return self.allows_v4(address);
                }
                let carried = carried(address);
                carried.iter().flatten().all(|address| self.allows_v4(*address))
                    && (is_public_v6(address) || self.opens(address.into()))
            }
        }
    }

    fn allows_v4(&self, address: Ipv4Addr) -> bool {
        is_public_v4(address) || self.opens(address.into())
    }

    fn opens(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.holds(address))
    }
}

/// What is not a host on the public internet.
const REFUSED_V4: [(Ipv4Addr, u8); 16] = [
    // This network.
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    // Private.
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Shared by a provider's customers.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // Loopback.
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, a cloud's metadata among it.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // Protocol assignments.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // Documentation.
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Relays of 6to4.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    // Benchmarks.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    // Multicast, reserved, broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (Ipv4Addr::new(255, 255, 255, 255), 32),
];

/// All of IPv6 that is used as public addresses; what it holds that is not is below.
const PUBLIC_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const REFUSED_V6: [(Ipv6Addr, u8); 4] = [
    // Protocol assignments: Teredo, benchmarks, ORCHID and the like.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    !REFUSED_V4.iter().any(|(base, bits)| AddressRange::v4(*base, *bits).holds(address.into()))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let within = |(base, bits)| AddressRange::v6(base, bits).holds(address.into());
    within(PUBLIC_V6) && !REFUSED_V6.into_iter().any(within)
}

/// The IPv4 address behind the well-known prefix of NAT64.
fn nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let prefix = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];
    address.octets().starts_with(&prefix).then(|| v4_at(address, 12))
}

/// The IPv4 addresses inside the other forms that carry some.
fn carried(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    match address.segments() {
        // 6to4: the router.
        [0x2002, ..] => [Some(v4_at(address, 2)), None],
        // Teredo: the server, and the client with every bit turned over.
        [0x2001, 0, ..] => {
            [Some(v4_at(address, 4)), Some(Ipv4Addr::from_bits(!v4_at(address, 12).to_bits()))]
        }
        // Unspecified and loopback, which only look like the next.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        // IPv4-compatible, translated, local NAT64.
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 1, ..] => {
            [Some(v4_at(address, 12)), None]
        }
        _ => [None, None],
    }
}

fn v4_at(address: Ipv6Addr, at: usize) -> Ipv4Addr {
    let octets = address.octets();
    Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3])
}
