//! Fields within a header that one node writes for another. Pure.

use bytes::Bytes;

use super::base64;
use super::record::HopError;
use crate::address::{ActorName, Address, Class, Tenant};
use crate::event::{CallChain, Caller, Header};

/// Before everything else in the header. A later format has another.
const FORMAT: &str = "1.";

const OUTSIDE: u8 = 0;
const ACTORS: u8 = 1;
const FRONT: u8 = 2;

/// As the value of a header of at most so many bytes.
pub fn to_header(fields: &Writer, bytes_max: usize) -> Result<String, HopError> {
    let mut text = FORMAT.to_owned();
    base64::encode(&fields.0, &mut text);
    if text.len() > bytes_max { Err(HopError::TooLarge) } else { Ok(text) }
}

pub fn from_header(text: &[u8], bytes_max: usize) -> Result<Reader, HopError> {
    if text.len() > bytes_max {
        return Err(HopError::TooLarge);
    }
    let text = text.strip_prefix(FORMAT.as_bytes()).ok_or(HopError::OtherVersion)?;
    base64::decode(text).map(|bytes| Reader(bytes.into())).ok_or(HopError::Malformed)
}

/// Puts fields one after the other.
pub struct Writer(pub Vec<u8>);

impl Writer {
    fn number(&mut self, number: usize) {
        // Cut off, it would be found out by `RELAY_HEAD_BYTES_MAX`: so much does not fit.
        self.0.extend_from_slice(&(number as u32).to_le_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub fn address(&mut self, address: &Address) {
        for part in [address.tenant.as_str(), address.class.as_str(), address.name.as_str()] {
            self.bytes(part.as_bytes());
        }
    }

    pub fn caller(&mut self, caller: &Caller) {
        match caller {
            Caller::Outside => self.0.push(OUTSIDE),
            Caller::Actor(chain) => {
                self.0.push(ACTORS);
                self.number(chain.actors().len());
                chain.actors().iter().for_each(|actor| self.address(actor));
            }
            Caller::Front(front) => {
                self.0.push(FRONT);
                self.bytes(front.tenant.as_str().as_bytes());
            }
        }
    }

    pub fn headers(&mut self, headers: &[Header]) {
        self.number(headers.len());
        for (name, value) in headers {
            self.bytes(name);
            self.bytes(value);
        }
    }
}

/// Takes them off again.
pub struct Reader(pub Bytes);

impl Reader {
    fn take(&mut self, count: usize) -> Result<Bytes, HopError> {
        if count > self.0.len() {
            return Err(HopError::Malformed);
        }
        Ok(self.0.split_to(count))
    }

    pub fn byte(&mut self) -> Result<u8, HopError> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<usize, HopError> {
        let bytes = self.take(4)?;
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        usize::try_from(number).map_err(|_| HopError::Malformed)
    }

    /// How many things follow, of which each has so many bytes at least.
    fn count(&mut self, bytes_min: usize) -> Result<usize, HopError> {
        let count = self.number()?;
        if count > self.0.len() / bytes_min {
            return Err(HopError::Malformed);
        }
        Ok(count)
    }

    pub fn bytes(&mut self) -> Result<Bytes, HopError> {
        let count = self.number()?;
        self.take(count)
    }

    pub fn text(&mut self) -> Result<String, HopError> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| HopError::Malformed)
    }

    pub fn address(&mut self) -> Result<Address, HopError> {
        let (tenant, class, name) = (self.tenant()?, self.text()?, self.text()?);
        let class = Class::parse(&class).map_err(|_| HopError::Malformed)?;
        let name = ActorName::parse(&name).map_err(|_| HopError::Malformed)?;
        Ok(Address { tenant, class, name })
    }

    fn tenant(&mut self) -> Result<Tenant, HopError> {
        Tenant::parse(&self.text()?).map_err(|_| HopError::Malformed)
    }

    pub fn caller(&mut self) -> Result<Caller, HopError> {
        match self.byte()? {
            OUTSIDE => Ok(Caller::Outside),
            ACTORS => {
                let count = self.count(12)?;
                let actors = (0..count).map(|_| self.address()).collect::<Result<_, _>>()?;
                CallChain::of(actors).map(Caller::Actor).ok_or(HopError::Malformed)
            }
            FRONT => Ok(Caller::Front(Address::of_the_front(self.tenant()?))),
            _ => Err(HopError::Malformed),
        }
    }

    pub fn headers(&mut self) -> Result<Vec<Header>, HopError> {
        let count = self.count(8)?;
        (0..count).map(|_| Ok((self.bytes()?, self.bytes()?))).collect()
    }
}
