//! A range of addresses, as `--allow-outbound` takes it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

/// `10.1.0.0/16`, `fd00:1::/32`; a single address is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AddressRange {
    base: IpAddr,
    bits: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RangeError {
    #[error("{0:?} is not a range of addresses; write it as 10.1.0.0/16 or fd00:1::/32")]
    NotARange(String),
    #[error("{given:?} has bits below its prefix; did you mean {meant}?")]
    BitsBelowPrefix { given: String, meant: String },
    #[error("{0:?} holds mapped IPv4 addresses, which count as IPv4: write the range as IPv4")]
    Mapped(String),
}

impl AddressRange {
    pub const fn v4(base: Ipv4Addr, bits: u8) -> Self {
        Self { base: IpAddr::V4(base), bits }
    }

    pub const fn v6(base: Ipv6Addr, bits: u8) -> Self {
        Self { base: IpAddr::V6(base), bits }
    }

    /// Whether it holds an address of its own family.
    pub fn holds(&self, address: IpAddr) -> bool {
        first_of(address, self.bits) == self.base
    }
}

/// The address with everything below a prefix of so many bits cleared.
fn first_of(address: IpAddr, bits: u8) -> IpAddr {
    let kept = |width: u32| width.saturating_sub(bits.into());
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(kept(32)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(kept(128)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let wrong = || RangeError::NotARange(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => width,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().map_err(|_| wrong())?
            }
            Some(_) => return Err(wrong()),
        };
        if bits > width {
            return Err(wrong());
        }
        let base = first_of(address, bits);
        if base != address {
            let (given, meant) = (text.to_owned(), format!("{base}/{bits}"));
            return Err(RangeError::BitsBelowPrefix { given, meant });
        }
        if bits >= 96 && matches!(base, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return Err(RangeError::Mapped(text.to_owned()));
        }
        Ok(Self { base, bits })
    }
}

impl TryFrom<String> for AddressRange {
    type Error = RangeError;

    fn try_from(text: String) -> Result<Self, RangeError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().expect("a range")
    }

    #[test]
    fn a_range_holds_its_addresses_and_no_others() {
        let table = [
            ("10.1.0.0/16", "10.1.255.255", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("192.168.7.7", "192.168.7.7", true),
            ("192.168.7.7", "192.168.7.6", false),
            ("fd00:1::/32", "fd00:1:ffff::1", true),
            ("fd00:1::/32", "fd00:2::", false),
            ("::/0", "ffff::", true),
            ("::/0", "1.2.3.4", false),
            ("::1", "::1", true),
        ];
        for (text, address, holds) in table {
            let address = address.parse().expect("an address");
            assert_eq!(range(text).holds(address), holds, "{text} {address}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused_with_what_to_write() {
        let refused = |text: &str| text.parse::<AddressRange>().expect_err(text).to_string();
        for text in ["", "10", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "a.example"] {
            assert!(refused(text).contains("10.1.0.0/16"), "{text}");
        }
        assert!(refused("10.1.2.3/16").contains("did you mean 10.1.0.0/16"));
        assert!(refused("::ffff:10.0.0.0/104").contains("as IPv4"));
    }
}
