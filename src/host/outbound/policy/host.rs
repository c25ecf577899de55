//! The host of a URL: a name to look up, or an address in any spelling.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// In lower case. Given to the resolver as it is, and never an address in some spelling.
    Name(String),
    Literal(IpAddr),
}

/// Splits host and port. None: user information, or a port that is none.
pub fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    if authority.contains('@') {
        return None;
    }
    let after_address = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = authority[after_address..].find(':') else {
        return Some((authority, None));
    };
    let (host, port) = authority.split_at(after_address + colon);
    match &port[1..] {
        "" => Some((host, None)),
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((host, Some(port.parse().ok()?)))
        }
        _ => None,
    }
}

impl Host {
    /// None: neither a name nor an address. Nothing is decoded: a `%`, as of an escape or a zone,
    /// is in no name that is looked up.
    pub fn parse(text: &str) -> Option<Host> {
        if let Some(inside) = text.strip_prefix('[') {
            let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Host::Literal(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let fits = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        if !fits {
            return None;
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        if is_number(last) {
            return legacy_v4(name).map(|address| Host::Literal(address.into()));
        }
        Some(Host::Name(text.to_ascii_lowercase()))
    }
}

fn is_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(is_part)
}

/// Whether a last label makes the whole host an address, or nothing: `1`, `0x1f`, and `09` too.
fn is_number(label: &str) -> bool {
    label.bytes().all(|byte| byte.is_ascii_digit()) || hexadecimal(label).is_some()
}

fn hexadecimal(part: &str) -> Option<&str> {
    let digits = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X"))?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits)
}

/// IPv4 as the C library has always taken it: one to four parts, each decimal, octal (`017`) or
/// hexadecimal (`0x7f`), the last of which fills the bytes that are left: `127.1`, `2130706433`.
fn legacy_v4(text: &str) -> Option<Ipv4Addr> {
    let parts = text.split('.').map(number).collect::<Option<Vec<u64>>>()?;
    let (last, bytes) = parts.split_last()?;
    if bytes.len() > 3 || bytes.iter().any(|byte| *byte > 255) {
        return None;
    }
    let shift = 8 * (4 - bytes.len());
    if last >> shift != 0 {
        return None;
    }
    let high = bytes.iter().fold(0, |high, byte| high << 8 | byte);
    u32::try_from(high << shift | last).ok().map(Ipv4Addr::from_bits)
}

fn number(part: &str) -> Option<u64> {
    if let Some(digits) = hexadecimal(part) {
        return u64::from_str_radix(digits, 16).ok();
    }
    let radix = if part.len() > 1 && part.starts_with('0') { 8 } else { 10 };
    // The standard's parser would take a sign.
    part.bytes().all(|byte| byte.is_ascii_digit()).then(|| u64::from_str_radix(part, radix).ok())?
}
